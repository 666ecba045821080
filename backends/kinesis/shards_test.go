package kinesis

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/kinesis"
)

// noFilter is a service that ignores ShardFilter, as kinesalite, ferrokinesis, moto and ministack do.
func noFilter(op string, in map[string]any) {
	if op == "ListShards" {
		delete(in, "ShardFilter")
	}
}

// family makes a stream of two shards with records, of which 0 is split into 2 and 3, and then 3 and 1 are merged into 4; it returns the
// instants before, between and after.
func family(r *rig) (before, between, after time.Time) {
	r.create("orders", 2)
	step := func() time.Time {
		for i := range 20 {
			r.put("orders", fmt.Sprint("key", i), "x")
		}
		time.Sleep(time.Minute)
		now := time.Now()
		time.Sleep(time.Minute)
		for i := range 20 {
			r.put("orders", fmt.Sprint("key", i), "x")
		}
		return now
	}
	before = step()
	r.split("orders", shardID(0))
	between = step()
	r.merge("orders", shardID(3), shardID(1))
	after = step()
	return before, between, after
}

func TestShardsOpenAtAPosition(t *testing.T) {
	for _, service := range []struct {
		name    string
		request func(string, map[string]any)
		deny    bool
	}{
		{"with filter", nil, false},
		{"filter ignored", noFilter, false},
		{"by DescribeStream", nil, true},
	} {
		t.Run(service.name, func(t *testing.T) {
			bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
				before, between, after := family(r)
				r.request = service.request
				if service.deny {
					r.fault(emulator.Fault{Kind: emulator.AccessDenied, Operation: "ListShards"})
				}
				s := r.source("orders")
				for _, c := range []struct {
					name string
					at   core.Position
					want string
				}{
					{"all", core.Position{}, "0 1 2 3 4"},
					{"horizon", core.FromHorizon, "0 1"},
					{"latest", core.FromLatest, "2 4"},
					{"before all", core.From(before), "0 1"},
					{"between", core.From(between), "1 2 3"},
					{"after", core.From(after), "2 4"},
					{"latest, resolved before all", core.Position{Anchor: core.Latest, Time: before}, "0 1"},
					{"latest, resolved between", core.Position{Anchor: core.Latest, Time: between}, "1 2 3"},
					{"before the stream was made", core.From(before.Add(-time.Hour)), "0 1"},
					{"in the future", core.From(time.Now().Add(time.Hour)), "2 4"},
				} {
					got, err := s.Shards(r.ctx, c.at)
					if err != nil || ids(got) != c.want {
						t.Errorf("%s: shards %s, error %v; want %s", c.name, ids(got), err, c.want)
					}
				}
				all, err := s.Shards(r.ctx, core.Position{})
				r.ok(err)
				for _, sh := range all {
					closed := sh.ID != shardID(2) && sh.ID != shardID(4)
					if sh.Closed != closed || sh.Range == nil {
						t.Errorf("shard %s: closed %v, range %v; want closed %v", sh.ID, sh.Closed, sh.Range, closed)
					}
					if sh.ID == shardID(4) && fmt.Sprint(sh.Parents) != fmt.Sprint([]core.ShardID{shardID(3), shardID(1)}) {
						t.Errorf("parents of the merge: %v", sh.Parents)
					}
				}
				if _, err := s.Shards(r.ctx, core.Position{Token: "5"}); !errors.Is(err, core.ErrInvalid) {
					t.Errorf("at a record: %v, want ErrInvalid", err)
				}
			})
		})
	}
}

// A start in the past of a shard that has long been closed and holds nothing since must not bring its records back.
func TestListedParentWithNothingSinceIsNotBegun(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		r.put("orders", "k", "old")
		time.Sleep(time.Minute)
		r.split("orders", shardID(0))
		time.Sleep(time.Minute)
		r.request = noFilter
		got, err := r.source("orders").Shards(r.ctx, core.Position{Anchor: core.Latest, Time: time.Now()})
		if err != nil || ids(got) != "1 2" {
			t.Errorf("shards %s, error %v; want 1 2", ids(got), err)
		}
	})
}

