package tablestore

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aliyun/aliyun-tablestore-go-sdk/common"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/tablestore"
)

func TestDescribe(t *testing.T) {
	bubble(t, emulator.Config{StreamDelay: 10 * time.Second}, func(t *testing.T, r *rig) {
		r.ok(r.create(36))
		began := time.Now()
		info, err := r.source().Describe(r.ctx)
		r.ok(err)
		if !strings.HasPrefix(string(info.ID), table+"_") || info.Name != table || info.Retention != 36*time.Hour {
			t.Errorf("%+v", info)
		}
		if want := (core.SourceLacks{HashRanges: true, ChildrenAtEnd: true}); info.Lacks != want {
			t.Errorf("lacks %+v, want %+v", info.Lacks, want)
		}
		if d := time.Since(began); d < 9*time.Second || d > 12*time.Second {
			t.Errorf("waited %v for a stream that was being enabled", d)
		}
	})
}

// What users get wrong, and what they are told.
func TestWrongFromTheStart(t *testing.T) {
	nobody := &common.DefaultCredentialsProvider{}
	stranger := &common.DefaultCredentialsProvider{AccessKeyID: "x", AccessKeySecret: "wrong"}
	for _, c := range []struct {
		name   string
		at     Instance
		table  string
		hours  int32
		opts   []Option
		kind   error
		texts  []string
		unsent bool
	}{
		{"no stream on the table", there(), table, 0, nil, core.ErrNotFound, []string{table, "enable it", "UpdateTable"}, false},
		{"no such table", there(), "order", 24, nil, core.ErrNotFound, []string{"table order", "instance inst", "http://emulator"}, false},
		{"an unknown instance", Instance{"http://emulator", "ints", keys()}, table, 24, nil, core.ErrNotFound, []string{"instance ints"}, false},
		{"a wrong secret", Instance{"http://emulator", instance, stranger}, table, 24, nil, core.ErrDenied, []string{"instance inst", "secret"}, false},
		{"no credentials", Instance{"http://emulator", instance, nobody}, table, 24, nil, core.ErrDenied, []string{"TABLESTORE_ACCESS_KEY_ID"}, true},
		{"no endpoint", Instance{"", instance, keys()}, table, 24, nil, core.ErrInvalid, []string{"endpoint", "https://"}, true},
		{"an endpoint with a path", Instance{"http://emulator/inst", instance, keys()}, table, 24, nil, core.ErrInvalid, []string{"endpoint"}, true},
		{"no instance", Instance{"http://emulator", "", keys()}, table, 24, nil, core.ErrInvalid, []string{"instance"}, true},
		{"no table", there(), "", 24, nil, core.ErrInvalid, []string{"table is empty"}, true},
		{"PollEvery", there(), table, 24, []Option{PollEvery(0)}, core.ErrInvalid, []string{"PollEvery is 0s"}, true},
		{"PollBusy", there(), table, 24, []Option{PollBusy(time.Hour)}, core.ErrInvalid, []string{"PollBusy is 1h", "PollEvery"}, true},
		{"Patience", there(), table, 24, []Option{Patience(-1)}, core.ErrInvalid, []string{"Patience is -1ns"}, true},
		{"RequestTimeout", there(), table, 24, []Option{RequestTimeout(0)}, core.ErrInvalid, []string{"RequestTimeout"}, true},
		{"MaxRecords", there(), table, 24, []Option{MaxRecords(0)}, core.ErrInvalid, []string{"MaxRecords is 0"}, true},
		{"PageBytes", there(), table, 24, []Option{PageBytes(-1)}, core.ErrInvalid, []string{"PageBytes is -1"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, emulator.Config{Credentials: map[string]string{"x": "x"}}, func(t *testing.T, r *rig) {
				r.ok(r.create(c.hours))
				s := New(c.at, c.table, append([]Option{Transport(r)}, c.opts...)...)
				_, describe := s.Describe(r.ctx)
				_, shards := s.Shards(r.ctx, core.Position{})
				_, resolve := s.Resolve(r.ctx, core.Shard{ID: "s"}, core.FromLatest)
				_, now := s.Now(r.ctx)
				rd, read := s.Open(r.ctx, core.Shard{ID: "s"}, core.FromHorizon)
				if read == nil {
					_, read = rd.Next(r.ctx)
				}
				_, streams := Tables(c.at, core.FromHorizon, []string{c.table}, append([]Option{Transport(r)}, c.opts...)...).Streams(r.ctx)
				for call, err := range map[string]error{"Describe": describe, "Shards": shards, "Resolve": resolve, "Now": now, "Open and Next": read, "Streams": streams} {
					if !errors.Is(err, c.kind) {
						t.Errorf("%s: %v, want %v", call, err, c.kind)
						continue
					}
					for _, text := range c.texts {
						if !strings.Contains(err.Error(), text) {
							t.Errorf("%s: %v does not say %q", call, err, text)
						}
					}
				}
				if n := len(r.calls); (n == 0) != c.unsent {
					t.Errorf("%d requests were sent", n)
				}
			})
		})
	}
}

