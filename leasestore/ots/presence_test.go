package ots_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/tablestore"
	"github.com/shardwarden/shardwarden/leasestore/ots"
)

func workersSeen(t *testing.T, st *ots.Store, streams ...core.StreamID) (ids []core.WorkerID) {
	t.Helper()
	sight, err := st.Look(t.Context(), streams...)
	must(t, err)
	for _, w := range sight.Workers {
		ids = append(ids, w.ID)
	}
	return ids
}

// Fleets of different streams that share a table don't count each other, from their first look on. A worker that has not looked yet counts for all.
func TestFleetsOfOneTable(t *testing.T) {
	s, a := serve(t, emulator.Config{})
	b, c := s.store(), s.store()
	for i, st := range []*ots.Store{a, b, c} {
		must(t, st.Announce(t.Context(), core.WorkerInfo{ID: core.WorkerID(fmt.Sprint("w", i)), Beat: "1"}))
	}
	if got := workersSeen(t, a, "orders"); !slices.Equal(got, []core.WorkerID{"w0", "w1", "w2"}) {
		t.Errorf("before the others looked: %v, want all three", got)
	}
	if got := workersSeen(t, b, "orders", "invoices"); !slices.Equal(got, []core.WorkerID{"w0", "w1", "w2"}) {
		t.Errorf("w1 sees %v, want all three", got)
	}
	if got := workersSeen(t, c, "returns"); !slices.Equal(got, []core.WorkerID{"w2"}) {
		t.Errorf("w2 sees %v, want itself: the others consume other streams", got)
	}
	if got := workersSeen(t, a, "orders"); !slices.Equal(got, []core.WorkerID{"w0", "w1"}) {
		t.Errorf("w0 sees %v, want w0 and w1", got)
	}
	must(t, b.Announce(t.Context(), core.WorkerInfo{ID: "w1", Beat: "2"}))
	if got := workersSeen(t, c, "returns"); !slices.Equal(got, []core.WorkerID{"w2"}) {
		t.Errorf("after w1 announced itself again w2 sees %v, want itself", got)
	}
	if got := workersSeen(t, s.store()); len(got) != 3 {
		t.Errorf("who asks for no stream sees %v, want all", got)
	}
}

// A worker that was withdrawn by others is not brought back by its looks.
func TestLooksDoNotAnnounce(t *testing.T) {
	s, a := serve(t, emulator.Config{})
	must(t, a.Announce(t.Context(), core.WorkerInfo{ID: "w", Beat: "1"}))
	must(t, s.store().Withdraw(t.Context(), "w"))
	if got := workersSeen(t, a, "orders"); len(got) > 0 {
		t.Errorf("workers %v, want none", got)
	}
}

// Rows of workers that died long ago are removed, those of others not; and one wrong clock removes nothing.
func TestStaleWorkersAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(emulator.Config{})
		defer func() { must(t, s.Close()) }()
		a := s.store()
		must(t, a.Prepare(t.Context()))
		must(t, s.store().Announce(t.Context(), core.WorkerInfo{ID: "dead", Beat: "1"}))
		time.Sleep(12 * time.Hour)
		must(t, s.store().Announce(t.Context(), core.WorkerInfo{ID: "slow", Beat: "1"}))
		time.Sleep(13 * time.Hour)
		for i := range 2 {
			must(t, a.Announce(t.Context(), core.WorkerInfo{ID: "a", Beat: fmt.Sprint(i)}))
			workersSeen(t, a, "orders")
		}
		must(t, a.Announce(t.Context(), core.WorkerInfo{ID: "a", Beat: "2"}))
		if got := workersSeen(t, a, "orders"); !slices.Equal(got, []core.WorkerID{"a", "slow"}) {
			t.Errorf("workers %v, want a and slow", got)
		}
		// The clock of one is a year ahead.
		u := &tablestore.UpdateRowChange{TableName: status, PrimaryKey: rowKey("shardwarden", "WorkerKey", "slow")}
		u.PutColumn("sw_seen", time.Now().AddDate(1, 0, 0).Unix())
		u.SetCondition(tablestore.RowExistenceExpectation_EXPECT_EXIST)
		_, err := s.sdk.UpdateRow(&tablestore.UpdateRowRequest{UpdateRowChange: u})
		must(t, err)
		for i := range 3 {
			workersSeen(t, a, "orders")
			must(t, a.Announce(t.Context(), core.WorkerInfo{ID: "a", Beat: fmt.Sprint("b", i)}))
		}
		if got := workersSeen(t, a, "orders"); !slices.Equal(got, []core.WorkerID{"a", "slow"}) {
			t.Errorf("workers %v, want a and slow", got)
		}
	})
}

func TestAnnouncementsThatCannotBe(t *testing.T) {
	_, st := serve(t, emulator.Config{})
	expect(t, "no id", st.Announce(t.Context(), core.WorkerInfo{Beat: "1"}), core.ErrInvalid, "worker id")
	nan := 0.0
	expect(t, "load", st.Announce(t.Context(), core.WorkerInfo{ID: "w", Beat: "1", Load: map[string]float64{"cpu": nan / nan}}), core.ErrInvalid, "cpu")
}