// The service walks long gaps in steps, with empty answers that say how far behind they are: none of them means that there is nothing.
func TestLookingForRecordsAcrossAGap(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		time.Sleep(time.Minute)
		at := time.Now()
		time.Sleep(time.Minute)
		r.put("orders", "k", "since")
		r.split("orders", shardID(0))
		r.request = noFilter
		r.fault(emulator.Fault{Kind: emulator.PartialPage, Operation: "GetRecords", Times: 5})
		got, err := r.source("orders").Shards(r.ctx, core.From(at))
		if err != nil || ids(got) != "0" {
			t.Errorf("shards %s, error %v; want 0", ids(got), err)
		}
		if n := most(r.times("GetRecords"), time.Second); n > 5 {
			t.Errorf("%d reads within a second", n)
		}
	})
}

func TestPagesOfAListing(t *testing.T) {
	const shards = 2500
	setup := func(r *rig) { r.create("wide", shards) }
	config := emulator.Config{ShardLimit: shards}

	t.Run("by the token alone", func(t *testing.T) {
		bubble(t, config, func(t *testing.T, r *rig) {
			setup(r)
			for _, name := range []string{"wide", "arn:aws:kinesis:us-east-1:000000000000:stream/wide"} {
				got, err := r.source(name).Shards(r.ctx, core.FromLatest)
				if err != nil || len(got) != shards {
					t.Errorf("%s: %d shards, error %v; want %d", name, len(got), err, shards)
				}
			}
			if n := len(r.times("ListShards")); n != 6 {
				t.Errorf("%d calls, want 3 pages twice", n)
			}
		})
	})
	t.Run("a token that runs out begins it again", func(t *testing.T) {
		bubble(t, config, func(t *testing.T, r *rig) {
			setup(r)
			r.fault(emulator.Fault{Kind: emulator.Delay, Operation: "ListShards", Delay: 301 * time.Second, Skip: 1, Times: 1})
			got, err := r.source("wide", RequestTimeout(time.Hour)).Shards(r.ctx, core.Position{})
			if err != nil || len(got) != shards {
				t.Errorf("%d shards, error %v; want %d, each once", len(got), err, shards)
			}
			if n := len(r.times("ListShards")); n != 5 {
				t.Errorf("%d calls, want a page, an expired one, and three", n)
			}
		})
	})
	t.Run("tokens that always run out are an error", func(t *testing.T) {
		bubble(t, config, func(t *testing.T, r *rig) {
			setup(r)
			r.request = func(op string, in map[string]any) {
				if in["NextToken"] != nil {
					time.Sleep(301 * time.Second)
				}
			}
			got, err := r.source("wide", RequestTimeout(time.Hour)).Shards(r.ctx, core.Position{})
			if !errors.Is(err, core.ErrExpired) || got != nil {
				t.Errorf("%d shards, error %v; want ErrExpired and nothing", len(got), err)
			}
		})
	})
	t.Run("a page that fails fails all", func(t *testing.T) {
		bubble(t, config, func(t *testing.T, r *rig) {
			setup(r)
			r.fault(emulator.Fault{Kind: emulator.Internal, Operation: "ListShards", Skip: 1})
			got, err := r.source("wide").Shards(r.ctx, core.FromHorizon)
			if !errors.Is(err, core.ErrUnavailable) || got != nil {
				t.Errorf("%d shards, error %v; want ErrUnavailable and nothing", len(got), err)
			}
		})
	})
	t.Run("throttled pages are repeated", func(t *testing.T) {
		bubble(t, config, func(t *testing.T, r *rig) {
			setup(r)
			r.fault(emulator.Fault{Kind: emulator.LimitExceeded, Operation: "ListShards", Skip: 1, Times: 3})
			got, err := r.source("wide").Shards(r.ctx, core.FromHorizon)
			if err != nil || len(got) != shards {
				t.Errorf("%d shards, error %v; want %d", len(got), err, shards)
			}
		})
	})
	t.Run("DescribeStream where ListShards is denied", func(t *testing.T) {
		bubble(t, config, func(t *testing.T, r *rig) {
			setup(r)
			r.fault(emulator.Fault{Kind: emulator.AccessDenied, Operation: "ListShards"})
			got, err := r.source("wide").Shards(r.ctx, core.FromHorizon)
			if err != nil || len(got) != shards {
				t.Errorf("%d shards, error %v; want %d", len(got), err, shards)
			}
			if n := len(r.times("DescribeStream")); n < 3 {
				t.Errorf("%d calls of DescribeStream, want some pages", n)
			}
		})
	})
}

