package tablestore

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/tablestore"
)

// F122: the iterator of an idle shard dies when retention passes it by. One that was seen empty gets another in time, by time, so that what a
// checkpoint holds stays good; nothing is repeated and nothing skipped, also of what was written while it was changed.
func TestIdleIteratorIsRefreshed(t *testing.T) {
	bubble(t, emulator.Config{TimestampPages: 1}, func(t *testing.T, r *rig) {
		r.ok(r.create(1)) // an hour
		want := r.puts(1, 3)
		s := r.source(PollEvery(10 * time.Second))
		_, err := s.Describe(r.ctx)
		r.ok(err)
		rd := r.open(s, r.only(), core.FromHorizon)
		got, p := r.read(rd, 3)
		at, told := p.Next, 0
		for began := time.Now(); time.Since(began) < 5*time.Hour; {
			p, err := rd.Next(r.ctx)
			r.ok(err)
			got = append(got, values(p)...)
			if !p.Next.IsZero() {
				at = p.Next
				told++
			}
		}
		r.same("in silence", got, want)
		if told < 40 || told > 100 { // retention/48 is below the least, three minutes
			t.Errorf("%d iterators in 5 hours, want one each few minutes", told)
		}
		want = append(want, r.puts(1, 5)...)
		more, _ := r.read(rd, 5)
		r.same("the reader that was there", append(got, more...), want)
		more, _ = r.read(r.open(s, r.only(), at), 5)
		r.same("one that begins at the stored position", more, want[3:])
	})
}

// A record that is seen late, after an iterator was made by time, is behind that iterator all the same.
func TestRefreshLeavesTimeToBeSeen(t *testing.T) {
	bubble(t, emulator.Config{RecordDelay: 30 * time.Second}, func(t *testing.T, r *rig) {
		r.ok(r.create(1))
		s := r.source(PollEvery(time.Second))
		_, err := s.Describe(r.ctx)
		r.ok(err)
		rd := r.open(s, r.only(), core.FromHorizon)
		var want, got []string
		refreshed := 0
		for len(want) < 20 {
			if i := rd.(*reader).idle; !i.since.IsZero() && i.empty.Sub(i.since) > refreshAfter(time.Hour)-10*time.Second {
				want = append(want, r.puts(1, 1)...) // will be seen 20 s after the new iterator is made
				for began := time.Now(); time.Since(began) < 20*time.Second; {
					p, err := rd.Next(r.ctx)
					r.ok(err)
					got = append(got, values(p)...)
					if !p.Next.IsZero() {
						refreshed++
					}
				}
			}
			p, err := rd.Next(r.ctx)
			r.ok(err)
			got = append(got, values(p)...)
		}
		if refreshed < 19 {
			t.Errorf("%d iterators were made while a record was on its way, want 20", refreshed)
		}
		more, _ := r.read(rd, len(want)-len(got))
		r.same("written just before an iterator was made", append(got, more...), want)
	})
}

// Not a busy shard, not one whose iterator moves, not one of which nobody knows that it is empty.
func TestRefreshOnlyWhenProvedEmpty(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.ok(r.create(1))
		s := r.source(PollEvery(10 * time.Second))
		_, err := s.Describe(r.ctx)
		r.ok(err)
		rd := r.open(s, r.only(), core.FromHorizon)
		for range 30 {
			want := r.puts(1, 1)
			r.same("now and then", values(r.page(rd)), want)
			for began := time.Now(); time.Since(began) < 2*time.Minute; {
				if p, err := rd.Next(r.ctx); err != nil || !p.Next.IsZero() {
					t.Fatalf("between records: %+v, %v", p, err)
				}
			}
		}
		if n := len(r.times("GetShardIterator")); n != 1 {
			t.Errorf("%d iterators were made, want the first alone", n)
		}
	})
}

// That no new iterator can be had does no harm yet.
func TestRefreshThatFails(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.ok(r.create(1))
		var log logged
		s := r.source(PollEvery(10*time.Second), Logger(log.logger()))
		_, err := s.Describe(r.ctx)
		r.ok(err)
		rd := r.open(s, r.only(), core.FromHorizon)
		_, err = rd.Next(r.ctx)
		r.ok(err)
		r.fault(emulator.Fault{Kind: emulator.Fail, Code: "OTSServerBusy", Operation: "GetShardIterator"})
		for began := time.Now(); time.Since(began) < 20*time.Minute; {
			_, err := rd.Next(r.ctx)
			r.ok(err)
		}
		if !strings.Contains(log.text.String(), "no new iterator for an idle shard") {
			t.Errorf("the log says %s", &log.text)
		}
		want := r.puts(1, 3)
		r.same("afterwards", values(r.page(rd)), want)
	})
}

