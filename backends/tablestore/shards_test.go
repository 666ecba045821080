package tablestore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"
	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/tablestore"
)

// All pages of a listing are one answer, whatever their order.
func TestShardsOfManyPages(t *testing.T) {
	for name, c := range map[string]emulator.Config{"in order": {PageShards: 7}, "by id": {PageShards: 7, ShardsByID: true}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, c, func(t *testing.T, r *rig) {
				r.ok(r.create(24))
				for i := range int64(40) {
					r.split(i * 100)
				}
				s := r.source()
				got, err := s.Shards(r.ctx, core.Position{})
				r.ok(err)
				if len(got) != 81 {
					t.Errorf("%d shards, want 81", len(got))
				}
				open := 0
				for _, sh := range got {
					if !sh.Closed {
						open++
					}
				}
				if open != 41 {
					t.Errorf("%d are open, want 41", open)
				}
				if n := len(r.times("DescribeStream")); n < 12 {
					t.Errorf("%d calls for 81 shards in pages of 7", n)
				}
			})
		})
	}
}

// A listing is complete or an error: F125.
func TestListingsThatAreNone(t *testing.T) {
	page := func(f func(*otsprotocol.DescribeStreamResponse)) func(op string, status int, body []byte) (int, []byte) {
		return func(op string, status int, body []byte) (int, []byte) {
			if op != "DescribeStream" || status != 200 {
				return status, body
			}
			a := new(otsprotocol.DescribeStreamResponse)
			if err := unmarshal(body, a); err != nil {
				return status, body
			}
			f(a)
			return status, marshal(a)
		}
	}
	for name, spoil := range map[string]func(r *rig){
		"nothing": func(r *rig) { r.fault(emulator.Fault{Kind: emulator.EmptyList}) },
		"the third page fails": func(r *rig) {
			r.fault(emulator.Fault{Kind: emulator.DropRequest, Operation: "DescribeStream", Skip: 2})
		},
		"another stream": func(r *rig) {
			r.answer = page(func(a *otsprotocol.DescribeStreamResponse) { a.StreamId = new("other") })
		},
		"a page that goes on at itself": func(r *rig) {
			r.answer = page(func(a *otsprotocol.DescribeStreamResponse) { a.NextShardId = a.Shards[0].ShardId })
		},
		"an empty page with a next": func(r *rig) {
			r.answer = page(func(a *otsprotocol.DescribeStreamResponse) { a.Shards, a.NextShardId = nil, new("next") })
		},
		"a shard without an id": func(r *rig) {
			r.answer = page(func(a *otsprotocol.DescribeStreamResponse) { a.Shards[0].ShardId = new("") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, emulator.Config{PageShards: 2}, func(t *testing.T, r *rig) {
				r.ok(r.create(24))
				for i := range int64(5) {
					r.split(i * 100)
				}
				s := r.source(Patience(time.Second))
				_, err := s.Describe(r.ctx)
				r.ok(err)
				spoil(r)
				if got, err := s.Shards(r.ctx, core.Position{}); !errors.Is(err, core.ErrUnavailable) || got != nil {
					t.Errorf("%d shards, %v; want ErrUnavailable", len(got), err)
				}
			})
		})
	}
}

func TestShardsRefusesPositions(t *testing.T) {
	s := New(there(), table)
	for _, p := range []core.Position{{Token: "it"}, core.AtShardEnd, {Anchor: core.AtTime}} {
		if _, err := s.Shards(t.Context(), p); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("at %v: %v, want ErrInvalid", p, err)
		}
	}
	for _, p := range []core.Position{{}, core.AtShardEnd, {Anchor: core.AtTime}} {
		if _, err := s.Open(t.Context(), core.Shard{ID: "s"}, p); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("open at %v: %v, want ErrInvalid", p, err)
		}
	}
}

