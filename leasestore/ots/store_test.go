package ots_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/tablestore"
	"github.com/shardwarden/shardwarden/leasestore/ots"
)

// The rows of a hand-over, write by write, as they were logged between two Java workers (docs/reference/tablestore.md 7), and those of ours
// around it.
func TestHandOverLeavesTheRowsOfJava(t *testing.T) {
	s, st := serve(t, emulator.Config{})
	l := lease("s2")
	l.Owner, l.Counter, l.Checkpoint = "w1", 3, core.Position{Token: "it-1"}
	l, err := st.Create(t.Context(), l)
	must(t, err)
	step := func(name string, w core.Write, want string) {
		t.Helper()
		l, err = st.Update(t.Context(), l, w.Same, w.Set)
		must(t, err)
		row, err := s.row(l.Key)
		must(t, err)
		if got := show(row); got != want {
			t.Errorf("%s: row %s, want %s", name, got, want)
		}
		read, err := st.Get(t.Context(), l.Key)
		must(t, err)
		if !reflect.DeepEqual(read, l) {
			t.Errorf("%s returned\n%+v, the row reads\n%+v", name, l, read)
		}
	}
	step("accept", core.Accept("w1:1", true), `4 "w1" "" at "it-1"`)
	step("steal", core.Ask("w2"), `4 "w1" "w2" at "it-1"`)
	step("renew", core.Renew(nil), `5 "w1" "w2" at "it-1"`)
	step("checkpoint", core.Store(core.Position{Token: "it-2"}, nil), `6 "w1" "w2" at "it-2"`)
	step("transfer", core.HandOver("w2"), `7 "w2" "w2" at "it-2"`)
	if row, err := s.row(l.Key); err != nil || row["sw_run"] != nil {
		t.Errorf("the run of w1 is left: %v, %v; it would count again if the lease came back to w1 by Java's doing", row["sw_run"], err)
	}
	step("take", core.Accept("w2:1", true), `8 "w2" "" at "it-2"`)
	step("renew", core.Renew(nil), `9 "w2" "" at "it-2"`)
	step("steal", core.Ask("w3"), `9 "w2" "w3" at "it-2"`)
	step("decline", core.Decline(), `10 "w2" "" at "it-2"`)
	step("ask", core.Ask("w3"), `10 "w2" "w3" at "it-2"`)
	step("take back", core.Unask(), `10 "w2" "" at "it-2"`)
	step("hand over to one who did not ask", core.HandOver("java"), `11 "java" "java" at "it-2"`)
	step("take from the dead", core.Take(&l, "w4", "w4:1"), `12 "w4" "" at "it-2"`)
	step("release", core.Release(), `13 "" "" at "it-2"`)
	step("take", core.Take(&l, "w5", "w5:1"), `14 "w5" "" at "it-2"`)
	step("end", core.Store(core.AtShardEnd, nil), `15 "w5" "" at "SHARD_END"`)
}

// A renewal needs the counter and no stealer: the owner hears of a request by the refusal, whoever asks.
func TestRenewalHearsOfTheStealer(t *testing.T) {
	s, st := serve(t, emulator.Config{})
	l := lease("s1")
	l.Owner, l.Run = "w1", "w1:1"
	l, err := st.Create(t.Context(), l)
	must(t, err)
	must(t, s.set(l.Key, ots.Columns{"LeaseStealer": "java"})) // the counter stays
	w := core.Renew(nil)
	_, err = st.Update(t.Context(), l, w.Same, w.Set)
	expect(t, "renewal beside a stealer", err, core.ErrConflict)
	seen, err := st.Get(t.Context(), l.Key)
	must(t, err)
	if seen.Next != "java" || seen.Counter != l.Counter || seen.Run != l.Run {
		t.Errorf("the row reads %+v", seen)
	}
	if _, err = st.Update(t.Context(), seen, w.Same, w.Set); err != nil {
		t.Errorf("renewal that knows the stealer: %v", err)
	}
}

// As the Java client, nobody asks for a lease that was handed over and not accepted: its new owner would not know it for its own.
func TestNoAskBeforeItIsAccepted(t *testing.T) {
	s, st := serve(t, emulator.Config{})
	key := keyOf("s1")
	must(t, s.put(statusKey(key), rowOfJava("LeaseOwner", "java", "LeaseStealer", "java", "LeaseCounter", int64(7))))
	seen, err := st.Get(t.Context(), key)
	must(t, err)
	w := core.Ask("w1")
	_, err = st.Update(t.Context(), seen, w.Same, w.Set)
	expect(t, "ask", err, core.ErrConflict)
	must(t, s.set(key, ots.Columns{"LeaseStealer": "", "LeaseCounter": int64(8)}))
	if _, err = st.Update(t.Context(), seen, w.Same, w.Set); err != nil {
		t.Errorf("ask once it is accepted: %v", err) // the counter may have moved
	}
}