func TestListingWithoutPermission(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		r.fault(emulator.Fault{Kind: emulator.AccessDenied})
		_, err := r.source("orders").Shards(r.ctx, core.FromHorizon)
		if !errors.Is(err, core.ErrDenied) {
			t.Fatal(err)
		}
		for _, w := range []string{"kinesis:ListShards on arn:aws:kinesis:us-east-1:*:stream/orders", "kinesis:DescribeStream on"} {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q does not say %q", err, w)
			}
		}
	})
}

func TestListingWithAHoleIsAskedAgain(t *testing.T) {
	for _, c := range []struct {
		name  string
		holes int
		ok    bool
	}{{"twice", 2, true}, {"for ever", 100, false}} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
				r.create("orders", 3)
				r.answer = func(op string, in, out map[string]any) {
					if op == "ListShards" && c.holes > 0 {
						c.holes--
						out["Shards"] = out["Shards"].([]any)[1:]
					}
				}
				start := time.Now()
				got, err := r.source("orders").Shards(r.ctx, core.FromHorizon)
				if c.ok && (err != nil || ids(got) != "0 1 2") {
					t.Errorf("shards %s, error %v; want all three", ids(got), err)
				}
				if !c.ok && (!errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), "0 to 113427455640312821154458202477256070484")) {
					t.Errorf("error %v, want one that names the hole", err)
				}
				if d := time.Since(start); d != 2*time.Second {
					t.Errorf("took %v, want three tries a second apart", d)
				}
			})
		})
	}
}

func TestListingOfAStreamThatIsNotThere(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		if _, err := r.source("orders").Shards(r.ctx, core.FromHorizon); !errors.Is(err, core.ErrNotFound) {
			t.Errorf("unknown stream: %v, want ErrNotFound", err)
		}
	})
}

// What kinesis-local says of a closed shard: an ending sequence number that is no such number.
func TestAnyEndingNumberMeansClosed(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		r.split("orders", shardID(0))
		r.answer = func(op string, in, out map[string]any) {
			for _, s := range out["Shards"].([]any) {
				if n := s.(map[string]any)["SequenceNumberRange"].(map[string]any); n["EndingSequenceNumber"] != nil {
					n["EndingSequenceNumber"] = "9223372036854775807"
				}
			}
		}
		all, err := r.source("orders").Shards(r.ctx, core.Position{})
		r.ok(err)
		if len(all) != 3 || !all[0].Closed || all[1].Closed || all[2].Closed {
			t.Errorf("%+v: want the first of three closed", all)
		}
	})
}

func TestReshardByCountIsListedWhole(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 3)
		_, err := r.admin.UpdateShardCount(r.ctx, &sdk.UpdateShardCountInput{StreamName: aws.String("orders"), TargetShardCount: aws.Int32(5), ScalingType: "UNIFORM_SCALING"})
		r.ok(err)
		for _, request := range []func(string, map[string]any){nil, noFilter} {
			r.request = request
			open, err := r.source("orders").Shards(r.ctx, core.FromLatest)
			if err != nil || len(open) != 5 {
				t.Errorf("open now: %s, error %v; want 5", ids(open), err)
			}
			oldest, err := r.source("orders").Shards(r.ctx, core.FromHorizon)
			if err != nil || ids(oldest) != "0 1 2" {
				t.Errorf("oldest: %s, error %v; want 0 1 2", ids(oldest), err)
			}
		}
	})
}
