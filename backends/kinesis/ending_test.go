package kinesis

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"pgregory.net/rapid"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/kinesis"
)

// withoutChildren is a service that ends a shard without naming its children, as kinesalite does.
func withoutChildren(op string, _, out map[string]any) {
	delete(out, "ChildShards")
}

func TestShardsAreReadToTheirEnd(t *testing.T) {
	for _, service := range []struct {
		name   string
		answer func(string, map[string]any, map[string]any)
	}{{"children named", nil}, {"children not named", withoutChildren}} {
		for _, c := range []struct {
			name     string
			records  int
			reshard  func(r *rig)
			children string
			parents  []core.ShardID
		}{
			{"split", 25, func(r *rig) { r.split("orders", one) }, "2 3", []core.ShardID{one}},
			{"split of an empty shard", 0, func(r *rig) { r.split("orders", one) }, "2 3", []core.ShardID{one}}, // F43
			{"merge", 25, func(r *rig) { r.merge("orders", one, shardID(1)) }, "2", []core.ShardID{one, shardID(1)}},
		} {
			t.Run(service.name+"/"+c.name, func(t *testing.T) {
				bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
					r.create("orders", 2)
					for i := range c.records {
						r.put("orders", fmt.Sprint("key", i), fmt.Sprint(i))
					}
					s := r.source("orders", MaxRecords(3))
					rd := r.open(s, one, core.FromHorizon)
					var want []core.Record
					for caughtUp := false; !caughtUp; {
						p, err := rd.Next(r.ctx)
						r.ok(err)
						want, caughtUp = append(want, p.Records...), p.Lag == 0
					}
					if c.records > 0 && len(want) < 5 {
						t.Fatalf("%d records in the shard, too few for this test", len(want))
					}
					c.reshard(r)
					r.answer = service.answer

					// Somebody who was caught up, and somebody who begins when the shard is closed already (F25).
					if rest, end := r.read(rd, 0); len(rest) != 0 || ids(end.Children) != c.children {
						t.Errorf("caught up: %v, children %s; want none and %s", data(rest), ids(end.Children), c.children)
					}
					got, end := r.read(r.open(s, one, core.FromHorizon), 0)
					if !slices.Equal(data(got), data(want)) {
						t.Errorf("from the beginning: %v, want %v", data(got), data(want))
					}
					all, err := s.Shards(r.ctx, core.Position{})
					r.ok(err)
					for _, child := range end.Children {
						i := slices.IndexFunc(all, func(s core.Shard) bool { return s.ID == child.ID })
						if i < 0 || !slices.Equal(child.Parents, c.parents) || *child.Range != *all[i].Range || child.Closed {
							t.Errorf("child %+v, want parents %v and what is listed", child, c.parents)
						}
					}
				})
			})
		}
	}
}

// F36: an open shard whose answer has no next iterator goes on.
func TestNoNextIteratorOfAnOpenShard(t *testing.T) {
	for _, records := range []int{5, 0} {
		t.Run(fmt.Sprintf("%d records in the answer", records), func(t *testing.T) {
			bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
				r.create("orders", 1)
				r.put("orders", "k", numbered(20)...)
				r.fault(emulator.Fault{Kind: emulator.EndEarly, Operation: "GetRecords", Skip: 2, Times: 1})
				if records == 0 {
					r.fault(emulator.Fault{Kind: emulator.PartialPage, Operation: "GetRecords", Skip: 2, Times: 1})
				}
				rd := r.open(r.source("orders", MaxRecords(5)), one, core.FromHorizon)
				got, _ := r.read(rd, 20)
				if !slices.Equal(data(got), numbered(20)) {
					t.Errorf("got %v", data(got))
				}
				if n := len(r.times("ListShards")); n != 1 {
					t.Errorf("%d listings, want one, to see that the shard is open", n)
				}
			})
		})
	}
}

// F38: records that come with the end are delivered.
func TestRecordsOfTheLastAnswer(t *testing.T) {
	for name, answer := range map[string]func(string, map[string]any, map[string]any){"children named": nil, "children not named": withoutChildren} {
		t.Run(name, func(t *testing.T) {
			bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
				r.create("orders", 1)
				r.put("orders", "k", numbered(7)...)
				r.split("orders", one)
				r.answer = answer
				rd := r.open(r.source("orders"), one, core.FromHorizon)
				got, end := r.read(rd, 0)
				if !slices.Equal(data(got), numbered(7)) || ids(end.Children) != "1 2" {
					t.Errorf("records %v, children %s; want 7 and 1 2", data(got), ids(end.Children))
				}
				if _, err := rd.Next(r.ctx); !errors.Is(err, core.ErrInvalid) {
					t.Errorf("Next after the end: %v", err)
				}
			})
		})
	}
}