// The golden condition of docs/reference/tablestore.md 2.6, byte for byte.
func TestConditionOnTheWire(t *testing.T) {
	seen := lease("s1")
	seen.Counter = 1
	got, err := ots.Condition(seen, core.SameCounter, core.Set{Bump: true})
	must(t, err)
	if want := "0801121f0801120c4c65617365436f756e7465721a0900010000000000000020012801"; hex.EncodeToString(got) != want {
		t.Errorf("condition is %x, want %s", got, want)
	}
}

// Every write goes out once, and none without a condition: an answer that never comes changes neither.
func TestWritesAreSentOnce(t *testing.T) {
	for _, kind := range []emulator.Kind{emulator.DropAnswer, emulator.DropRequest, emulator.CutAnswer, emulator.Truncate, emulator.FailAfter} {
		t.Run(string(kind), func(t *testing.T) {
			s, st := serve(t, emulator.Config{})
			l := lease("s1")
			l, err := st.Create(t.Context(), l)
			must(t, err)
			other, err := st.Create(t.Context(), lease("s3"))
			must(t, err)
			ended := lease("s0")
			ended.Checkpoint = core.AtShardEnd
			ended, err = st.Create(t.Context(), ended)
			must(t, err)
			s.sent()
			f := emulator.Fault{Kind: kind}
			if kind == emulator.FailAfter {
				f.Code = "OTSTimeout"
			}
			for _, op := range []string{"PutRow", "UpdateRow", "DeleteRow", "BatchWriteRow"} {
				f.Operation = op
				must(t, s.SetFault(f))
			}
			w := core.Renew(nil)
			for op, call := range map[string]func() error{
				"UpdateRow": func() error { _, err := st.Update(t.Context(), l, w.Same, w.Set); return err },
				"PutRow":    func() error { _, err := st.Create(t.Context(), lease("s2")); return err },
				"DeleteRow": func() error { return st.Delete(t.Context(), ended, core.Remove) },
				"BatchWriteRow": func() error {
					_, errs := st.UpdateMany(t.Context(), []core.LeaseUpdate{{Seen: other, Write: w}})
					return errs[0]
				},
			} {
				err := call()
				if got := s.sent(); !slices.Equal(got, []string{op}) {
					t.Errorf("sent %v, want one %s", got, op)
				}
				// The answers to creation and deletion hold nothing that can be cut off by half.
				if kind != emulator.Truncate || err != nil {
					expect(t, op, err, core.ErrUnavailable, op, "table status")
				}
			}
		})
	}
}

var (
	anyWorker   = rapid.SampledFrom([]core.WorkerID{"", "A", "B", "C"})
	anyPosition = rapid.SampledFrom([]core.Position{core.FromHorizon, core.AtShardEnd, {Token: "it-1"}, {Token: "it-1", Sub: 2}, {Token: "it-1", Sub: 3}, {Token: "it-2"}})
	anyInstant  = rapid.SampledFrom([]time.Time{time.Unix(1, 5).UTC(), time.Unix(2, 0).UTC()})
	anyPending  = rapid.SampledFrom([]*core.Pending{nil, {At: core.Position{Token: "it-3", Sub: 1}, State: []byte("x")}, {At: core.AtShardEnd}})
)

