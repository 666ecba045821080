package kinesis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardwarden/shardwarden/backends/kinesis/kpl"
	"github.com/shardwarden/shardwarden/backends/kinesis/kpl/kpltest"
	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/kinesis"
)

// aggregate is a container of n user records, "name-0" and so on, whose hash keys are 5.
func aggregate(name string, n int) string {
	var in []kpltest.Record
	for i := range n {
		in = append(in, kpltest.Record{Key: "k", HashKey: "5", Data: fmt.Appendf(nil, "%s-%d", name, i)})
	}
	return container(in)
}

// container holds records, and the key of one where there are none: without anything it would be too short to count as one.
func container(in []kpltest.Record) string {
	if len(in) == 0 {
		return string(kpltest.Seal([]byte{0x0a, 1, 'k'}))
	}
	return string(kpltest.Aggregate(in...))
}

const beyondHalf = "300000000000000000000000000000000000000" // a hash key of the second of two shards

// mixed is a container whose records are inside the first of two shards or not, as pattern says: i or o.
func mixed(name, pattern string) string {
	var in []kpltest.Record
	for i, c := range pattern {
		r := kpltest.Record{Key: "k", HashKey: "5", Data: fmt.Appendf(nil, "%s-%d", name, i)}
		if c == 'o' {
			r.HashKey = beyondHalf
		}
		in = append(in, r)
	}
	return container(in)
}

// putFirst puts records into the first shard.
func (r *rig) putFirst(stream string, data ...string) {
	r.t.Helper()
	for _, d := range data {
		_, err := r.admin.PutRecord(r.ctx, &sdk.PutRecordInput{StreamName: &stream, Data: []byte(d), PartitionKey: aws.String("a"), ExplicitHashKey: aws.String("5")})
		r.ok(err)
	}
}

// openFirst opens the first shard as it is listed, with its range.
func (r *rig) openFirst(s *Source, at core.Position) core.ShardReader {
	r.t.Helper()
	shards, err := s.Shards(r.ctx, core.Position{})
	r.ok(err)
	for _, shard := range shards {
		if shard.Range.Start == [16]byte{} {
			rd, err := s.Open(r.ctx, shard, at)
			r.ok(err)
			r.t.Cleanup(func() { _ = rd.Close() })
			return rd
		}
	}
	r.t.Fatal("no first shard")
	return nil
}

// drain clones the records of n pages, and releases the pages.
func (r *rig) drain(rd core.ShardReader, n int) (records []core.Record, last core.Position) {
	r.t.Helper()
	for range n {
		p, err := rd.Next(r.ctx)
		r.ok(err)
		for _, in := range p.Records {
			records = append(records, in.Clone())
			last = core.Position{Token: in.Sequence, Sub: in.Sub}.Clone()
		}
		if !p.Next.IsZero() {
			last = p.Next
		}
		if p.Release != nil {
			p.Release()
		}
	}
	return records, last
}

func TestContainersAreOpened(t *testing.T) {
	for name, opts := range map[string][]Option{"our pages": nil, "the SDK's pages": {StockPages()}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
				r.create("s", 2)
				r.putFirst("s", "plain", aggregate("a", 3), aggregate("none", 0), mixed("m", "oio"), "\xf3\x89\x9a\xc2 damaged", "last")
				var log logged
				s := r.source("s", append(opts, Logger(log.logger()))...)
				memory := PageMemory()
				got, _ := r.drain(r.openFirst(s, core.FromHorizon), 1)
				want := []string{"plain", "a-0", "a-1", "a-2", "m-1", "\xf3\x89\x9a\xc2 damaged", "last"}
				if fmt.Sprint(data(got)) != fmt.Sprint(want) {
					t.Fatalf("%q, want %q", data(got), want)
				}
				for i, sub := range []uint64{0, 0, 1, 2, 1, 0, 0} {
					if got[i].Sub != sub {
						t.Errorf("record %d has number %d, want %d", i, got[i].Sub, sub)
					}
				}
				if u, ok := got[1].Native.(*kpl.UserRecord); !ok || u.HashKey != "5" || got[1].Key != "k" {
					t.Errorf("user record %+v", got[1])
				}
				if d, ok := got[5].Native.(*kpl.Damaged); !ok || d.Sequence != got[5].Sequence || got[5].Key != "a" {
					t.Errorf("damaged record %+v", got[5])
				}
				if c := s.Aggregates(); c != (kpl.Counts{Opened: 3, Records: 4, Outside: 2, Damaged: 1}) {
					t.Errorf("%+v", c)
				}
				if n := strings.Count(log.text.String(), "left out"); n == 0 || !strings.Contains(log.text.String(), "cannot be opened") {
					t.Errorf("log:\n%s", log.text.String())
				}
				if n := PageMemory(); n > memory {
					t.Errorf("%d bytes of pages are out", n-memory)
				}
			})
		})
	}
}