// Where an iterator has died, but the reader itself read it empty a moment ago, nothing is lost and nobody is alarmed.
func TestTrimmedWithNothingLost(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.ok(r.create(24))
		want := r.puts(1, 3)
		var log logged
		rd := r.open(r.source(Logger(log.logger()), StopWhenTrimmed()), r.only(), core.FromHorizon)
		got, _ := r.read(rd, 3)
		_, err := rd.Next(r.ctx)
		r.ok(err)
		time.Sleep(time.Millisecond)
		r.ok(r.Trim(instance, table, string(r.only()), time.Now()))
		want = append(want, r.puts(1, 4)...)
		more, _ := r.read(rd, 4)
		r.same("over a trim", append(got, more...), want)
		if !strings.Contains(log.text.String(), "nothing is lost") {
			t.Errorf("the log says %s", &log.text)
		}
	})
}

// Where the empty read is too long ago, records may have come and gone since.
func TestTrimmedAfterALongPause(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.ok(r.create(1))
		s := r.source()
		_, err := s.Describe(r.ctx)
		r.ok(err)
		rd := r.open(s, r.only(), core.FromHorizon)
		_, err = rd.Next(r.ctx)
		r.ok(err)
		time.Sleep(31 * time.Minute)
		r.puts(1, 1)
		time.Sleep(31 * time.Minute)
		r.ok(r.Trim(instance, table, string(r.only()), time.Now()))
		if _, err := rd.Next(r.ctx); !errors.Is(err, core.ErrTrimmed) {
			t.Errorf("%v, want ErrTrimmed", err)
		}
	})
}

// That the shard was empty a moment ago says nothing of the records that came since.
func TestTrimmedBehindRecords(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.ok(r.create(24))
		rd := r.open(r.source(MaxRecords(2)), r.only(), core.FromHorizon)
		_, err := rd.Next(r.ctx)
		r.ok(err)
		r.puts(1, 4)
		r.page(rd)
		time.Sleep(time.Millisecond)
		r.ok(r.Trim(instance, table, string(r.only()), time.Now()))
		if _, err := rd.Next(r.ctx); !errors.Is(err, core.ErrTrimmed) {
			t.Errorf("%v, want ErrTrimmed", err)
		}
	})
}

// A gap is ErrTrimmed, or stops the shard where the user wants that: then the error is not one behind which the engine goes on.
func TestGap(t *testing.T) {
	for name, stop := range map[string]bool{"goes on": false, "stops": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
				r.ok(r.create(24))
				r.puts(1, 10)
				s := r.source()
				if stop {
					s = r.source(StopWhenTrimmed())
				}
				at := r.page(r.open(s, r.only(), core.FromHorizon)).After(3)
				time.Sleep(time.Millisecond)
				r.ok(r.Trim(instance, table, string(r.only()), time.Now()))
				_, err := r.open(s, r.only(), at).Next(r.ctx)
				if errors.Is(err, core.ErrTrimmed) == stop || errors.Is(err, ErrGap) != stop {
					t.Errorf("%v", err)
				}
				if stop && !strings.Contains(err.Error(), "TRIM_HORIZON") {
					t.Errorf("%v does not say what to do", err)
				}
			})
		})
	}
}

// The oldest record may be deleted between the call for an iterator and the read with it. That is no gap: "oldest" is what is left.
func TestOldestDeletedMeanwhile(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.ok(r.create(24))
		r.puts(1, 3)
		time.Sleep(time.Second)
		var want []string
		once := true
		r.answer = func(op string, status int, body []byte) (int, []byte) {
			if op == "GetShardIterator" && once {
				once = false
				if err := r.Trim(instance, table, string(r.only()), time.Now()); err != nil {
					t.Error(err)
				}
				want = r.puts(1, 2)
			}
			return status, body
		}
		got, _ := r.read(r.open(r.source(), r.only(), core.FromHorizon), 2)
		r.same("what is left", got, want)
	})
}

// The new place of an idle reader may lie before records it has delivered, where the service's index of times is coarse: they are left out.
func TestRefreshDoesNotRepeat(t *testing.T) {
	bubble(t, emulator.Config{IteratorsStay: true}, func(t *testing.T, r *rig) {
		r.ok(r.create(1))
		want := r.puts(1, 4)
		s := r.source(PollEvery(10*time.Second), MaxRecords(2))
		_, err := s.Describe(r.ctx)
		r.ok(err)
		oldest := ""
		r.answer = func(op string, status int, body []byte) (int, []byte) {
			if op == "GetShardIterator" {
				a := new(otsprotocol.GetShardIteratorResponse)
				if err := unmarshal(body, a); err != nil {
					t.Error(err)
				}
				if oldest == "" {
					oldest = a.GetShardIterator()
				}
				body = marshal(&otsprotocol.GetShardIteratorResponse{ShardIterator: &oldest})
			}
			return status, body
		}
		rd := r.open(s, r.only(), core.FromHorizon)
		got, _ := r.read(rd, 4)
		for began := time.Now(); time.Since(began) < 10*time.Minute; {
			p, err := rd.Next(r.ctx)
			r.ok(err)
			got = append(got, values(p)...)
		}
		if n := len(r.times("GetShardIterator")); n < 2 {
			t.Errorf("%d iterators were made", n)
		}
		want = append(want, r.puts(1, 1)...)
		got = append(got, values(r.page(rd))...)
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}