// Any condition and any change, on any row, mean what core.Same and core.Set say, write after write, whoever wrote columns in between: the store
// writes exactly when Same.Holds, and the row afterwards is Set.Apply's. What it demands more stands in excused.
func TestUpdateMeansWhatTheContractSays(t *testing.T) {
	s, st := serve(t, emulator.Config{})
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		row := drawLease(rt, core.ShardID(fmt.Sprint(n)))
		_, err := st.Create(t.Context(), row)
		must(t, err)
		for range 4 {
			former := row
			if rapid.IntRange(0, 2).Draw(rt, "java") == 0 {
				row = javaWrites(rt, s, st, row)
			}
			seen := row
			if rapid.Bool().Draw(rt, "from before") {
				seen = former
			} else if rapid.Bool().Draw(rt, "stale") {
				seen = drawLease(rt, row.Key.Shard)
				if (seen.Owner != row.Owner || seen.Run != row.Run || seen.Checkpoint != row.Checkpoint) && seen.Counter == row.Counter {
					seen.Counter++ // the counter moves with each change of owner, and each checkpoint
				}
			}
			same, set := drawWrite(rt, &seen)
			raw, err := s.row(row.Key)
			must(t, err)
			given := row.Owner != core.Nobody && raw["LeaseStealer"] == string(row.Owner)
			got, err := st.Update(t.Context(), seen, same, set)
			after, getErr := st.Get(t.Context(), row.Key)
			must(t, getErr)
			want := row
			switch {
			case !same.Valid(), unrepresentable(&seen, &set):
				if !errors.Is(err, core.ErrInvalid) {
					rt.Fatalf("error %v, want ErrInvalid", err)
				}
			case !same.Holds(&seen, &row), excused(&seen, &row, &set, same, given):
				if _, ok := errors.AsType[*core.ConflictError](err); !ok && !set.IsZero() {
					rt.Fatalf("%q does not hold\nseen %+v\nrow  %+v\nset %+v\nerror %v, want a conflict", same, seen, row, set, err)
				}
			default:
				if err != nil {
					rt.Fatalf("%q holds: %v\nseen %+v\nrow %+v\nset %+v", same, err, seen, row, set)
				}
				want = set.Apply(row)
				if same&core.SameCounter == 0 && !reflect.DeepEqual(got, want) {
					rt.Fatalf("%+v on\n%+v returned\n%+v, want\n%+v", set, row, got, want)
				}
			}
			if !reflect.DeepEqual(after, want) {
				rt.Fatalf("after %q %+v (error %v) on\n%+v the row is\n%+v, want\n%+v", same, set, err, row, after, want)
			}
			row = after
		}
	})
}

// excused are writes that the store refuses though their condition holds. A new owner or run is never written beside a next owner that is not as
// seen, a start or prepared checkpoint never beside another checkpoint. And nobody asks for what was given to its owner and not accepted yet.
func excused(seen, row *core.Lease, set *core.Set, same core.Same, given bool) bool {
	if given && same&core.SameNext != 0 && set.Owner == nil && set.Next != nil && *set.Next != core.Nobody {
		return true
	}
	if given && same&core.SameNext != 0 && seen.Owner != row.Owner {
		return true // the service compares no two columns: that a stealer is the owner is known of the owner as seen only
	}
	var more core.Same
	if set.Next == nil && (set.Owner != nil || set.Run != "") {
		more |= core.SameNext
	}
	if set.Checkpoint == nil && (set.StartAt != nil || set.Pending != nil && *set.Pending != nil) {
		more |= core.SameCheckpoint
	}
	return !more.Holds(seen, row)
}

// javaWrites lets a Java worker write a row as it would: take it, steal it, transfer it, or checkpoint.
func javaWrites(rt *rapid.T, s *service, st *ots.Store, row core.Lease) core.Lease {
	columns := ots.Columns{"LeaseCounter": row.Counter + 1}
	switch what := rapid.IntRange(0, 3).Draw(rt, "java's write"); {
	case what == 0:
		columns["LeaseOwner"], columns["LeaseStealer"] = "java", ""
	case what == 1 && row.Owner != core.Nobody && row.Next == core.Nobody:
		columns = ots.Columns{"LeaseStealer": "java"}
	case what == 2 && row.Next != core.Nobody:
		columns["LeaseOwner"] = string(row.Next)
	default:
		columns["Checkpoint"] = rapid.SampledFrom([]string{"it-1", "it-9", "SHARD_END"}).Draw(rt, "java's checkpoint")
	}
	if err := s.set(row.Key, columns); err != nil {
		rt.Fatal(err)
	}
	after, err := st.Get(rt.Context(), row.Key)
	if err != nil {
		rt.Fatal(err)
	}
	return after
}

