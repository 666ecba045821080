package conformance

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// value is a lease that a store must keep to the letter.
type value struct {
	name string
	do   func(l *core.Lease)
}

func values(starts bool) []value {
	var last core.HashRange
	for i := range last.End {
		last.End[i] = 255
	}
	out := []value{
		{"nothing but a start", func(l *core.Lease) {}},
		{"the end", func(l *core.Lease) { l.Checkpoint = core.AtShardEnd }},
		{"a token of 56 digits", func(l *core.Lease) { l.Checkpoint = core.Position{Token: sequence(999_999)} }},
		{"a token of 3 KB", func(l *core.Lease) { l.Checkpoint = core.Position{Token: strings.Repeat("it3r/+=", 440)} }},
		{"a token of unicode", func(l *core.Lease) { l.Checkpoint = core.Position{Token: "停留-é-🜂-\u200d"} }},
		{"a token that looks like a number", func(l *core.Lease) { l.Checkpoint = core.Position{Token: "000123.0"} }},
		{"a place inside a token", func(l *core.Lease) { l.Checkpoint = core.Position{Token: sequence(1), Sub: 1} }},
		{"a place far inside a token", func(l *core.Lease) { l.Checkpoint = core.Position{Token: sequence(1), Sub: 1 << 62} }},
		{"the highest counter", func(l *core.Lease) { l.Counter = math.MaxInt64 - 1 }},
		{"many changes of owner", func(l *core.Lease) { l.Switches = 1 << 40 }},
		{"an owner of 200 letters", func(l *core.Lease) {
			l.Owner = core.WorkerID(strings.Repeat("w", 200))
			l.Run = core.NewRun(l.Owner, "1")
		}},
		{"an owner with colons", func(l *core.Lease) { l.Owner, l.Run = "host:12:ab", "host:12:ab:77" }},
		{"an owner of unicode", func(l *core.Lease) { l.Owner, l.Run = "Wörker 工", "Wörker 工:1" }},
		{"owner and next", func(l *core.Lease) { l.Owner, l.Next = "worker-A", "worker-B" }},
		{"something pending", func(l *core.Lease) {
			l.Pending = &core.Pending{At: core.Position{Token: sequence(2), Sub: 7}, State: []byte("state")}
		}},
		{"64 KiB pending", func(l *core.Lease) {
			l.Pending = &core.Pending{At: core.Position{Token: sequence(2)}, State: bytes.Repeat([]byte{0, 255, 7, '"'}, 16<<10)}
		}},
		{"the end pending", func(l *core.Lease) { l.Pending = &core.Pending{At: core.AtShardEnd, State: []byte{1}} }},
		{"one parent", func(l *core.Lease) { l.Parents = []core.ShardID{"shardId-a"} }},
		{"both parents", func(l *core.Lease) { l.Parents = []core.ShardID{"shardId-a", "shardId-b"} }},
		{"children", func(l *core.Lease) { l.Children = []core.ShardID{"shardId-c", "shardId-d"} }},
		{"the first key of the range", func(l *core.Lease) { l.Range = &core.HashRange{} }},
		{"all of the range", func(l *core.Lease) { l.Range = &last }},
		{"a range in the middle", func(l *core.Lease) { l.Range = &core.HashRange{Start: [16]byte{15: 10}, End: [16]byte{128, 15: 1}} }},
		{"ready", func(l *core.Lease) { l.Ready = true }},
		{"throughput", func(l *core.Lease) { l.Throughput = 1234.5625 }},
		{"a long shard id", func(l *core.Lease) { l.Key.Shard = core.ShardID(strings.Repeat("s", 128)) }},
	}
	if starts {
		out = append(out,
			value{"latest", func(l *core.Lease) { l.Checkpoint = core.FromLatest }},
			value{"latest, resolved", func(l *core.Lease) { l.Checkpoint, l.StartAt = core.FromLatest, instant(1) }},
			value{"at a time", func(l *core.Lease) {
				l.Checkpoint, l.StartAt = core.Position{Anchor: core.AtTime}, time.Date(1999, 12, 31, 23, 59, 59, 0, time.UTC)
			}},
			value{"at a time, of another zone", func(l *core.Lease) {
				l.Checkpoint, l.StartAt = core.Position{Anchor: core.AtTime}, instant(1).In(time.FixedZone("east", 5*3600))
			}})
	}
	return out
}

