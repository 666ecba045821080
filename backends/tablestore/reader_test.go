package tablestore

import (
	"bytes"
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

func TestRecord(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.ok(r.create(24, "data"))
		r.ok(r.put(7, "a\"b", "text"))
		r.ok(r.put(7, "a\"b", []byte{1}))
		s := r.source()
		p := r.page(r.open(s, r.only(), core.FromHorizon))
		if len(p.Records) != 2 {
			t.Fatalf("%d records, want 2", len(p.Records))
		}
		for i := range p.Records {
			rec := &p.Records[i]
			c, err := ParseChange(rec.Data)
			if err != nil || !equal(c, rec.Native.(*Change)) {
				t.Errorf("record %d: data %s is %+v, %v; native is %+v", i, rec.Data, c, err, rec.Native)
			}
			if rec.Key != `7,"a\"b"` || rec.Sequence != c.Sequence.String() || rec.Arrived != time.Now().UnixMilli() {
				t.Errorf("record %d: key %s, sequence %s, arrived %d", i, rec.Key, rec.Sequence, rec.Arrived)
			}
		}
		c := p.Records[1].Native.(*Change)
		if c.Type != Put || len(c.Old) != 1 || c.Old[0].Value != "text" {
			t.Errorf("the second change is %+v, want a put with the old value", c)
		}
		if p.Bytes < len(p.Records[0].Data)+len(p.Records[1].Data) {
			t.Errorf("the page says that it takes %d bytes", p.Bytes)
		}
	})
}

// What a page holds stays until the page is released, whatever is read meanwhile.
func TestPagesStay(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.ok(r.create(24))
		rd := r.open(r.source(MaxRecords(5)), r.only(), core.FromHorizon)
		var pages []*core.Page
		for i := range 40 {
			r.puts(1, 5)
			pages = append(pages, r.page(rd))
			if i%4 == 3 { // now and then one is
				pages[0].Release()
				pages = pages[1:]
			}
		}
		for _, p := range pages {
			for i := range p.Records {
				if c, err := ParseChange(p.Records[i].Data); err != nil || !equal(c, p.Records[i].Native.(*Change)) {
					t.Fatalf("data became %s, %v", p.Records[i].Data, err)
				}
			}
		}
	})
}

// A position inside a batch is the batch's iterator and a count: reading resumes by reading so many again.
func TestResumeInsideBatch(t *testing.T) {
	for name, partial := range map[string]int{"the service gives all that is asked for": 0, "it gives two at a time": 2} {
		t.Run(name, func(t *testing.T) {
			bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
				r.ok(r.create(24))
				want := r.puts(1, 10)
				s := r.source()
				p := r.page(r.open(s, r.only(), core.FromHorizon))
				r.same("the batch", values(p), want)
				at := p.After(5)
				r.forget()
				if partial > 0 {
					r.fault(emulator.Fault{Kind: emulator.PartialPage, Records: partial})
				}
				rd := r.open(s, r.only(), at)
				var got []string
				for len(got) < 4 {
					p := r.page(rd)
					got = append(got, values(p)...)
					for i := range p.Records { // positions of what is read after a resume work, too
						n := len(got) - len(p.Records) + i + 1
						if rest := want[6+n:]; len(rest) > 0 {
							again, _ := r.read(r.open(s, r.only(), p.After(i)), len(rest))
							r.same(fmt.Sprint("resumed behind ", p.After(i)), again, rest)
						}
					}
				}
				r.same("resumed", got, want[6:])
				if first := r.reads()[0]; first.GetShardIterator() != at.Token || first.GetLimit() != 6 {
					t.Errorf("it resumed with %v, want the position's iterator and a limit of 6", first)
				}
			})
		})
	}
}