func TestContainersAsTheConfigSays(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.create("s", 2)
		r.putFirst("s", mixed("m", "oi"), "last")
		got, _ := r.drain(r.openFirst(r.source("s", Aggregated(kpl.Config{AllKeys: true})), core.FromHorizon), 1)
		if fmt.Sprint(data(got)) != "[m-0 m-1 last]" {
			t.Errorf("all keys: %q", data(got))
		}
		got, _ = r.drain(r.openFirst(r.source("s", Aggregated(kpl.Config{Off: true})), core.FromHorizon), 1)
		if len(got) != 2 || string(got[0].Data) != mixed("m", "oi") || got[0].Native != nil {
			t.Errorf("off: %q", data(got))
		}
		got, _ = r.drain(r.open(r.source("s"), shardID(0), core.FromHorizon), 1)
		if fmt.Sprint(data(got)) != "[m-0 m-1 last]" {
			t.Errorf("range unknown: %q", data(got))
		}
	})
}

// Wherever a worker stopped, the next one gets what stands behind, no more and no less, and a Java worker would name the place the same.
func TestResumeInsideContainers(t *testing.T) {
	bubble(t, emulator.Config{NoLimits: true}, func(t *testing.T, r *rig) {
		r.create("s", 2)
		r.putFirst("s", "p", aggregate("a", 4), aggregate("one", 1), aggregate("none", 0), mixed("m", "oioo"), mixed("out", "oo"), "q", aggregate("b", 2), mixed("end", "io"))
		s := r.source("s", MaxRecords(3))
		all, _ := r.drain(r.openFirst(s, core.FromHorizon), 3)
		if want := "[p a-0 a-1 a-2 a-3 one-0 m-1 q b-0 b-1 end-0]"; fmt.Sprint(data(all)) != want {
			t.Fatalf("%q, want %s", data(all), want)
		}
		for i, at := range all {
			got, _ := r.drain(r.openFirst(s, core.Position{Token: at.Sequence, Sub: at.Sub}), 4)
			if fmt.Sprint(data(got)) != fmt.Sprint(data(all[i+1:])) {
				t.Errorf("behind %s: %q", at.Data, data(got))
			}
		}
		// Where the container is not opened any more, what stands in it behind the position must come all the same.
		got, _ := r.drain(r.openFirst(r.source("s", Aggregated(kpl.Config{Off: true})), core.Position{Token: all[2].Sequence, Sub: 1}), 1)
		if len(got) != 8 || string(got[0].Data) != aggregate("a", 4) {
			t.Errorf("off: %d records, first %q", len(got), got[0].Data)
		}
	})
}

// A page whose last records were left out says how far it reached: a shard of nothing else would never move.
func TestPageOfNothingMovesThePosition(t *testing.T) {
	bubble(t, emulator.Config{NoLimits: true}, func(t *testing.T, r *rig) {
		r.create("s", 2)
		r.putFirst("s", mixed("m", "ooo"))
		s := r.source("s")
		got, at := r.drain(r.openFirst(s, core.FromHorizon), 1)
		if len(got) != 0 || at.Token == "" || at.Sub != 2 {
			t.Fatalf("%q, position %+v", data(got), at)
		}
		rd := r.openFirst(s, at)
		p, err := rd.Next(r.ctx)
		r.ok(err)
		if len(p.Records) != 0 || !p.Next.IsZero() {
			t.Errorf("again from there: %q, position %+v", data(p.Records), p.Next)
		}
		r.putFirst("s", "next")
		if got, _ := r.read(rd, 1); string(got[0].Data) != "next" {
			t.Errorf("%q", data(got))
		}
	})
}

