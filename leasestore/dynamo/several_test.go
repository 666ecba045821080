package dynamo_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/shardwarden/shardwarden/conformance"
	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/dynamodb"
	"github.com/shardwarden/shardwarden/leasestore/dynamo"
)

const another = core.StreamID("123456789012:payments:1796039487")

func TestConformanceOfSeveralStreams(t *testing.T) {
	conformance.TestStore(t, func(context.Context) (conformance.StoreHarness, error) {
		b := newBench()
		b.several = true
		return b, nil
	}, conformance.FakeTime())
}

// The rows of the KCL's multi-stream mode are read as they are meant, each under its stream, and a lease made by us has the attributes of theirs.
func TestRowsOfTheKCLsMultiStreamMode(t *testing.T) {
	srv := serve(t, emulator.Config{})
	s := srv.ready(t, dynamo.SeveralStreams())
	for _, row := range readDump(t, "kcl-3.5.1.multi.2-after-split-and-shutdown.json").Items {
		srv.put(t, string(row))
	}
	const m1, m2 = core.StreamID("123456789012:m1:1796039487"), core.StreamID("123456789012:m2:1796039487")
	of := map[core.StreamID][]string{}
	sight, err := s.Look(t.Context(), m1, m2)
	must(t, err)
	for _, l := range sight.Leases {
		of[l.Key.Stream] = append(of[l.Key.Stream], string(l.Key.Shard))
	}
	for id, want := range map[core.StreamID]int{m1: 4, m2: 2} {
		if slices.Sort(of[id]); len(of[id]) != want || of[id][0] != "shardId-000000000000" {
			t.Errorf("stream %s: leases %v, want %d from shardId-000000000000 on", id, of[id], want)
		}
	}
	only, err := s.Look(t.Context(), m2)
	must(t, err)
	if len(only.Leases) != 2 || len(sight.Bad)+len(only.Bad) > 0 {
		t.Errorf("of one stream %d leases, want 2; bad rows %v %v", len(only.Leases), sight.Bad, only.Bad)
	}

	const key = "123456789012:m1:1796039487:shardId-000000000002"
	theirs := attrsOf(srv.row(t, key))
	l, err := s.Get(t.Context(), core.LeaseKey{Stream: m1, Shard: "shardId-000000000002"})
	must(t, err)
	must(t, s.Delete(t.Context(), l, core.SameCounter))
	_, err = s.Create(t.Context(), l)
	must(t, err)
	if ours := attrsOf(srv.row(t, key)); !slices.Equal(ours, theirs) {
		t.Errorf("a lease of ours has %v, theirs %v", ours, theirs)
	}
	write := core.Take(&l, "go", core.NewRun("go", "1"))
	_, err = s.Update(t.Context(), l, write.Same, write.Set)
	must(t, err)
	if row := srv.row(t, key); strings.Contains(row, "sw_stream") {
		t.Errorf("the key says which stream it is, and so does a stamp: %s", row)
	}
}

func attrsOf(row string) (names []string) {
	for _, a := range splitAttrs(row) {
		name, _, _ := strings.Cut(a, "=")
		names = append(names, name)
	}
	return names
}

// Shards of the same id, of two streams and of two streams of one name, have leases of their own.
func TestSeveralStreamsKeepApart(t *testing.T) {
	srv := serve(t, emulator.Config{})
	s := srv.ready(t, dynamo.SeveralStreams())
	again := core.StreamID("123456789012:orders:1799999999")
	for i, id := range []core.StreamID{stream, another, again} {
		l := lease("shardId-000000000000")
		l.Key.Stream, l.Counter = id, int64(i+1)
		_, err := s.Create(t.Context(), l)
		must(t, err)
	}
	for i, id := range []core.StreamID{stream, another, again} {
		l, err := s.Get(t.Context(), core.LeaseKey{Stream: id, Shard: "shardId-000000000000"})
		must(t, err)
		if l.Counter != int64(i+1) || l.Key.Stream != id {
			t.Errorf("%s: counter %d of %s, want %d", id, l.Counter, l.Key.Stream, i+1)
		}
	}
	all, err := core.Collect(s.List(t.Context()))
	must(t, err)
	if len(all.Leases) != 3 {
		t.Errorf("%d leases altogether, want 3", len(all.Leases))
	}
}