func valueRules() []rule[MakeStore] {
	return []rule[MakeStore]{
		storeRule("values-kept", "Every value of a lease comes back as it was created: from Create, Get and List.", func(t *table) {
			all := map[core.LeaseKey]core.Lease{}
			for _, v := range values(t.starts) {
				l := t.plain()
				v.do(&l)
				got, err := t.a.Create(t.ctx, l)
				if err != nil {
					t.errorf("%s: Create: %v", v.name, err)
					continue
				}
				t.want(v.name+": row returned by Create", got, l)
				t.want(v.name+": row", t.get(l.Key), l)
				all[l.Key] = l
			}
			t.settle()
			t.complete("List", t.list(t.b, t.stream), all)
		}),
		storeRule("values-updated", "Every value comes back as an update wrote it.", func(t *table) {
			for _, v := range values(t.starts) {
				l := t.plain()
				v.do(&l)
				set := core.Set{Checkpoint: &l.Checkpoint, Owner: &l.Owner, Next: &l.Next, Pending: &l.Pending, Range: l.Range, Throughput: &l.Throughput, Run: l.Run, Children: l.Children, Ready: l.Ready}
				if !l.StartAt.IsZero() {
					set.StartAt = &l.StartAt
				}
				row := t.plain()
				row.Owner, row.Counter = "worker-Z", 1
				t.apply(v.name, row, set, core.SameCounter)
			}
		}),
		storeRule("start-bound", "The instant of a start belongs to its checkpoint: another checkpoint drops it, and a start written again does not bring it back.", func(t *table) {
			if !t.starts {
				t.skip("ability to hold the instant of a start")
			}
			l := t.plain()
			l.Owner, l.Checkpoint, l.StartAt = "worker-A", core.FromLatest, instant(9)
			l = t.create(l)
			for i, p := range []core.Position{{Token: sequence(5)}, core.FromLatest, {Token: sequence(6), Sub: 2}, core.AtShardEnd} {
				got, err := t.a.Update(t.ctx, l, core.SameCounter, core.Set{Bump: true, Checkpoint: &p})
				if err != nil {
					t.fatalf("Update: %v", err)
				}
				for what, x := range map[string]core.Lease{"row returned": got, "row": t.get(l.Key)} {
					if !x.StartAt.IsZero() {
						t.errorf("%s after checkpoint %d (%s): start instant %v, want none", what, i, place(p), x.StartAt)
					}
				}
				l = got
			}
		}),
		storeRule("pending-bound", "What is pending belongs to the checkpoint beside it: a write of another that does not name it drops it.", func(t *table) {
			l := t.create(t.full())
			got, err := t.a.Update(t.ctx, l, core.SameCounter, core.Set{Bump: true, Checkpoint: &core.Position{Token: sequence(90)}})
			if err != nil {
				t.fatalf("Update: %v", err)
			}
			for what, x := range map[string]core.Lease{"row returned": got, "row": t.get(l.Key)} {
				if x.Pending != nil {
					t.errorf("%s after another checkpoint: pending %s, want none", what, pending(x.Pending))
				}
			}
		}),
		storeRule("run-bound", "A run is shown beside its own worker as owner only, whoever wrote the row.", func(t *table) {
			l := t.plain()
			l.Owner, l.Run = "worker-A", "worker-B:1"
			got, err := t.a.Create(t.ctx, l)
			if err != nil {
				t.fatalf("Create: %v", err)
			}
			for what, run := range map[string]string{"returned by Create": got.Run, "of the row": t.get(l.Key).Run} {
				if run != "" {
					t.errorf("run %s: %q beside owner %s, want none", what, run, l.Owner)
				}
			}
			row := t.create(t.full())
			row, err = t.a.Update(t.ctx, row, core.SameCounter, core.HandOver("worker-B").Set)
			if err != nil {
				t.fatalf("hand over: %v", err)
			}
			if got := t.get(row.Key); row.Run != "" || got.Run != "" {
				t.errorf("after a hand-over to %s: run %q returned, %q in the row, want none", row.Owner, row.Run, got.Run)
			}
			if row, err = t.a.Update(t.ctx, row, core.SameCounter|core.SameNext, core.Accept("worker-B:8", false).Set); err != nil {
				t.fatalf("accept: %v", err)
			}
			if got := t.get(row.Key); got.Run != "worker-B:8" {
				t.errorf("after it was accepted: run %q, want worker-B:8", got.Run)
			}
		}),
		storeRule("values-are-own", "What a store takes and returns is a value: neither the caller nor the store changes it under the other.", func(t *table) {
			spoil := func(l *core.Lease) {
				for i := range l.Parents {
					l.Parents[i] = "spoiled"
				}
				for i := range l.Children {
					l.Children[i] = "spoiled"
				}
				if l.Range != nil {
					l.Range.Start[0] ^= 255
				}
				if l.Pending != nil {
					for i := range l.Pending.State {
						l.Pending.State[i] ^= 255
					}
					l.Pending.At.Token = "spoiled"
				}
			}
			in := t.full()
			want := copied(in)
			got := t.create(in)
			spoil(&in)
			t.want("row after the lease that was created was changed", t.get(want.Key), want)
			spoil(&got)
			t.want("row after what Create returned was changed", t.get(want.Key), want)
			read := t.get(want.Key)
			spoil(&read)
			t.want("row after what Get returned was changed", t.get(want.Key), want)
			for _, l := range t.list(t.a, t.stream) {
				spoil(&l)
			}
			t.want("row after what List yielded was changed", t.get(want.Key), want)

			state, kids, r := []byte("fresh"), []core.ShardID{"child-7"}, &core.HashRange{Start: [16]byte{4}, End: [16]byte{200}}
			p := &core.Pending{At: core.Position{Token: sequence(8)}, State: state}
			set := core.Set{Bump: true, Pending: &p, Children: kids, Range: r}
			seen := copied(want)
			want = copied(set.Apply(want))
			after, err := t.a.Update(t.ctx, seen, core.SameCounter, set)
			if err != nil {
				t.fatalf("Update: %v", err)
			}
			t.want("row returned", after, want)
			state[0], kids[0], r.Start[0], p.At.Token = 'X', "spoiled", 9, "spoiled"
			spoil(&seen)
			t.want("row after what was written was changed", t.get(want.Key), want)
			spoil(&after)
			t.want("row after what Update returned was changed", t.get(want.Key), want)
			if _, err := t.a.Update(t.ctx, t.get(want.Key), 0, core.Set{Children: []core.ShardID{"child-8"}}); err != nil {
				t.fatalf("Update: %v", err)
			}
			_, err = t.a.Update(t.ctx, want, core.SameCheckpoint|core.Ended, core.Set{Bump: true})
			t.conflict("an update of a lease that has not ended", err, want)
			kept := t.get(want.Key)
			other := copied(kept)
			if _, err := t.a.Update(t.ctx, kept, 0, core.Set{Bump: true, Children: []core.ShardID{"child-0"}, Range: &core.HashRange{}}); err != nil {
				t.fatalf("Update: %v", err)
			}
			t.want("a lease read before another write", kept, other)
		}),
		{"no-goroutine-left", "When its harness is closed, a store has left no goroutine behind.", func(c *checker, make MakeStore) {
			c.leaves(func() {
				inner := &checker{ctx: c.ctx, fake: c.fake, patience: c.patience}
				done := c.sub(inner, func() {
					t := newTable(inner, make)
					l := t.create(t.full())
					t.fill(30, nil)
					for range 3 {
						t.list(t.b)
						for _, err := range t.a.List(t.ctx) {
							if err != nil {
								t.errorf("List: %v", err)
							}
							break
						}
						_ = t.get(l.Key)
						_, _ = t.a.Update(t.ctx, l, core.SameCounter, core.Set{Bump: true})
					}
				})
				<-done
			})
		}},
	}
}