func TestStrictLeavesDamagedContainersToTheWorker(t *testing.T) {
	bubble(t, emulator.Config{NoLimits: true}, func(t *testing.T, r *rig) {
		r.create("s", 2)
		const damaged = "\xf3\x89\x9a\xc2 damaged"
		r.putFirst("s", "p", aggregate("a", 2), damaged, "behind", damaged+" too")
		s := r.source("s", Aggregated(kpl.Config{Strict: true}), Decode(&troubled{}))
		rd := r.openFirst(s, core.FromHorizon)
		p, err := rd.Next(r.ctx)
		r.ok(err)
		if want := []string{"d:p", "d:a-0", "d:a-1", damaged, "d:behind", damaged + " too"}; !slices.Equal(data(p.Records), want) {
			t.Fatalf("%q, want %q", data(p.Records), want)
		}
		for i := range p.Records {
			if d, bad := errors.AsType[*kpl.Damaged](p.Undecoded[i]); bad != (i == 3 || i == 5) || bad && (d.Sequence != p.Records[i].Sequence || !errors.Is(d, core.ErrInvalid)) {
				t.Errorf("record %d: %v", i, p.Undecoded[i])
			}
		}
		if c := s.Aggregates(); c.Damaged != 2 {
			t.Errorf("%+v", c)
		}
		// One that was put aside does not come again, and the place of others is counted from what is left.
		at := core.Position{Token: p.Records[3].Sequence}.Clone()
		p, err = r.openFirst(s, at).Next(r.ctx)
		r.ok(err)
		if len(p.Records) != 2 || p.Undecoded[0] != nil || p.Undecoded[1] == nil {
			t.Errorf("behind it: %q, %v", data(p.Records), p.Undecoded)
		}
	})
}

// troubled is a decoder that fails as it is told, and else notes what it saw.
type troubled struct {
	fail func(r *core.Record) error
	size int
}

func (d *troubled) Decode(_ context.Context, r *core.Record) (int, error) {
	if d.fail != nil {
		if err := d.fail(r); err != nil {
			return 0, err
		}
	}
	r.Data = append([]byte("d:"), r.Data...)
	return d.size, nil
}

func TestDecodersComeAfterContainers(t *testing.T) {
	bubble(t, emulator.Config{NoLimits: true}, func(t *testing.T, r *rig) {
		r.create("s", 2)
		r.putFirst("s", "p", aggregate("a", 2))
		rd := r.openFirst(r.source("s", Decode(&troubled{}), Decode(&troubled{})), core.FromHorizon)
		if got, _ := r.drain(rd, 1); fmt.Sprint(data(got)) != "[d:d:p d:d:a-0 d:d:a-1]" {
			t.Errorf("%q", data(got))
		}
	})
}

// A registry that is down for a while holds the shard at the record that needs it: no record twice, none lost, and what stands before goes on.
func TestDecoderThatHasToWait(t *testing.T) {
	for _, kind := range []error{core.ErrUnavailable, core.ErrThrottled, core.ErrDenied} {
		t.Run(kind.Error(), func(t *testing.T) {
			bubble(t, emulator.Config{NoLimits: true}, func(t *testing.T, r *rig) {
				r.create("s", 2)
				r.putFirst("s", "p", aggregate("a", 4), mixed("m", "oi"), "q")
				down := true
				s := r.source("s", Decode(&troubled{fail: func(in *core.Record) error {
					if down && string(in.Data) == "a-2" {
						return fmt.Errorf("registry: %w", kind)
					}
					return nil
				}}))
				rd := r.openFirst(s, core.FromHorizon)
				got, last := r.drain(rd, 1)
				if fmt.Sprint(data(got)) != "[d:p d:a-0 d:a-1]" || last.Sub != 1 {
					t.Fatalf("%q up to %+v", data(got), last)
				}
				start, memory := time.Now(), PageMemory()
				for range 2 {
					if _, err := rd.Next(r.ctx); !errors.Is(err, kind) {
						t.Fatalf("%v, want %v", err, kind)
					}
				}
				if waited := time.Since(start); !errors.Is(kind, core.ErrDenied) && waited < s.patience {
					t.Errorf("gave up after %v", waited)
				}
				if n := PageMemory(); n > memory { // below: pages that other tests lost were collected
					t.Errorf("%d bytes of pages are held while it waits", n-memory)
				}
				if n, most := len(r.times("GetRecords")), 40; n > most {
					t.Errorf("%d reads while it waited %v", n, time.Since(start))
				}
				down = false
				rest, _ := r.drain(rd, 1)
				if fmt.Sprint(data(rest)) != "[d:a-2 d:a-3 d:m-1 d:q]" {
					t.Errorf("%q", data(rest))
				}
			})
		})
	}
}