// The shard of a checkpoint that counts more records than there are ends all the same.
func TestCountBeyondTheEnd(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.ok(r.create(24))
		r.puts(1, 3)
		var log logged
		s := r.source(Logger(log.logger()))
		shard := r.only()
		at := r.page(r.open(s, shard, core.FromHorizon)).After(2)
		at.Sub = 9
		r.split(100)
		got, _ := r.read(r.open(s, shard, at), 0)
		r.same("behind the end", got, nil)
		if !strings.Contains(log.text.String(), "as many records as the checkpoint counts") {
			t.Errorf("the log says nothing of it: %s", &log.text)
		}
	})
}

// An idle shard is read less than once a second, and at full speed again as soon as there are records.
func TestPaceOfIdleShard(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.ok(r.create(24))
		rd := r.open(r.source(), r.only(), core.FromHorizon)
		began := time.Now()
		for time.Since(began) < 10*time.Minute {
			if p, err := rd.Next(r.ctx); err != nil || len(p.Records) > 0 || p.Lag != 0 || !p.Next.IsZero() {
				t.Fatalf("page %+v, %v; want an empty one", p, err)
			}
		}
		reads := r.times("GetStreamRecord")
		if n := float64(len(reads)) / time.Since(began).Seconds(); n >= 1 || n < 0.7 {
			t.Errorf("%.2f reads a second, want 0.8", n)
		}
		if d := reads[2].Sub(reads[0]); d > 500*time.Millisecond {
			t.Errorf("the first pauses are %v together: a new shard is not an idle one", d)
		}
		put := time.Now()
		want := r.puts(1, 3)
		r.same("after a long silence", values(r.page(rd)), want)
		if d := time.Since(put); d > 1500*time.Millisecond {
			t.Errorf("records came after %v", d)
		}
		for range 20 {
			put = time.Now()
			want = r.puts(1, 1)
			r.same("while busy", values(r.page(rd)), want)
			if d := time.Since(put); d > 100*time.Millisecond {
				t.Fatalf("a busy shard was read after %v", d)
			}
		}
	})
}

// Polls of idle shards come together.
func TestIdlePollsComeTogether(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.ok(r.create(24))
		s := r.source()
		done := make(chan error)
		for i := range 20 {
			time.Sleep(time.Duration(i) * 7 * time.Millisecond)
			rd := r.open(s, r.only(), core.FromHorizon)
			go func() {
				for began := time.Now(); time.Since(began) < time.Minute; {
					if _, err := rd.Next(r.ctx); err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
		}
		time.Sleep(20 * time.Second)
		r.forget()
		time.Sleep(10 * time.Second)
		at := map[time.Time]bool{}
		reads := r.times("GetStreamRecord")
		for _, t := range reads {
			at[t.Truncate(time.Millisecond)] = true
		}
		if len(reads) < 150 || len(at) > 8*10 {
			t.Errorf("%d reads at %d instants, want no more than 64 instants", len(reads), len(at))
		}
		for range 20 {
			r.ok(<-done)
		}
	})
}

// A shard that is behind is read without pauses, also where the service gives less than it is asked for.
func TestBehindIsReadAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		config emulator.Config
		opts   []Option
	}{
		"the source asks for few": {emulator.Config{}, []Option{MaxRecords(10)}},
		"the service gives few":   {emulator.Config{PageRecords: 10}, nil},
		"by bytes":                {emulator.Config{PageRecordBytes: 300}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, c.config, func(t *testing.T, r *rig) {
				r.ok(r.create(24))
				want := r.puts(1, 200)
				time.Sleep(time.Minute)
				began := time.Now()
				got, p := r.read(r.open(r.source(c.opts...), r.only(), core.FromHorizon), len(want))
				r.same("behind", got, want)
				if d := time.Since(began); d > 100*time.Millisecond {
					t.Errorf("it took %v", d)
				}
				if n := len(r.reads()); n < 15 {
					t.Errorf("%d reads show nothing", n)
				}
				if p.Lag < time.Minute || p.Lag > time.Minute+time.Second {
					t.Errorf("lag %v, want a minute", p.Lag)
				}
			})
		})
	}
}