// F130: a failure that does not end is told after a bounded time, with what and where.
func TestPatienceEnds(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.ok(r.create(24))
		shard := r.only()
		r.fault(emulator.Fault{Kind: emulator.Fail, Code: "OTSInternalServerError"})
		s := r.source(Patience(10 * time.Second))
		rd := r.open(s, shard, core.FromHorizon)
		for call, do := range map[string]func() error{
			"Describe": func() error { _, err := s.Describe(r.ctx); return err },
			"Next":     func() error { _, err := rd.Next(r.ctx); return err },
		} {
			began := time.Now()
			err := do()
			if d := time.Since(began); d < 2*time.Second || d > 10*time.Second+time.Millisecond { // the pause that would go beyond 10 s is not made
				t.Errorf("%s: it took %v, want up to 10 s", call, d)
			}
			for _, text := range []string{"OTSInternalServerError", "table orders", "instance inst", "request "} {
				if !errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), text) {
					t.Errorf("%s: %v, want ErrUnavailable that says %q", call, err, text)
				}
			}
		}
	})
}

// The codes of the service, as the engine gets them from a reader.
func TestCodes(t *testing.T) {
	for code, kind := range map[string]error{
		"OTSServerBusy": core.ErrThrottled, "OTSNotEnoughCapacityUnit": core.ErrThrottled, "OTSCapacityUnitExhausted": core.ErrThrottled,
		"OTSPartitionUnavailable": core.ErrUnavailable, "OTSTableNotReady": core.ErrUnavailable, "OTSTimeout": core.ErrUnavailable,
		"OTSAuthFailed": core.ErrDenied, "OTSNoPermissionAccess": core.ErrDenied, "OTSTrimmedDataAccess": core.ErrTrimmed,
		// The table is there and the shard is listed: it is the position that the service does not take.
		"OTSParameterInvalid": core.ErrInvalid, "OTSObjectNotExist": core.ErrInvalid,
	} {
		t.Run(code, func(t *testing.T) {
			bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
				r.ok(r.create(24))
				r.puts(1, 1)
				s := r.source(Patience(time.Second))
				rd := r.open(s, r.only(), r.page(r.open(s, r.only(), core.FromHorizon)).After(0))
				r.fault(emulator.Fault{Kind: emulator.Fail, Code: code, Operation: "GetStreamRecord"})
				_, err := rd.Next(r.ctx)
				if !errors.Is(err, kind) {
					t.Errorf("%v, want %v", err, kind)
				}
				if other, ok := errors.AsType[*core.Error](err); !ok || other.Shard != r.only() {
					t.Errorf("%v does not name the shard", err)
				}
				r.ClearFaults()
				want := r.puts(1, 1)
				if got, _ := r.read(rd, 1); !strings.Contains(strings.Join(got, " "), want[0]) {
					t.Errorf("afterwards: %v, want %v", got, want)
				}
			})
		})
	}
}

// The service's time is that of its answers, wherever our clock stands.
func TestClock(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.ok(r.create(24))
		const ahead = 42 * time.Minute
		s := New(there(), table, Transport(roundTrip(func(req *http.Request) (*http.Response, error) {
			res, err := r.RoundTrip(req)
			if err == nil {
				res.Header.Set("X-Ots-Date", time.Now().Add(ahead).UTC().Format("2006-01-02T15:04:05.000000Z"))
			}
			return res, err
		})))
		now, err := s.Now(r.ctx)
		r.ok(err)
		if d := now.Sub(time.Now().Add(ahead)).Abs(); d > time.Millisecond {
			t.Errorf("it is off by %v", d)
		}
		s = New(there(), table, Transport(roundTrip(func(req *http.Request) (*http.Response, error) {
			res, err := r.RoundTrip(req)
			if err == nil {
				res.Header["X-Ots-Date"] = []string{"tomorrow"}
				delete(res.Header, "x-ots-date")
			}
			return res, err
		})))
		if now, err = s.Now(r.ctx); err != nil || time.Until(now).Abs() > time.Millisecond {
			t.Errorf("without a time that makes sense: %v, %v", now, err)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