func TestDecoderOutlivesItsReader(t *testing.T) {
	bubble(t, emulator.Config{NoLimits: true}, func(t *testing.T, r *rig) {
		r.create("s", 1)
		r.put("s", "k", "p")
		ctx, cancel := context.WithCancel(r.ctx)
		s := r.source("s", Decode(&troubled{fail: func(*core.Record) error { cancel(); return core.ErrUnavailable }}))
		if _, err := r.open(s, shardID(0), core.FromHorizon).Next(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// A page may be small on the wire and large once it is decoded.
func TestLargePagesAreHandedOutInParts(t *testing.T) {
	bubble(t, emulator.Config{NoLimits: true}, func(t *testing.T, r *rig) {
		r.create("s", 2)
		r.putFirst("s", aggregate("a", 5), "p", aggregate("b", 4))
		s := r.source("s", Decode(&troubled{size: mostDecoded/3 + 1}))
		rd := r.openFirst(s, core.FromHorizon)
		var got []string
		for range 4 {
			p, err := rd.Next(r.ctx)
			r.ok(err)
			if len(p.Records) > 3 || p.Bytes < len(p.Records)*mostDecoded/3 {
				t.Errorf("a page of %d records says that it takes %d bytes", len(p.Records), p.Bytes)
			}
			got = append(got, data(p.Records)...)
			if p.Release != nil {
				p.Release()
			}
		}
		if want := "[d:a-0 d:a-1 d:a-2 d:a-3 d:a-4 d:p d:b-0 d:b-1 d:b-2 d:b-3]"; fmt.Sprint(got) != want {
			t.Errorf("%q, want %s", got, want)
		}
		if n := len(r.times("GetShardIterator")); n != 4 {
			t.Errorf("%d iterators for 4 parts: what was handed out must not be read again with each", n)
		}
	})
}

// Whatever comes: all of it once and in order, however readers are replaced and decoders fail.
func TestUnpackingLosesNothing(t *testing.T) {
	t.Run("polled", func(t *testing.T) { unpackAll(t, 20) })
	t.Run("pushed", func(t *testing.T) { unpackAll(t, 5, FanOut("billing")) })
}

func unpackAll(t *testing.T, seeds uint64, opts ...Option) {
	bubble(t, emulator.Config{NoLimits: true}, func(t *testing.T, r *rig) {
		for seed := range seeds {
			rnd := rand.New(rand.NewPCG(seed, 1))
			stream := fmt.Sprint("s", seed)
			r.create(stream, 2)
			var put []string
			var want []string
			for i := range 30 {
				name := fmt.Sprint("n", i)
				switch rnd.IntN(3) {
				case 0:
					put, want = append(put, name), append(want, name)
				default:
					pattern := make([]byte, rnd.IntN(5))
					for j := range pattern {
						pattern[j] = "io"[rnd.IntN(2)]
						if pattern[j] == 'i' {
							want = append(want, fmt.Sprintf("%s-%d", name, j))
						}
					}
					put = append(put, mixed(name, string(pattern)))
				}
			}
			r.putFirst(stream, put...)
			s := r.source(stream, append(opts, MaxRecords(1+rnd.IntN(10)), Patience(time.Millisecond), Decode(&troubled{size: rnd.IntN(mostDecoded / 2), fail: func(*core.Record) error {
				if rnd.IntN(10) == 0 {
					return core.ErrUnavailable
				}
				return nil
			}}))...)
			at := core.FromHorizon
			var got []string
			rd := r.openFirst(s, at)
			for tries := 0; len(got) < len(want) && tries < 10_000; tries++ {
				p, err := rd.Next(r.ctx)
				if err == nil {
					for _, in := range p.Records {
						got = append(got, strings.TrimPrefix(string(in.Data), "d:"))
						at = core.Position{Token: in.Sequence, Sub: in.Sub}.Clone()
					}
					if !p.Next.IsZero() {
						at = p.Next
					}
					if p.Release != nil {
						p.Release()
					}
				}
				if rnd.IntN(4) == 0 {
					r.ok(rd.Close())
					rd = r.openFirst(s, at)
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("seed %d:\n%q\nwant\n%q", seed, got, want)
			}
		}
	})
}

func TestOpenedPagesAreReused(t *testing.T) {
	defer func(before bool) { poisoned = before }(poisoned)
	poisoned = false
	p := page{buffer: &buffer{records: make([]core.Record, 0, 100)}}
	s := &Source{settings: newSettings(nil)}
	u := newUnpacking(s, core.Shard{})
	in := []byte(aggregate("a", 50))
	allocations := testing.AllocsPerRun(100, func() {
		clear(p.records)
		p.records = append(p.records[:0], core.Record{Data: in, Sequence: "17"}, core.Record{Data: []byte("plain"), Sequence: "18"})
		p.Records = p.records
		if short, err := u.page(t.Context(), &p, nil); short || err != nil || len(p.Records) != 51 {
			t.Fatal(short, err, len(p.Records))
		}
	})
	if allocations > 4 { // the hash keys, which outlive the page
		t.Errorf("%v allocations for a page with a container", allocations)
	}
	for _, r := range u.spare[:cap(u.spare)] {
		if r.Data != nil {
			t.Fatal("a view of the page is kept")
		}
	}
	if !bytes.Equal(in, []byte(aggregate("a", 50))) {
		t.Error("the container was changed")
	}
}