// How much is asked for follows the size of records, so that pages stay small in bytes.
func TestPagesAreBoundedByBytes(t *testing.T) {
	bubble(t, emulator.Config{PageRecordBytes: 64 << 20, PageRecords: 1 << 20}, func(t *testing.T, r *rig) {
		r.ok(r.create(24))
		puts := func(n int) {
			for range n {
				r.ok(r.put(1, "large", bytes.Repeat([]byte{1}, 100_000)))
			}
		}
		puts(1)
		rd := r.open(r.source(PageBytes(300_000)), r.only(), core.FromHorizon)
		r.page(rd)
		puts(8)
		for range 4 {
			if p := r.page(rd); len(p.Records) != 2 {
				t.Errorf("a page of %d records of 100 kB, want 2 for 300 kB", len(p.Records))
			}
		}
		if limit := r.reads()[0].GetLimit(); limit > 200 {
			t.Errorf("the first read asks for %d records, whose size it does not know", limit)
		}
	})
}

func TestSizeForgivesOneLargeRecord(t *testing.T) {
	s := size{page: 256 << 10, most: 1000}
	for range 5 {
		s.saw(100, 100*500)
	}
	if n := s.limit(); n < 500 {
		t.Errorf("limit %d for records of 500 bytes", n)
	}
	s.saw(1, 2<<20)
	if n := s.limit(); n != 1 {
		t.Errorf("limit %d behind one of 2 MB, want 1", n)
	}
	for range 4 {
		s.saw(1, 500)
	}
	if n := s.limit(); n < 200 {
		t.Errorf("limit %d, four reads later", n)
	}
}

// answers makes GetStreamRecord give these, one after the other, and then what the service gives.
func (r *rig) script(answers ...*otsprotocol.GetStreamRecordResponse) {
	r.answer = func(op string, status int, body []byte) (int, []byte) {
		if op != "GetStreamRecord" {
			return status, body
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(answers) == 0 {
			return status, body
		}
		a := answers[0]
		answers = answers[1:]
		if a.NextShardIterator != nil && *a.NextShardIterator == "real" {
			real := new(otsprotocol.GetStreamRecordResponse)
			if err := unmarshal(body, real); err != nil {
				r.t.Error(err)
			}
			a.NextShardIterator = real.NextShardIterator
		}
		return status, marshal(a)
	}
}

// F126: an empty answer is not the end of what there is where the service says that more may follow.
func TestEmptyWithMore(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.ok(r.create(24))
		more := func(b bool) *otsprotocol.GetStreamRecordResponse {
			return &otsprotocol.GetStreamRecordResponse{NextShardIterator: new("real"), MayMoreRecord: new(b)}
		}
		r.script(more(true), more(true), more(true), more(true), more(true), more(false))
		rd := r.open(r.source(), r.only(), core.FromHorizon)
		began := time.Now()
		for i := range 6 {
			p, err := rd.Next(r.ctx)
			r.ok(err)
			if (p.Lag < 0) != (i < 5) {
				t.Errorf("lag %v at read %d: not known as long as there may be more", p.Lag, i+1)
			}
		}
		if d := time.Since(began); d > 0 {
			t.Errorf("it paused for %v", d)
		}
		if _, err := rd.Next(r.ctx); err != nil || time.Since(began) < 100*time.Millisecond {
			t.Errorf("no pause once there is no more: %v, %v", time.Since(began), err)
		}
	})
}