// F123: a merged child may name parents that are not listed any more.
func TestMergedChildOfGoneParents(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.ok(r.create(24))
		a, b := r.split(0)
		time.Sleep(time.Second)
		m, err := r.Merge(instance, table, string(a), string(b))
		r.ok(err)
		time.Sleep(time.Second)
		s := r.source()
		roots := func() string {
			got, err := s.Shards(r.ctx, core.FromHorizon)
			r.ok(err)
			var ids []string
			for _, sh := range got {
				ids = append(ids, string(sh.ID))
			}
			return strings.Join(ids, " ")
		}
		r.ok(r.Expire(instance, table, r.root()))
		r.ok(r.Expire(instance, table, string(a)))
		if got := roots(); got != string(b) {
			t.Errorf("with one parent left: %s, want %s", got, b)
		}
		r.ok(r.Expire(instance, table, string(b)))
		if got := roots(); got != m {
			t.Errorf("with none left: %s, want %s", got, m)
		}
		all, err := s.Shards(r.ctx, core.Position{})
		r.ok(err)
		if len(all) != 1 || !slices.Equal(all[0].Parents, []core.ShardID{a, b}) {
			t.Errorf("%+v, want both parents named", all)
		}
	})
}

// root is the shard without parents.
func (r *rig) root() string {
	r.t.Helper()
	got, err := r.source().Shards(r.ctx, core.FromHorizon)
	r.ok(err)
	return string(got[0].ID)
}

// A shard whose own data is kept may outlive its children in the listing. It ends all the same, after a time in which they could have come, and is
// listed as closed then, so that nobody waits for them for ever.
func TestEndWithoutChildren(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.ok(r.create(24))
		want := r.puts(1, 2)
		parent := r.only()
		a, b := r.split(100)
		time.Sleep(time.Second)
		_, err := r.Merge(instance, table, string(a), string(b))
		r.ok(err)
		time.Sleep(time.Second)
		r.ok(r.Expire(instance, table, string(a)))
		r.ok(r.Expire(instance, table, string(b)))
		s := r.source()
		closed := func() bool {
			all, err := s.Shards(r.ctx, core.Position{})
			r.ok(err)
			return slices.ContainsFunc(all, func(sh core.Shard) bool { return sh.ID == parent && sh.Closed })
		}
		if closed() {
			t.Error("nothing shows yet that the shard is closed")
		}
		rd := r.open(s, parent, core.FromHorizon)
		began, silence := time.Now(), time.Now()
		var got []string
		for {
			p, err := rd.Next(r.ctx)
			r.ok(err)
			got = append(got, values(p)...)
			if time.Since(silence) > 5*time.Second {
				t.Errorf("silent for %v: the engine takes that for a stall", time.Since(silence))
			}
			silence = time.Now()
			if p.End {
				break
			}
		}
		r.same("the shard", got, want)
		if d := time.Since(began); d < childless || d > childless+time.Minute {
			t.Errorf("it ended after %v, want %v", d, childless)
		}
		if n := len(r.times("DescribeStream")); n > 40 {
			t.Errorf("%d listings while it waited", n)
		}
		if !closed() {
			t.Error("the shard has ended, and is listed as open")
		}
	})
}

// An end that the listing contradicts is waited on; where it was none, reading goes on.
func TestEndOfOpenShard(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.ok(r.create(24))
		r.fault(emulator.Fault{Kind: emulator.EndEarly, Times: 50})
		rd := r.open(r.source(), r.only(), core.FromHorizon)
		for range 60 {
			if p, err := rd.Next(r.ctx); err != nil || p.End {
				t.Fatalf("%+v, %v", p, err)
			}
		}
		want := r.puts(1, 3)
		r.same("behind an end that was none", values(r.page(rd)), want)
	})
}

