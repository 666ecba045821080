package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// TestStore tries a store on every rule of [core.LeaseStore], each in a subtest with a table of its own.
func TestStore(t *testing.T, make MakeStore, opts ...Option) {
	t.Helper()
	test(t, "store", storeRules(), make, opts)
}

// CheckStore does the same outside go test. The error is that of the report ([Report.Err]), or says why the rules could not be run.
func CheckStore(ctx context.Context, make MakeStore, opts ...Option) (Report, error) {
	return check(ctx, "store", storeRules(), make, opts)
}

// storeRule is a rule whose check gets a table.
func storeRule(name, demands string, f func(t *table)) rule[MakeStore] {
	return rule[MakeStore]{name, demands, func(c *checker, make MakeStore) { f(newTable(c, make)) }}
}

func storeRules() []rule[MakeStore] {
	return slices.Concat(prepareRules(), createRules(), updateRules(), deleteRules(), listRules(), valueRules(), storeErrorRules(), presenceRules(), leaderRules(), abilityRules())
}

// table is a lease table under test, prepared, with two handles on it.
type table struct {
	*checker
	h      StoreHarness
	a, b   core.LeaseStore
	stream core.StreamID
	starts bool // it can hold the instant of a start
	made   int
}

func newTable(c *checker, make MakeStore) *table {
	h, err := make(c.ctx)
	if err != nil {
		c.fatalf("make a table: %v", err)
	}
	c.cleanup(func() {
		if err := h.Close(); err != nil {
			c.errorf("close the harness: %v", err)
		}
	})
	t := &table{checker: c, h: h, a: h.Store(), b: h.Store(), stream: "123456789012:conformance:1700000000", starts: true}
	if s, ok := t.a.(core.StartHolder); ok {
		t.starts = s.HoldsStart()
	}
	for _, s := range []core.LeaseStore{t.a, t.b} {
		if err := s.Prepare(c.ctx); err != nil {
			c.fatalf("Prepare: %v", err)
		}
	}
	return t
}

func (t *table) key(shard string) core.LeaseKey {
	return core.LeaseKey{Stream: t.stream, Shard: core.ShardID(shard)}
}

// fresh is a key that no row has.
func (t *table) fresh() core.LeaseKey {
	t.made++
	return t.key(fmt.Sprintf("shardId-%012d", t.made))
}

// plain is a lease as lineage makes one: nobody's, at the beginning.
func (t *table) plain() core.Lease { return core.Lease{Key: t.fresh(), Checkpoint: core.FromHorizon} }

// full is a lease with something in every field. Owner and Next differ: a dialect may keep both in one column.
func (t *table) full() core.Lease {
	l := core.Lease{
		Key: t.fresh(), Owner: "worker-A", Next: "worker-B", Counter: 7, Checkpoint: core.Position{Token: sequence(49), Sub: 3},
		Pending: &core.Pending{At: core.Position{Token: sequence(50), Sub: 1}, State: []byte("state")}, Parents: []core.ShardID{"parent-1", "parent-2"},
		Children: []core.ShardID{"child-1"}, Range: &core.HashRange{Start: [16]byte{1}, End: [16]byte{2, 15: 9}}, Ready: true, Run: "worker-A:1", Throughput: 1.5, Switches: 2,
	}
	if t.starts {
		l.StartAt = instant(5)
	}
	return l
}

// sequence is a token such as Kinesis gives: 56 digits, far beyond 64 bits.
func sequence(n int) string {
	return fmt.Sprintf("49590338271490256608559692538361571095921575989136%06d", n)
}

// instant is whole milliseconds: more than that no service keeps.
func instant(n int) time.Time { return time.UnixMilli(1_700_000_000_000 + int64(n)).UTC() }

func (t *table) create(l core.Lease) core.Lease {
	got, err := t.a.Create(t.ctx, l)
	if err != nil {
		t.fatalf("Create(%s): %v", show(l), err)
	}
	return got
}

// get reads through the other handle, so that nothing can come from a cache of the writer.
func (t *table) get(key core.LeaseKey) core.Lease {
	got, err := t.b.Get(t.ctx, key)
	if err != nil {
		t.fatalf("Get(%s): %v", key, err)
	}
	return got
}