// An iterator that moves over nothing is handed out, but not with each read.
func TestIteratorMovesOverNothing(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.ok(r.create(24))
		n := 0
		r.answer = func(op string, status int, body []byte) (int, []byte) {
			if op != "GetStreamRecord" {
				return status, body
			}
			n++
			return 200, marshal(&otsprotocol.GetStreamRecordResponse{NextShardIterator: new(fmt.Sprint("it", n))})
		}
		rd := r.open(r.source(), r.only(), core.FromHorizon)
		told, began := 0, time.Now()
		var last core.Position
		for time.Since(began) < 10*time.Minute {
			p, err := rd.Next(r.ctx)
			r.ok(err)
			if !p.Next.IsZero() {
				told++
				last = p.Next
			}
		}
		if _, err := rd.Next(r.ctx); err != nil {
			t.Error(err)
		}
		if told < 9 || told > 11 {
			t.Errorf("told %d positions in ten minutes, want one a minute", told)
		}
		if reads := r.reads(); last.Token == "" || !slices.ContainsFunc(reads, func(in *otsprotocol.GetStreamRecordRequest) bool { return in.GetShardIterator() == last.Token }) {
			t.Errorf("the last position is %v, which was not read on from", last)
		}
	})
}

// That a shard has ended is believed when it is said twice.
func TestEndIsSaidTwice(t *testing.T) {
	for name, n := range map[string]int{"with records": 4, "without": 0} {
		t.Run(name, func(t *testing.T) {
			bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
				r.ok(r.create(24))
				want := r.puts(1, n)
				r.fault(emulator.Fault{Kind: emulator.EndEarly, Times: 1})
				rd := r.open(r.source(), r.only(), core.FromHorizon)
				if n > 0 {
					r.same("with an end that is none", values(r.page(rd)), want)
				}
				want = r.puts(1, 3)
				got, p := r.read(rd, 3)
				r.same("behind an end that is none", got, want)
				if p.End {
					t.Error("the shard is open, and ended")
				}
				want = r.puts(1, 2)
				r.split(100)
				got, _ = r.read(rd, 0)
				r.same("before the end", got, want)
				if _, err := rd.Next(r.ctx); !errors.Is(err, core.ErrInvalid) {
					t.Errorf("behind the end: %v", err)
				}
			})
		})
	}
}

// On a shard that has ended the listing cannot tell that an answer was wrong: the second answer does.
func TestEndOfClosedShardIsSaidTwice(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.ok(r.create(24))
		want := r.puts(1, 5)
		shard := r.only()
		r.split(100)
		r.fault(emulator.Fault{Kind: emulator.PartialPage, Operation: "GetStreamRecord", Times: 1})
		r.fault(emulator.Fault{Kind: emulator.EndEarly, Times: 1})
		got, _ := r.read(r.open(r.source(), shard, core.FromHorizon), 0)
		r.same("behind an empty answer without an iterator", got, want)
	})
}

// Damaged and cut answers are asked for again: nothing is lost, and no end is taken from them.
func TestDamagedAnswersAreReadAgain(t *testing.T) {
	for _, kind := range []emulator.Kind{emulator.Corrupt, emulator.Truncate, emulator.CutAnswer, emulator.DropAnswer} {
		t.Run(string(kind), func(t *testing.T) {
			bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
				r.ok(r.create(24))
				want := r.puts(1, 5)
				rd := r.open(r.source(), r.only(), core.FromHorizon)
				r.fault(emulator.Fault{Kind: kind, Operation: "GetStreamRecord", Times: 3})
				got, p := r.read(rd, 5)
				r.same("behind damaged answers", got, want)
				if p.End || len(r.reads()) != 4 {
					t.Errorf("end %v after %d reads", p.End, len(r.reads()))
				}
				r.fault(emulator.Fault{Kind: kind, Operation: "GetStreamRecord"})
				r.puts(1, 1)
				if _, err := rd.Next(r.ctx); !errors.Is(err, core.ErrUnavailable) {
					t.Errorf("when all are damaged: %v, want ErrUnavailable", err)
				}
			})
		})
	}
	t.Run("a body cut between two fields, without a checksum", func(t *testing.T) {
		bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
			r.ok(r.create(24))
			want := r.puts(1, 5)
			n := 0
			r.answer = func(op string, status int, body []byte) (int, []byte) {
				if n++; op != "GetStreamRecord" || n > 3 {
					return status, body
				}
				a := new(otsprotocol.GetStreamRecordResponse)
				if err := unmarshal(body, a); err != nil {
					t.Error(err)
				}
				a.StreamRecords, a.NextShardIterator = a.StreamRecords[:2], nil
				return status, marshal(a)
			}
			got, p := r.read(r.open(r.source(), r.only(), core.FromHorizon), 5)
			r.same("behind a cut answer", got, want)
			if p.End {
				t.Error("it ended")
			}
		})
	})
}

