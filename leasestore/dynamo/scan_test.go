package dynamo_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/dynamodb"
)

// fill puts n leases of KCL 3.5 into the table.
func fill(t testing.TB, srv *service, n int) {
	t.Helper()
	for i := range n {
		srv.put(t, fmt.Sprintf(`{"leaseKey":{"S":"shardId-%012d"},"leaseCounter":{"N":"%d"},"checkpoint":{"S":"TRIM_HORIZON"},"checkpointSubSequenceNumber":{"N":"0"},"entityType":{"S":"LEASE"}}`, i, i))
	}
}

// A listing goes through all pages, in one part or several, and has each lease once.
func TestPages(t *testing.T) {
	for _, n := range []int{0, 1, 9, 2500} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			srv := serve(t, emulator.Config{})
			s := srv.ready(t)
			fill(t, srv, n)
			page := max(3, n/20)
			srv.SetFault(emulator.Fault{Kind: emulator.FaultPageSize, Op: "Scan", Items: page})
			for look := range 3 { // the first doesn't know yet how big the table is
				before := srv.Calls()["Scan"]
				sight, err := s.Look(t.Context(), stream)
				must(t, err)
				seen := map[core.ShardID]int64{}
				for _, l := range sight.Leases {
					seen[l.Key.Shard] = l.Counter
				}
				if len(sight.Leases) != n || len(seen) != n {
					t.Fatalf("look %d: %d leases, %d different, want %d", look, len(sight.Leases), len(seen), n)
				}
				if calls := srv.Calls()["Scan"] - before; calls < int64(n/page) || calls > int64(n/page+8) {
					t.Errorf("look %d: %d calls for %d rows in pages of %d", look, calls, n, page)
				}
			}
		})
	}
}

// A listing that fails in the middle, in whichever part, yields no lease at all: half of one would read as shards without leases.
func TestListingIsCompleteOrAnError(t *testing.T) {
	srv := serve(t, emulator.Config{})
	s := srv.ready(t)
	fill(t, srv, 2500)
	_, err := s.Look(t.Context(), stream)
	must(t, err)
	srv.SetFault(emulator.Fault{Kind: emulator.FaultPageSize, Op: "Scan", Items: 300})
	srv.SetFault(emulator.Fault{Kind: emulator.FaultDenied, Op: "Scan", Probability: 0.2})
	failed := 0
	for range 8 {
		n, ended := 0, false
		for _, err := range s.List(t.Context(), stream) {
			switch {
			case ended:
				t.Fatal("something came after the error")
			case err != nil:
				expect(t, "list", err, core.ErrDenied, "dynamodb:Scan")
				ended = true
			default:
				n++
			}
		}
		switch {
		case ended && n > 0, !ended && n != 2500:
			t.Fatalf("%d leases and an error: %v", n, ended)
		case ended:
			failed++
		}
	}
	if failed == 0 {
		t.Error("no listing failed: the test shows nothing")
	}
}

// A listing may be left early, and read as often as wanted.
func TestLeaveAListing(t *testing.T) {
	srv := serve(t, emulator.Config{})
	s := srv.ready(t)
	fill(t, srv, 5)
	list := s.List(t.Context(), stream)
	for range 2 {
		n := 0
		for _, err := range list {
			must(t, err)
			if n++; n == 2 {
				break
			}
		}
		if n != 2 {
			t.Fatalf("%d leases before the break", n)
		}
	}
}

// What is no lease is no error: rows of the KCL's coordinator with and without their type, of workers, of kinds to come.
func TestOtherRowsAreSkipped(t *testing.T) {
	srv := serve(t, emulator.Config{})
	s := srv.ready(t)
	fill(t, srv, 1)
	srv.put(t,
		`{"leaseKey":{"S":"Leader"},"ownerName":{"S":"w"},"leaseDuration":{"S":"120000"},"recordVersionNumber":{"S":"x"}}`,
		`{"leaseKey":{"S":"Migration3.0"},"cv":{"S":"CLIENT_VERSION_3X"},"leaseCounter":{"N":"1"}}`,
		`{"leaseKey":{"S":"TableMigration3.5"},"tm":{"S":"TABLE_MIGRATION_STATUS_COMPLETE"}}`,
		`{"leaseKey":{"S":"1:orders:2"},"streamId":{"S":"x"},"entityType":{"S":"STREAM"}}`,
		`{"leaseKey":{"S":"w"},"lut":{"N":"1"},"entityType":{"S":"WORKER_METRIC_STATS"}}`,
		`{"leaseKey":{"S":"new"},"entityType":{"S":"QUOTA"},"leaseCounter":{"S":"x"}}`,
		`{"leaseKey":{"S":"stranger"},"colour":{"S":"blue"}}`,
	)
	sight, err := s.Look(t.Context(), stream)
	must(t, err)
	if len(sight.Leases) != 1 || len(sight.Bad) != 0 || len(sight.Workers) != 1 {
		t.Errorf("%d leases, bad rows %v, workers %v", len(sight.Leases), sight.Bad, sight.Workers)
	}
	list, err := core.Collect(s.List(t.Context(), stream))
	must(t, err)
	if len(list.Leases) != 1 || len(list.Bad) != 0 {
		t.Errorf("List: %d leases, bad rows %v", len(list.Leases), list.Bad)
	}
	_, err = s.Get(t.Context(), core.LeaseKey{Stream: stream, Shard: "w"})
	if bad, ok := errors.AsType[*core.RowError](err); !ok || bad.Row != "w" {
		t.Errorf("Get of a worker's row: %v, want a *core.RowError that names it", err)
	}
}

// A table of the KCL's multi-stream mode is refused as a whole: its shard ids name no lease of ours.
func TestTableOfSeveralStreams(t *testing.T) {
	srv := serve(t, emulator.Config{})
	s := srv.ready(t)
	for _, row := range readDump(t, "kcl-3.5.1.multi.1-parent-unfinished.json").Items {
		srv.put(t, string(row))
	}
	_, err := core.Collect(s.List(t.Context(), stream))
	expect(t, "list", err, core.ErrInvalid, app, "several streams", "123456789012:m", "choose another application name")
	expect(t, "prepare", srv.store().Prepare(t.Context()), core.ErrInvalid, "several streams")
}