func (t *table) want(what string, got, want core.Lease) bool {
	if d := differ(got, want); d != "" {
		t.errorf("%s: %s", what, d)
		return false
	}
	return true
}

func (t *table) list(s core.LeaseStore, streams ...core.StreamID) []core.Lease {
	sight, err := core.Collect(s.List(t.ctx, streams...))
	if err != nil {
		t.fatalf("List: %v", err)
	}
	for _, bad := range sight.Bad {
		t.fatalf("List: %v", bad)
	}
	return sight.Leases
}

// settle waits as long as the store says that its listings may be stale.
func (t *table) settle() {
	if s, ok := t.h.(Staleness); ok {
		t.wait(s.Staleness())
	}
}

// differ says in which fields two leases differ, "" where in none. Raw is the store's own.
func differ(got, want core.Lease) string {
	var out []error
	say := func(field string, same bool, g, w any) {
		if !same {
			out = append(out, fmt.Errorf("%s is %v, want %v", field, g, w))
		}
	}
	say("Key", got.Key == want.Key, got.Key, want.Key)
	say("Owner", got.Owner == want.Owner, got.Owner, want.Owner)
	say("Next", got.Next == want.Next, got.Next, want.Next)
	say("Counter", got.Counter == want.Counter, got.Counter, want.Counter)
	say("Checkpoint", samePlace(got.Checkpoint, want.Checkpoint), place(got.Checkpoint), place(want.Checkpoint))
	say("StartAt", got.StartAt.Equal(want.StartAt), got.StartAt, want.StartAt)
	switch {
	case got.Pending == nil || want.Pending == nil:
		say("Pending", got.Pending == want.Pending, pending(got.Pending), pending(want.Pending))
	default:
		say("Pending", samePlace(got.Pending.At, want.Pending.At) && string(got.Pending.State) == string(want.Pending.State), pending(got.Pending), pending(want.Pending))
	}
	say("Parents", sameShards(got.Parents, want.Parents), got.Parents, want.Parents)
	say("Children", sameShards(got.Children, want.Children), got.Children, want.Children)
	switch {
	case got.Range == nil || want.Range == nil:
		say("Range", got.Range == want.Range, got.Range, want.Range)
	default:
		say("Range", *got.Range == *want.Range, *got.Range, *want.Range)
	}
	say("Ready", got.Ready == want.Ready, got.Ready, want.Ready)
	say("Run", got.Run == want.Run, fmt.Sprintf("%q", got.Run), fmt.Sprintf("%q", want.Run))
	say("Throughput", got.Throughput == want.Throughput, got.Throughput, want.Throughput)
	say("Switches", got.Switches == want.Switches, got.Switches, want.Switches)
	if err := errors.Join(out...); err != nil {
		return err.Error()
	}
	return ""
}

// samePlace compares what a row holds of a checkpoint. The instant of a start stands in StartAt.
func samePlace(a, b core.Position) bool { return a.String() == b.String() && a.Sub == b.Sub }

func place(p core.Position) string { return fmt.Sprintf("%s+%d", short(p.String()), p.Sub) }

func pending(p *core.Pending) string {
	if p == nil {
		return "none"
	}
	return fmt.Sprintf("%s with %d bytes", place(p.At), len(p.State))
}

func sameShards(a, b []core.ShardID) bool { return slices.Equal(sorted(a), sorted(b)) }

func sorted(ids []core.ShardID) []core.ShardID {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	return ids
}

func show(l core.Lease) string {
	return fmt.Sprintf("%s: owner %s, next %s, counter %d, at %s, pending %s, run %q, ready %v", short(l.Key.String()), short(string(l.Owner)), l.Next, l.Counter, place(l.Checkpoint), pending(l.Pending), short(l.Run), l.Ready)
}

func short(s string) string {
	if len(s) > 100 {
		return fmt.Sprintf("%s… (%d bytes)", s[:80], len(s))
	}
	return s
}

// is asks for an error's kind as the engine does, from behind two more wraps.
func is(err, kind error) bool {
	return errors.Is(&core.Error{Op: "call", Err: fmt.Errorf("worker: %w", err)}, kind)
}