func drawLease(rt *rapid.T, shard core.ShardID) core.Lease {
	l := core.Lease{
		Key: keyOf(shard), Owner: anyWorker.Draw(rt, "owner"), Next: anyWorker.Draw(rt, "next"),
		Counter: rapid.Int64Range(0, 2).Draw(rt, "counter"), Checkpoint: anyPosition.Draw(rt, "checkpoint"), Pending: anyPending.Draw(rt, "pending"),
		Ready: rapid.Bool().Draw(rt, "ready"), Switches: rapid.Int64Range(0, 2).Draw(rt, "switches"),
	}
	if l.Owner == core.Nobody || l.Next == l.Owner {
		l.Next = core.Nobody
	}
	if l.Owner != core.Nobody && rapid.Bool().Draw(rt, "has run") {
		l.Run = core.NewRun(l.Owner, "r")
	}
	if rapid.Bool().Draw(rt, "has start") {
		l.StartAt = anyInstant.Draw(rt, "start")
	}
	if rapid.Bool().Draw(rt, "has child") {
		l.Children = []core.ShardID{"c1"}
	}
	return l
}

func drawWrite(rt *rapid.T, seen *core.Lease) (core.Same, core.Set) {
	var set core.Set
	maybe := func(name string) bool { return rapid.IntRange(0, 2).Draw(rt, "set "+name) == 0 }
	same := core.Same(rapid.IntRange(0, 63).Draw(rt, "same"))
	set.Bump = rapid.Bool().Draw(rt, "bump")
	if maybe("owner") {
		set.Owner = new(anyWorker.Draw(rt, "to owner"))
	}
	if maybe("next") {
		set.Next = new(anyWorker.Draw(rt, "to next"))
	}
	owner := seen.Owner
	if set.Owner != nil {
		owner = *set.Owner
	}
	if owner != core.Nobody && maybe("run") {
		set.Run = core.NewRun(owner, "n")
	}
	if set.Run != "" || set.Owner != nil || set.Next != nil && *set.Next != core.Nobody {
		same |= core.SameCounter // as every write of package core that makes an owner or accepts; who is asked is named by SameOwner and SameNext
	}
	if maybe("checkpoint") {
		set.Checkpoint = new(anyPosition.Draw(rt, "to checkpoint"))
	}
	if maybe("start") {
		set.StartAt = new(anyInstant.Draw(rt, "to start"))
	}
	if maybe("pending") {
		set.Pending = new(anyPending.Draw(rt, "to pending"))
	}
	set.Ready = maybe("ready")
	set.Switches = core.SwitchOp(rapid.IntRange(0, 2).Draw(rt, "switch"))
	if maybe("children") {
		set.Children = []core.ShardID{"c2", "c1"}
	}
	if maybe("range") {
		set.Range = &core.HashRange{End: [16]byte{9}}
	}
	if maybe("throughput") {
		set.Throughput = new(0.25)
	}
	return same, set
}

// unrepresentable is a next owner of nobody's, or one that is the owner.
func unrepresentable(seen *core.Lease, set *core.Set) bool {
	owner, next := seen.Owner, seen.Next
	if set.Owner != nil {
		owner = *set.Owner
	}
	if set.Next != nil {
		next = *set.Next
	}
	return (set.Owner != nil || set.Next != nil) && next != core.Nobody && (owner == core.Nobody || owner == next)
}

// Many updates go out in batches; two of one row never in the same; each has its own outcome, whatever befalls its batch.
func TestUpdateMany(t *testing.T) {
	s, st := serve(t, emulator.Config{})
	var u []core.LeaseUpdate
	for i := range 450 {
		l, err := st.Create(t.Context(), lease(core.ShardID(fmt.Sprint("s", i))))
		must(t, err)
		u = append(u, core.LeaseUpdate{Seen: l, Write: core.Write{Same: core.SameCounter, Set: core.Set{Bump: true, Ready: true}}})
	}
	twice := u[7]
	twice.Seen.Counter++
	u = append(u, twice, core.LeaseUpdate{Seen: lease("s0"), Write: core.Write{Same: core.SameOwner}}, core.LeaseUpdate{Seen: u[9].Seen})
	must(t, s.SetFault(emulator.Fault{Kind: emulator.FailRows, Code: "OTSServerBusy", Key: "s3"}))
	before := s.Calls()["BatchWriteRow"]
	s.sent()
	rows, errs := st.UpdateMany(t.Context(), u)
	if got := s.Calls()["BatchWriteRow"] - before; got != 3 {
		t.Errorf("%d batches for 451 updates, want 3", got)
	}
	for i, err := range errs {
		switch {
		case i == 3:
			expect(t, "a row that was refused as one too many", err, core.ErrThrottled)
		case i == 451:
			expect(t, "a mask that is none", err, core.ErrInvalid)
		case err != nil:
			t.Errorf("update %d: %v", i, err)
		case i < 450 && (rows[i].Counter != 1 || !rows[i].Ready):
			t.Errorf("update %d: %+v", i, rows[i])
		}
	}
	if rows[450].Counter != 2 || rows[452].Counter != 1 {
		t.Errorf("the second update of s7 left counter %d, want 2; the update of s9 that changes nothing shows %d, want 1", rows[450].Counter, rows[452].Counter)
	}
}