// F129: times are microseconds, and the call by time is repeated with the token it gives.
func TestStartByTime(t *testing.T) {
	bubble(t, emulator.Config{TimestampPages: 3}, func(t *testing.T, r *rig) {
		r.ok(r.create(24))
		var want []string
		for range 120 {
			want = append(want, r.puts(1, 1)...)
			time.Sleep(time.Minute)
		}
		s := r.source(MaxRecords(10))
		_, err := s.Describe(r.ctx)
		r.ok(err)
		r.forget()
		r.fault(emulator.Fault{Kind: emulator.Fail, Code: "OTSServerBusy", Operation: "GetShardIterator", Skip: 2, Times: 1})
		got, _ := r.read(r.open(s, r.only(), core.From(time.Now().Add(-time.Hour))), 60)
		r.same("an hour ago", got, want[60:])
		if n := len(r.times("GetShardIterator")); n != 5 {
			t.Errorf("%d calls, want 4 and one that was throttled", n)
		}
		if n := len(r.times("GetStreamRecord")); n > 7 {
			t.Errorf("%d reads for 60 records, 10 at a time: what is older was scanned", n)
		}
		future := r.open(s, r.only(), core.From(time.Now().Add(time.Hour)))
		for range 3 {
			if p, err := future.Next(r.ctx); err != nil || len(p.Records) > 0 {
				t.Errorf("from the future: %v, %v", p, err)
			}
		}
	})
}

// The service may place an iterator by time too early: what is older is left out.
func TestStartByTimeIsExact(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.ok(r.create(24))
		old := r.puts(1, 10)
		time.Sleep(time.Minute)
		at := time.Now()
		want := r.puts(1, 5)
		s := r.source(MaxRecords(3))
		info, err := s.Describe(r.ctx)
		r.ok(err)
		r.answer = func(op string, status int, body []byte) (int, []byte) {
			if op != "GetShardIterator" {
				return status, body
			}
			out, err := r.admin.GetShardIterator(&sdk.GetShardIteratorRequest{StreamId: streamID(info.ID), ShardId: new(sdk.ShardId(r.only()))})
			if err != nil {
				t.Error(err)
			}
			return 200, marshal(&otsprotocol.GetShardIteratorResponse{ShardIterator: (*string)(out.ShardIterator)})
		}
		got, _ := r.read(r.open(s, r.only(), core.From(at)), 5)
		r.same("from the instant", got, want)
		resolved, err := s.Resolve(r.ctx, core.Shard{ID: r.only()}, core.From(at))
		r.ok(err)
		got, _ = r.read(r.open(s, r.only(), resolved), 5)
		r.same("from the instant, resolved", got, want)
		got, _ = r.read(r.open(s, r.only(), core.FromHorizon), 15)
		r.same("all", got, append(old, want...))
	})
}

// A start before what the service keeps is a gap, and told as one.
func TestStartBeforeRetention(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.ok(r.create(24))
		want := r.puts(1, 3)
		r.answer = func(op string, status int, body []byte) (int, []byte) {
			if op == "GetShardIterator" {
				return 404, marshal(&otsprotocol.Error{Code: new("OTSTrimmedDataAccess"), Message: new("gone")})
			}
			return status, body
		}
		s := r.source()
		_, err := r.open(s, r.only(), core.From(time.Now().Add(-48*time.Hour))).Next(r.ctx)
		if !errors.Is(err, core.ErrTrimmed) {
			t.Errorf("%v, want ErrTrimmed", err)
		}
		r.answer = nil
		got, _ := r.read(r.open(s, r.only(), core.From(time.Now().Add(-48*time.Hour))), 3)
		r.same("where the service gives the oldest instead", got, want)
	})
}