// F33: children that are listed late are waited for; and not for ever, since the shard has ended.
func TestChildrenListedLate(t *testing.T) {
	for _, c := range []struct {
		name     string
		late     time.Duration
		children string
		took     time.Duration
	}{{"a little", 7 * time.Second, "1 2", 8 * time.Second}, {"too late", time.Hour, "", 21 * time.Second}} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
				r.create("orders", 1)
				r.split("orders", one)
				split := time.Now()
				r.answer = func(op string, in, out map[string]any) {
					delete(out, "ChildShards")
					if op == "ListShards" && time.Since(split) < c.late {
						out["Shards"] = out["Shards"].([]any)[:1]
					}
				}
				_, end := r.read(r.open(r.source("orders"), one, core.FromHorizon), 0)
				if ids(end.Children) != c.children {
					t.Errorf("children %q, want %q", ids(end.Children), c.children)
				}
				if d := time.Since(split); d > c.took {
					t.Errorf("took %v, want %v at most", d, c.took)
				}
			})
		})
	}
}

// A listing that still shows the shard as open, or fails, ends nothing.
func TestStaleOrFailedListingAtTheEnd(t *testing.T) {
	for _, f := range []emulator.Fault{
		{Kind: emulator.StaleList, Operation: "ListShards", Delay: 5 * time.Second},
		{Kind: emulator.Internal, Operation: "ListShards", Times: 4},
		{Kind: emulator.AccessDenied, Operation: "ListShards"}, // then DescribeStream
	} {
		t.Run(string(f.Kind), func(t *testing.T) {
			bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
				r.create("orders", 1)
				time.Sleep(10 * time.Second)
				r.put("orders", "k", numbered(3)...)
				r.split("orders", one)
				r.answer = withoutChildren
				r.fault(f)
				got, end := r.read(r.open(r.source("orders"), one, core.FromHorizon), 0)
				if !slices.Equal(data(got), numbered(3)) || ids(end.Children) != "1 2" {
					t.Errorf("records %v, children %q; want 3, each once, and 1 2", data(got), ids(end.Children))
				}
			})
		})
	}
}

// An end that names a child without parents is taken for none, and the listing is asked.
func TestChildWithoutParents(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		r.split("orders", one)
		r.answer = func(op string, in, out map[string]any) {
			if cs, ok := out["ChildShards"].([]any); ok {
				cs[1].(map[string]any)["ParentShards"] = []any{}
			}
		}
		_, end := r.read(r.open(r.source("orders"), one, core.FromHorizon), 0)
		if ids(end.Children) != "1 2" || !slices.Equal(end.Children[1].Parents, []core.ShardID{one}) {
			t.Errorf("children %+v, want 1 and 2 with their parent", end.Children)
		}
	})
}

// A whole stream, resharded at random while it is written, is read by following ends to children: everything that was put, once, and the
// records of a key in order.
func TestFamilyTreesAreReadWhole(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		named := rapid.Bool().Draw(rt, "children named")
		filtered := rapid.Bool().Draw(rt, "filter kept")
		steps := rapid.SliceOfN(rapid.IntRange(0, 9), 1, 5).Draw(rt, "reshards")
		bubble(t, emulator.Config{NoLimits: true}, func(t *testing.T, r *rig) {
			r.create("orders", 2)
			n := 0
			put := func() {
				in := sdk.PutRecordsInput{StreamName: aws.String("orders")}
				for range 15 {
					in.Records = append(in.Records, types.PutRecordsRequestEntry{Data: fmt.Append(nil, n), PartitionKey: aws.String(fmt.Sprint("k", n%7))})
					n++
				}
				_, err := r.admin.PutRecords(r.ctx, &in)
				r.ok(err)
			}
			put()
			for _, step := range steps {
				r.reshard("orders", step)
				put()
			}
			if !named {
				r.answer = withoutChildren
			}
			if !filtered {
				r.request = noFilter
			}
			s := r.source("orders", MaxRecords(4), PollBehind(time.Millisecond))
			byKey := map[string]int{}
			total := 0
			ended := map[core.ShardID]bool{}
			started := map[core.ShardID]bool{}
			queue, err := s.Shards(r.ctx, core.FromHorizon)
			r.ok(err)
			for len(queue) > 0 {
				shard := queue[0]
				queue = queue[1:]
				if started[shard.ID] {
					continue
				}
				started[shard.ID] = true
				rd := r.open(s, shard.ID, core.FromHorizon)
				for {
					p, err := rd.Next(r.ctx)
					r.ok(err)
					for _, rec := range p.Records {
						var i int
						_, err := fmt.Sscan(string(rec.Data), &i)
						r.ok(err)
						if before, ok := byKey[rec.Key]; ok && i <= before {
							rt.Errorf("key %s: %d after %d", rec.Key, i, before)
						}
						byKey[rec.Key] = i
						total++
					}
					if p.End {
						ended[shard.ID] = true
						for _, c := range p.Children {
							if !slices.ContainsFunc(c.Parents, func(p core.ShardID) bool { return !ended[p] }) {
								queue = append(queue, c)
							}
						}
						break
					}
					if len(p.Records) == 0 && p.Lag == 0 {
						break // open and read whole
					}
				}
			}
			if total != n {
				rt.Errorf("%d records read of %d put", total, n)
			}
		})
	})
}