// A table of one kind is refused by a store of the other, whichever call meets it first, with what it is and what to do.
func TestTheOtherKindOfTable(t *testing.T) {
	for _, c := range []struct {
		name          string
		filled, opens []dynamo.Option
		says          []string
	}{
		{"one stream, opened for several", nil, []dynamo.Option{dynamo.SeveralStreams()}, []string{app, "single stream", "streamName", "application name", "without dynamo.SeveralStreams"}},
		{"several streams, opened for one", []dynamo.Option{dynamo.SeveralStreams()}, nil, []string{app, "several streams", string(stream), "application name", "dynamo.SeveralStreams"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := serve(t, emulator.Config{})
			_, err := srv.ready(t, c.filled...).Create(t.Context(), lease("1"))
			must(t, err)
			s := srv.store(c.opens...)
			expect(t, "prepare", s.Prepare(t.Context()), core.ErrInvalid, c.says...)
			_, err = core.Collect(s.List(t.Context(), stream))
			expect(t, "list", err, core.ErrInvalid, c.says...)
			_, err = s.Look(t.Context(), stream)
			expect(t, "look", err, core.ErrInvalid, c.says...)
			if row := srv.row(t, "1") + srv.row(t, string(stream)+":1"); !strings.Contains(row, "leaseCounter=N 0") {
				t.Errorf("the row was touched: %s", row)
			}
		})
	}
}

// What cannot be a stream, or a row, of a table of several streams.
func TestBadInputOfSeveralStreams(t *testing.T) {
	srv := serve(t, emulator.Config{})
	s := srv.ready(t, dynamo.SeveralStreams())
	for _, id := range []core.StreamID{"", "orders", "123456789012:orders", "arn:aws:kinesis:eu-west-1:123456789012:stream/orders", "123456789012:orders:soon"} {
		l := lease("1")
		l.Key.Stream = id
		_, err := s.Create(t.Context(), l)
		expect(t, string(id), err, core.ErrInvalid, "account:stream:creationEpoch")
	}
	_, err := s.Create(t.Context(), lease(""))
	expect(t, "no shard", err, core.ErrInvalid, "shard")
	_, err = core.Collect(s.List(t.Context(), "orders"))
	expect(t, "list", err, core.ErrInvalid, "account:stream:creationEpoch", "orders")

	must(t, func() error { _, err := s.Create(t.Context(), lease("1")); return err }())
	srv.put(t,
		`{"leaseKey":{"S":"123456789012:orders:1796039487:2"},"streamName":{"S":"123456789012:orders:1796039487"},"shardId":{"S":"3"},"leaseCounter":{"N":"1"},"checkpoint":{"S":"LATEST"}}`,
		`{"leaseKey":{"S":"123456789012:payments:1796039487:2"},"streamName":{"S":"123456789012:payments:1796039487"},"shardId":{"S":"2"},"leaseCounter":{"S":"x"},"checkpoint":{"S":"LATEST"}}`,
		`{"leaseKey":{"S":"123456789012:orders:1796039487:4"},"leaseCounter":{"N":"1"},"checkpoint":{"S":"LATEST"}}`) // no attributes: the key tells
	sight, err := s.Look(t.Context(), stream)
	must(t, err)
	var shards []core.ShardID
	for _, l := range sight.Leases {
		shards = append(shards, l.Key.Shard)
	}
	slices.Sort(shards)
	if !slices.Equal(shards, []core.ShardID{"1", "4"}) {
		t.Errorf("leases of %v, want 1 and 4", shards)
	}
	if len(sight.Bad) != 1 || !strings.Contains(sight.Bad[0].Error(), "1796039487:3") {
		t.Errorf("bad rows %v, want that whose key and attributes differ, and not that of another stream", sight.Bad)
	}
	if _, ok := errors.AsType[*core.RowError](sight.Bad[0]); !ok {
		t.Errorf("%T, want *core.RowError", sight.Bad[0])
	}
}