func copied(l core.Lease) core.Lease {
	l.Parents, l.Children = slices.Clone(l.Parents), slices.Clone(l.Children)
	if l.Range != nil {
		l.Range = new(*l.Range)
	}
	if l.Pending != nil {
		l.Pending = &core.Pending{At: l.Pending.At, State: bytes.Clone(l.Pending.State)}
	}
	return l
}

// sub runs f with a checker of its own, whose faults become those of c; the channel is closed when all of it is over, cleaning included.
func (c *checker) sub(inner *checker, f func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for _, x := range inner.faults {
				c.errorf("%s", x)
			}
		}()
		defer inner.rescue("the adapter")
		defer inner.clean()
		f()
	}()
	return done
}

// leaves runs f, and asks that no goroutine that came of it is left. Goroutines inherit the labels of the one that starts them, so others that
// run at the same time are not counted.
func (c *checker) leaves(f func()) {
	const key = "conformance-rule"
	id := fmt.Sprintf("%p-%d", c, time.Now().UnixNano())
	pprof.Do(c.ctx, pprof.Labels(key, id), func(context.Context) { f() })
	var left []string
	for pause := time.Millisecond; pause < c.patience; pause *= 2 {
		if left = labelled(id); len(left) == 0 {
			return
		}
		c.wait(pause)
	}
	for _, stack := range left {
		c.errorf("a goroutine is left when all is closed:\n%s", stack)
	}
}

// labelled are the stacks of the goroutines with a label.
func labelled(id string) []string {
	var b bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
		return nil
	}
	var out []string
	for part := range strings.SplitSeq(b.String(), "\n\n") {
		if strings.Contains(part, id) {
			out = append(out, part)
		}
	}
	return out
}