// Whatever the service does that it may, a reader gives each record once and in order, from wherever it resumes.
func TestReaderUnderFaults(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			dice := rand.New(rand.NewPCG(seed, 1))
			config := emulator.Config{
				Seed: seed, LateEnd: dice.IntN(2) == 0, IteratorsStay: dice.IntN(2) == 0, TimestampPages: dice.IntN(3), PageRecords: 1 + dice.IntN(20),
				RecordDelay: time.Duration(dice.IntN(3)) * time.Second,
			}
			for _, kind := range []emulator.Kind{emulator.DropRequest, emulator.DropAnswer, emulator.CutAnswer, emulator.Corrupt, emulator.Truncate} {
				config.Faults = append(config.Faults, emulator.Fault{Kind: kind, Operation: "GetStreamRecord", Probability: 0.05})
			}
			config.Faults = append(config.Faults,
				// Two of these in a row, on a shard that has ended and has more records, are an end: so not too often.
				emulator.Fault{Kind: emulator.EndEarly, Operation: "GetStreamRecord", Probability: 0.01},
				emulator.Fault{Kind: emulator.PartialPage, Records: dice.IntN(4), Probability: 0.1, Operation: "GetStreamRecord"},
				emulator.Fault{Kind: emulator.Fail, Code: "OTSServerBusy", Probability: 0.1, Operation: "GetStreamRecord"},
				emulator.Fault{Kind: emulator.Fail, Code: "OTSInternalServerError", Probability: 0.1, Operation: "GetShardIterator"})
			bubble(t, config, func(t *testing.T, r *rig) {
				r.ok(r.create(1)) // an hour
				s := r.source(MaxRecords(1+dice.IntN(30)), PageBytes(200+dice.IntN(5000)), PollEvery(20*time.Second))
				shard := r.only()
				rd := r.open(s, shard, core.FromHorizon)
				var want, got []string
				for range 60 {
					switch dice.IntN(6) {
					case 0, 1, 2:
						want = append(want, r.puts(1, dice.IntN(12))...)
					case 3: // the records are read, and then there is silence, which may be longer than retention
						got = append(got, r.drain(rd, len(want)-len(got))...)
						for began, d := time.Now(), time.Duration(dice.IntN(100))*time.Minute; time.Since(began) < d; {
							if p, err := rd.Next(r.ctx); err != nil && !passes(err) || err == nil && len(p.Records) > 0 {
								t.Fatalf("in silence: %+v, %v", p, err)
							}
						}
					case 4:
						time.Sleep(time.Duration(dice.IntN(30)) * time.Second)
					case 5: // another reader goes on, from behind any record
						p, err := rd.Next(r.ctx)
						if err != nil && !passes(err) {
							t.Fatal(err)
						}
						if err != nil || len(p.Records) == 0 {
							continue
						}
						n := dice.IntN(len(p.Records))
						got = append(got, values(p)[:n+1]...)
						_ = rd.Close()
						rd = r.open(s, shard, p.After(n))
					}
				}
				r.split(1000)
				for {
					p, err := rd.Next(r.ctx)
					if err != nil {
						if passes(err) {
							continue
						}
						t.Fatal(err)
					}
					got = append(got, values(p)...)
					if p.End {
						break
					}
				}
				if !slices.Equal(got, want) {
					t.Errorf("got %d records, want %d:\n%v\n%v", len(got), len(want), got, want)
				}
			})
		})
	}
}

// drain reads n records.
func (r *rig) drain(rd core.ShardReader, n int) (got []string) {
	r.t.Helper()
	for len(got) < n {
		p, err := rd.Next(r.ctx)
		if err != nil && !passes(err) {
			r.t.Fatal(err)
		}
		if err == nil {
			got = append(got, values(p)...)
		}
	}
	return got
}