// An answer that was damaged on its way is an error, and never a row.
func TestDamagedAnswers(t *testing.T) {
	for _, kind := range []emulator.Kind{emulator.Corrupt, emulator.Truncate, emulator.CutAnswer} {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // reads are tried again for a while
				s := newService(emulator.Config{})
				defer func() { must(t, s.Close()) }()
				st := s.store()
				must(t, st.Prepare(t.Context()))
				l, err := st.Create(t.Context(), lease("s1"))
				must(t, err)
				for _, op := range []string{"GetRow", "GetRange"} {
					must(t, s.SetFault(emulator.Fault{Kind: kind, Operation: op}))
				}
				_, err = st.Get(t.Context(), l.Key)
				expect(t, "Get", err, core.ErrUnavailable)
				_, err = core.Collect(st.List(t.Context(), stream))
				expect(t, "List", err, core.ErrUnavailable)
				s.ClearFaults()
				must(t, s.SetFault(emulator.Fault{Kind: kind, Operation: "GetRow", Times: 2}))
				if got, err := st.Get(t.Context(), l.Key); err != nil || !reflect.DeepEqual(got, l) {
					t.Errorf("a third attempt gives %+v, %v", got, err)
				}
			})
		})
	}
}

// A lease row that can't be read does not keep the others from being listed, on whatever page it stands.
func TestGarbageAmongOthers(t *testing.T) {
	s, st := serve(t, emulator.Config{PageRows: 3})
	for i := range 10 {
		_, err := st.Create(t.Context(), lease(core.ShardID(fmt.Sprint("s", i))))
		must(t, err)
	}
	must(t, s.put(statusKey(keyOf("s2x")), ots.Columns{"LeaseCounter": int64(9)}))
	must(t, s.set(keyOf("s5"), ots.Columns{"Checkpoint": []byte("garbage")}))
	sight, err := core.Collect(st.List(t.Context(), stream))
	must(t, err)
	var bad []string
	for _, b := range sight.Bad {
		bad = append(bad, string(b.Key.Shard))
	}
	if len(sight.Leases) != 9 || !slices.Equal(bad, []string{"s2x", "s5"}) {
		t.Errorf("%d leases, unreadable %v; want 9, s2x and s5", len(sight.Leases), bad)
	}
	_, err = st.Create(t.Context(), lease("s2x"))
	expect(t, "create in the place of debris", err, core.ErrExists)
}

func TestKeysThatCannotBe(t *testing.T) {
	s, st := serve(t, emulator.Config{})
	for name, key := range map[string]core.LeaseKey{
		"no stream": {Shard: "s"}, "no shard": {Stream: stream}, "too long": {Stream: stream, Shard: core.ShardID(strings.Repeat("s", 1025))}, "no text": {Stream: stream, Shard: "\xff"},
	} {
		l := core.Lease{Key: key, Checkpoint: core.FromHorizon}
		_, err := st.Create(t.Context(), l)
		expect(t, name+": Create", err, core.ErrInvalid)
		_, err = st.Get(t.Context(), key)
		expect(t, name+": Get", err, core.ErrInvalid)
		_, err = st.Update(t.Context(), l, 0, core.Set{Bump: true})
		expect(t, name+": Update", err, core.ErrInvalid)
		expect(t, name+": Delete", st.Delete(t.Context(), l, 0), core.ErrInvalid)
	}
	if got := s.sent(); len(got) > 0 {
		t.Errorf("sent %v", got)
	}
}

func FuzzPage(f *testing.F) {
	f.Add([]byte{0x0a, 0, 0x12, 0})
	f.Add([]byte("\x12\x10\x75\x00\x00\x00\x01\x03\x04\x01\x00\x00\x00k\x05"))
	f.Add([]byte("\x1a\x05\x75\x00\x00\x00\x01\x28\x01"))
	f.Fuzz(func(t *testing.T, body []byte) {
		_, rest, err := ots.TakePage(body)
		if err == nil && len(rest) > len(body)+2 {
			t.Errorf("the SDK is shown %d bytes of %d", len(rest), len(body))
		}
	})
}