// The shards to begin with are those that lead to every record since the start, and to as few older ones as can be. Tried on random histories, with
// the times in the ids of shards and without.
func TestOpenAtLosesNothing(t *testing.T) {
	for seed := range uint64(8) {
		for _, hints := range []bool{true, false} {
			t.Run(fmt.Sprint(seed, hints), func(t *testing.T) {
				dice := rand.New(rand.NewPCG(seed, 2))
				bubble(t, emulator.Config{Seed: seed, PageShards: 3, ShardsByID: dice.IntN(2) == 0}, func(t *testing.T, r *rig) {
					r.ok(r.create(24))
					type moment struct {
						at    time.Time
						after int
					}
					var moments []moment
					var all []string
					for i := range int64(25) {
						time.Sleep(time.Second)
						switch parts := r.parts(); dice.IntN(3) {
						case 0:
							all = append(all, r.puts(dice.Int64N(1000), 1+dice.IntN(3))...)
						case 1:
							if dice.IntN(2) == 0 || len(parts) < 2 {
								r.split(i*37 + 1)
								break
							}
							n := dice.IntN(len(parts) - 1)
							_, err := r.Merge(instance, table, parts[n].Shard, parts[n+1].Shard)
							r.ok(err)
						case 2:
							time.Sleep(time.Second)
							moments = append(moments, moment{time.Now(), len(all)})
						}
					}
					s := r.source()
					if !hints {
						r.hideTimes()
					}
					for _, m := range moments {
						got := r.readFrom(s, core.From(m.at))
						want := slices.Sorted(slices.Values(all[m.after:]))
						if !slices.Equal(got, want) {
							t.Errorf("from moment %v: got %v, want %v", m.at, got, want)
						}
					}
				})
			})
		}
	}
}

// hideTimes makes the ids of shards tell nothing.
func (r *rig) hideTimes() {
	swap := func(id *string) {
		if id != nil {
			*id = strings.Replace(*id, "_", "-", 1)
		}
	}
	r.answer = func(op string, status int, body []byte) (int, []byte) {
		switch op {
		case "DescribeStream":
			a := new(otsprotocol.DescribeStreamResponse)
			if err := unmarshal(body, a); err != nil {
				r.t.Error(err)
			}
			for _, sh := range a.Shards {
				swap(sh.ShardId)
				swap(sh.ParentId)
				swap(sh.ParentSiblingId)
			}
			return status, marshal(a)
		case "GetShardIterator": // the service does not know the id: ask again with the one that it does
			in := new(otsprotocol.GetShardIteratorRequest)
			if err := unmarshal(r.calls[len(r.calls)-1].body, in); err != nil {
				r.t.Error(err)
			}
			i := strings.LastIndex(in.GetShardId(), "-")
			real := in.GetShardId()[:i] + "_" + in.GetShardId()[i+1:]
			out, err := r.admin.GetShardIterator(&sdk.GetShardIteratorRequest{StreamId: (*sdk.StreamId)(in.StreamId), ShardId: (*sdk.ShardId)(&real), Timestamp: in.Timestamp})
			if err != nil {
				r.t.Error(err)
			}
			return 200, marshal(&otsprotocol.GetShardIteratorResponse{ShardIterator: (*string)(out.ShardIterator)})
		}
		return status, body
	}
}

// readFrom reads the roots of a start from there, and their descendants from the beginning, and sorts what it finds.
func (r *rig) readFrom(s *Source, start core.Position) []string {
	r.t.Helper()
	roots, err := s.Shards(r.ctx, start)
	r.ok(err)
	all, err := s.Shards(r.ctx, core.Position{})
	r.ok(err)
	var out []string
	done := map[core.ShardID]bool{}
	var read func(sh core.Shard, at core.Position)
	read = func(sh core.Shard, at core.Position) {
		if done[sh.ID] {
			return
		}
		done[sh.ID] = true
		rd := r.open(s, sh.ID, at)
		for empty := 0; empty < 2; {
			p, err := rd.Next(r.ctx)
			r.ok(err)
			out = append(out, values(p)...)
			if empty++; len(p.Records) > 0 {
				empty = 0
			}
			if p.End {
				break
			}
		}
		for _, c := range all {
			if slices.Contains(c.Parents, sh.ID) {
				read(c, core.FromHorizon)
			}
		}
	}
	for _, sh := range roots {
		read(sh, start)
	}
	slices.Sort(out)
	return out
}
