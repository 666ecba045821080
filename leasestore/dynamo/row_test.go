package dynamo_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/dynamodb"
	"github.com/shardwarden/shardwarden/leasestore/dynamo"
)

// dump is a table as a KCL left it.
type dump struct {
	Items []json.RawMessage
}

func readDump(t *testing.T, name string) dump {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../testdata/kcl-tables", name))
	must(t, err)
	var d dump
	must(t, json.Unmarshal(text, &d))
	if len(d.Items) == 0 {
		t.Fatalf("%s has no rows", name)
	}
	return d
}

// Every lease row that a KCL wrote, of each version, reads right, field by field, and its other rows are skipped.
func TestRowsOfTheKCLs(t *testing.T) {
	for _, c := range []struct {
		dump    string
		leases  []string // in the form of brief
		workers []string
	}{
		{"kcl-1.15.3.single.1-running.json", []string{
			"shardId-000000000000 owner worker-1 counter 9 at TRIM_HORIZON [0-170141183460469231731687303715884105726]",
			"shardId-000000000001 owner worker-1 counter 9 at TRIM_HORIZON [170141183460469231731687303715884105727-340282366920938463463374607431768211455]",
		}, nil},
		{"kcl-1.15.3.single.3-on-dynalite-with-checkpoints.json", []string{
			"shardId-000000000000 owner worker-1 counter 18 at SHARD_END children [shardId-000000000002 shardId-000000000003] [0-170141183460469231731687303715884105726]",
			"shardId-000000000001 owner worker-1 counter 17 at 49680705781030606101329487575461962667824523677397942290 [170141183460469231731687303715884105727-340282366920938463463374607431768211455]",
			"shardId-000000000002 owner worker-1 counter 17 at 49680705817447723010529995165445928434525157144873926690 parents [shardId-000000000000] [0-85070591730234615865843651857942052862]",
			"shardId-000000000003 owner worker-1 counter 17 at 49680705817470023755728525788585046301158576248030494770 parents [shardId-000000000000] [85070591730234615865843651857942052863-170141183460469231731687303715884105726]",
		}, nil},
		{"kcl-2.7.2.single.after-split.json", []string{
			"shardId-000000000000 owner worker-1 counter 13 at SHARD_END children [shardId-000000000002 shardId-000000000003] [0-170141183460469231731687303715884105726]",
			"shardId-000000000001 owner worker-1 counter 12 at 49680705611188130669320261729626273146362581759857524754 [170141183460469231731687303715884105727-340282366920938463463374607431768211455]",
			"shardId-000000000002 owner worker-1 counter 6 at 49680705641896256807696929795323902299202190998115450914 parents [shardId-000000000000] [0-85070591730234615865843651857942052862]",
			"shardId-000000000003 owner worker-1 counter 6 at 49680705641918557552895460418465438017474839359621431346 parents [shardId-000000000000] [85070591730234615865843651857942052863-170141183460469231731687303715884105726]",
		}, nil},
		{"kcl-3.4.2.single.after-split.lease.json", []string{
			"shardId-000000000000 owner worker-1 counter 7 at SHARD_END children [shardId-000000000002 shardId-000000000003] [0-170141183460469231731687303715884105726] 0.671608 KB/s",
			"shardId-000000000001 owner worker-1 counter 6 at 49680705611188130669320261729620228517264508613983993874 [170141183460469231731687303715884105727-340282366920938463463374607431768211455] 1.535104 KB/s",
			"shardId-000000000002 owner worker-1 counter 1 at TRIM_HORIZON parents [shardId-000000000000] [0-85070591730234615865843651857942052862]",
			"shardId-000000000003 owner worker-1 counter 1 at TRIM_HORIZON parents [shardId-000000000000] [85070591730234615865843651857942052863-170141183460469231731687303715884105726]",
		}, nil},
		{"kcl-3.5.1.single.2-after-split.json", []string{
			"shardId-000000000000 owner worker-1 counter 20 at SHARD_END children [shardId-000000000002 shardId-000000000003] [0-170141183460469231731687303715884105726] 0.000191 KB/s",
			"shardId-000000000001 owner worker-1 counter 20 at 49680705610831318746143771759330269582690227548500000786 [170141183460469231731687303715884105727-340282366920938463463374607431768211455] 0.00151 KB/s",
			"shardId-000000000002 owner worker-1 counter 11 at 49680705641539444884520439825067793287577119549523230754 parents [shardId-000000000000] [0-85070591730234615865843651857942052862] 0.013146 KB/s",
			"shardId-000000000003 owner worker-1 counter 11 at 49680705641561745629718970448200866525112465506806267954 parents [shardId-000000000000] [85070591730234615865843651857942052863-170141183460469231731687303715884105726] 0.011532 KB/s",
		}, []string{"worker-1 beat 1796039607 load map[cpu:98.623053140625]"}},
		{"kcl-3.5.1.two-workers.json", nil, []string{"wA beat 1796040964 load map[cpu:100]", "wB beat 1796040965 load map[cpu:100]"}},
	} {
		t.Run(c.dump, func(t *testing.T) {
			srv := serve(t, emulator.Config{})
			s := srv.ready(t)
			d := readDump(t, c.dump)
			for _, row := range d.Items {
				srv.put(t, string(row))
			}
			sight, err := s.Look(t.Context(), stream)
			must(t, err)
			if len(sight.Bad) > 0 {
				t.Fatalf("unreadable rows: %v", sight.Bad)
			}
			var leases, workers []string
			for _, l := range sight.Leases {
				leases = append(leases, brief(l))
				if l.Key.Stream != stream || l.Ready || l.Run != "" || l.Next != core.Nobody || l.Raw != nil || l.Pending != nil || l.Switches != 0 {
					t.Errorf("%s: a row of the KCL has none of our marks, and nothing unknown: %+v", l.Key, l)
				}
			}
			slices.Sort(leases)
			if c.leases != nil && !reflect.DeepEqual(leases, c.leases) {
				t.Errorf("leases:\n%s\nwant\n%s", strings.Join(leases, "\n"), strings.Join(c.leases, "\n"))
			}
			if c.leases == nil && len(leases) != 8 {
				t.Errorf("%d leases, want 8", len(leases))
			}
			for _, w := range sight.Workers {
				workers = append(workers, fmt.Sprintf("%s beat %s load %v", w.ID, w.Beat, w.Load))
			}
			if !reflect.DeepEqual(workers, c.workers) {
				t.Errorf("workers: %q, want %q", workers, c.workers)
			}
		})
	}
}

func brief(l core.Lease) string {
	b := fmt.Sprintf("%s owner %s counter %d at %s", l.Key.Shard, l.Owner, l.Counter, l.Checkpoint)
	if l.Parents != nil {
		b += fmt.Sprintf(" parents %v", l.Parents)
	}
	if l.Children != nil {
		b += fmt.Sprintf(" children %v", l.Children)
	}
	if l.Range != nil {
		b += fmt.Sprintf(" [%s-%s]", decimal(l.Range.Start), decimal(l.Range.End))
	}
	if l.Throughput != 0 {
		b += fmt.Sprintf(" %v KB/s", l.Throughput)
	}
	return b
}

// A lease read from a row of the KCL and created anew is the same row, attribute by attribute and type by type.
func TestRowsComeBackAsTheyWere(t *testing.T) {
	for _, name := range []string{"kcl-3.5.1.single.2-after-split.json", "kcl-3.5.1.single.1-running.json", "kcl-3.5.1.two-workers.json"} {
		t.Run(name, func(t *testing.T) {
			from, to := serve(t, emulator.Config{}), serve(t, emulator.Config{})
			from.external(true) // two tables
			source, target := from.ready(t), to.ready(t)
			want := map[string]string{}
			for _, row := range readDump(t, name).Items {
				if it := item(t, string(row)); showValue(it["entityType"]) == "S LEASE" {
					from.put(t, string(row))
					key := strings.TrimPrefix(showValue(it["leaseKey"]), "S ")
					want[key] = strings.ReplaceAll(show(it), " throughputKBps=N 0", "") // 0 KB/s is what a row without it means
					if n := it["throughputKBps"]; n != nil && showValue(n) != "N 0" {
						want[key] = show(it)
					}
				}
			}
			for l, err := range source.List(t.Context()) { // without a stream: nobody's stamp comes to it
				must(t, err)
				_, err = target.Create(t.Context(), l)
				must(t, err)
			}
			for key, row := range want {
				if got := to.row(t, key); got != row {
					t.Errorf("row\n%s came back as\n%s", row, got)
				}
			}
		})
	}
}

// Everything a lease can hold survives creation and reading.
func TestCreateKeepsEverything(t *testing.T) {
	srv := serve(t, emulator.Config{})
	s := srv.ready(t)
	at := time.Date(2026, 11, 30, 13, 5, 9, 123456789, time.UTC)
	full := core.Lease{
		Key: core.LeaseKey{Stream: stream, Shard: "shardId-000000000009"}, Owner: "A", Next: "B", Counter: 41, Checkpoint: core.FromLatest, StartAt: at,
		Pending: &core.Pending{At: core.Position{Token: "495", Sub: 3}, State: []byte("state")}, Parents: []core.ShardID{"p1", "p2"}, Children: []core.ShardID{"c1"},
		Range: &core.HashRange{Start: [16]byte{1}, End: [16]byte{2}}, Ready: true, Run: "A:x", Throughput: 1.25, Switches: 4,
	}
	written, err := s.Create(t.Context(), full)
	must(t, err)
	read, err := s.Get(t.Context(), full.Key)
	must(t, err)
	if !reflect.DeepEqual(written, full) {
		t.Errorf("Create returned %+v, want %+v", written, full)
	}
	if !reflect.DeepEqual(read, full) {
		t.Errorf("Get returned %+v, want %+v", read, full)
	}
	if got := read.From(); !got.Equal(core.Position{Anchor: core.Latest, Time: at}) {
		t.Errorf("it would be opened at %+v, want the instant %v", got, at)
	}
}

// What belongs to a checkpoint or an owner goes with it, whoever wrote the row last.
func TestBindings(t *testing.T) {
	base := `"leaseKey":{"S":"1"},"leaseCounter":{"N":"3"},"checkpointSubSequenceNumber":{"N":"0"},"ownerSwitchesSinceCheckpoint":{"N":"0"}`
	start := `"sw_startAt":{"S":"2026-11-30T13:00:00.5Z"},"sw_startFor":{"S":"LATEST"}`
	for _, c := range []struct {
		name, row   string
		startAt     bool
		run         string
		owner, next core.WorkerID
		ready       bool
	}{
		{"start beside its checkpoint", `"checkpoint":{"S":"LATEST"},` + start, true, "", "", "", false},
		{"start left behind by a checkpoint of Java's", `"checkpoint":{"S":"495"},` + start, false, "", "", "", false},
		{"start without what it is for", `"checkpoint":{"S":"LATEST"},"sw_startAt":{"S":"2026-11-30T13:00:00Z"}`, false, "", "", "", false},
		{"run of the owner", `"checkpoint":{"S":"495"},"leaseOwner":{"S":"A"},"sw_run":{"S":"A:1"}`, false, "A:1", "A", "", false},
		{"run of a former owner", `"checkpoint":{"S":"495"},"leaseOwner":{"S":"B"},"sw_run":{"S":"A:1"}`, false, "", "B", "", false},
		{"run while a hand-over is asked for", `"checkpoint":{"S":"495"},"leaseOwner":{"S":"B"},"checkpointOwner":{"S":"A"},"sw_run":{"S":"A:1"}`, false, "A:1", "A", "B", false},
		{"free: the run is nobody's", `"checkpoint":{"S":"495"},"sw_run":{"S":"A:1"}`, false, "", "", "", false},
		{"asked to hand over to itself: no next owner", `"checkpoint":{"S":"495"},"leaseOwner":{"S":"A"},"checkpointOwner":{"S":"A"}`, false, "", "A", "", false},
		{"evicted by 2.x in the middle of a hand-over", `"checkpoint":{"S":"495"},"checkpointOwner":{"S":"A"}`, false, "", "A", "", false},
		{"ready stands whoever wrote last", `"checkpoint":{"S":"495"},"leaseOwner":{"S":"java"},"sw_ready":{"BOOL":true}`, false, "", "java", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := serve(t, emulator.Config{})
			s := srv.ready(t)
			srv.put(t, "{"+base+","+c.row+"}")
			l, err := s.Get(t.Context(), core.LeaseKey{Stream: stream, Shard: "1"})
			must(t, err)
			if l.StartAt.IsZero() == c.startAt || l.Run != c.run || l.Owner != c.owner || l.Next != c.next || l.Ready != c.ready {
				t.Errorf("start %v run %q owner %q next %q ready %v, want start %v run %q owner %q next %q ready %v", l.StartAt, l.Run, l.Owner, l.Next, l.Ready, c.startAt, c.run, c.owner, c.next, c.ready)
			}
			// However the row came to be, its owner can go on with it.
			w := core.Renew(nil)
			after, err := s.Update(t.Context(), l, w.Same, w.Set)
			must(t, err)
			if after.Counter != 4 || after.Owner != c.owner || after.Next != c.next {
				t.Errorf("after a renewal: counter %d owner %q next %q", after.Counter, after.Owner, after.Next)
			}
		})
	}
}

// A row that is a lease and can't be read is reported with its key, the column, what it holds and what was expected; the others are listed.
func TestMalformedRows(t *testing.T) {
	for _, c := range []struct {
		name, change string // replaces or (empty value) removes a column
		says         []string
	}{
		{"counter of the wrong type", `"leaseCounter":{"S":"12"}`, []string{"leaseCounter", `S "12"`, "whole number"}},
		{"counter with a fraction", `"leaseCounter":{"N":"1.5"}`, []string{"leaseCounter", "N 1.5"}},
		{"counter above 64 bits", `"leaseCounter":{"N":"92233720368547758070"}`, []string{"leaseCounter", "64 bits"}},
		{"no counter", `"leaseCounter":null`, []string{"leaseCounter", "missing"}},
		{"no checkpoint", `"checkpoint":null`, []string{"checkpoint", "missing"}},
		{"empty checkpoint", `"checkpoint":{"S":""}`, []string{"checkpoint", `S ""`}},
		{"checkpoint as a number", `"checkpoint":{"N":"495"}`, []string{"checkpoint", "N 495"}},
		{"records inside a word", `"checkpoint":{"S":"TRIM_HORIZON"},"checkpointSubSequenceNumber":{"N":"3"}`, []string{"TRIM_HORIZON", "3"}},
		{"negative sub-sequence number", `"checkpointSubSequenceNumber":{"N":"-1"}`, []string{"checkpointSubSequenceNumber", "N -1"}},
		{"empty owner", `"leaseOwner":{"S":""}`, []string{"leaseOwner", `S ""`}},
		{"owner as NULL", `"leaseOwner":{"NULL":true}`, []string{"leaseOwner", "NULL"}},
		{"current owner as a set", `"checkpointOwner":{"SS":["A"]}`, []string{"checkpointOwner", "SS"}},
		{"parents as a list", `"parentShardId":{"L":[{"S":"p"}]}`, []string{"parentShardId", "set of shard ids"}},
		{"children as a string", `"childShardIds":{"S":"c"}`, []string{"childShardIds", `S "c"`}},
		{"hash key that is none", `"startingHashKey":{"S":"x"},"endingHashKey":{"S":"5"}`, []string{"startingHashKey", `"x"`}},
		{"hash range that ends before it starts", `"startingHashKey":{"S":"6"},"endingHashKey":{"S":"5"}`, []string{"startingHashKey 6", "endingHashKey 5"}},
		{"switches as text", `"ownerSwitchesSinceCheckpoint":{"S":"many"}`, []string{"ownerSwitchesSinceCheckpoint", `S "many"`}},
		{"throughput below zero", `"throughputKBps":{"N":"-1"}`, []string{"throughputKBps", "N -1"}},
		{"pending state as text", `"pendingCheckpoint":{"S":"496"},"pendingCheckpointState":{"S":"x"}`, []string{"pendingCheckpointState", "binary"}},
		{"empty pending", `"pendingCheckpoint":{"S":""}`, []string{"pendingCheckpoint"}},
		{"ready as text", `"sw_ready":{"S":"yes"}`, []string{"sw_ready", "BOOL"}},
		{"start that is no instant", `"checkpoint":{"S":"LATEST"},"sw_startAt":{"S":"noon"},"sw_startFor":{"S":"LATEST"}`, []string{"sw_startAt", `"noon"`, "RFC 3339"}},
		{"a column of a megabyte is cut in the text", `"leaseOwner":{"S":"A"},"throughputKBps":{"S":"` + strings.Repeat("x", 100_000) + `"}`, []string{"throughputKBps", "…"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := serve(t, emulator.Config{})
			s := srv.ready(t)
			var row, change map[string]any
			must(t, json.Unmarshal([]byte(`{"leaseKey":{"S":"bad"},"leaseCounter":{"N":"1"},"checkpoint":{"S":"495"},"checkpointSubSequenceNumber":{"N":"0"},"entityType":{"S":"LEASE"}}`), &row))
			must(t, json.Unmarshal([]byte("{"+c.change+"}"), &change))
			for k, v := range change {
				row[k] = v
				if v == nil {
					delete(row, k)
				}
			}
			text, err := json.Marshal(row)
			must(t, err)
			srv.put(t, string(text))
			for _, id := range []core.ShardID{"good1", "good2"} {
				_, err := s.Create(t.Context(), lease(id))
				must(t, err)
			}
			good, bad := 0, []*core.RowError{}
			for l, err := range s.List(t.Context(), stream) {
				if row, ok := errors.AsType[*core.RowError](err); ok {
					bad = append(bad, row)
				} else if must(t, err); strings.HasPrefix(string(l.Key.Shard), "good") {
					good++
				}
			}
			if good != 2 || len(bad) != 1 {
				t.Fatalf("%d good leases and bad rows %v, want 2 and one", good, bad)
			}
			check := func(err *core.RowError) {
				t.Helper()
				if err.Row != "bad" || err.Key != (core.LeaseKey{Stream: stream, Shard: "bad"}) {
					t.Errorf("it names row %q, lease %v", err.Row, err.Key)
				}
				for _, s := range append(c.says, `"bad"`) {
					if !strings.Contains(err.Error(), s) {
						t.Errorf("%q does not say %q", err, s)
					}
				}
				if len(err.Error()) > 400 {
					t.Errorf("the text has %d bytes", len(err.Error()))
				}
			}
			check(bad[0])
			_, err = s.Get(t.Context(), core.LeaseKey{Stream: stream, Shard: "bad"})
			if row, ok := errors.AsType[*core.RowError](err); ok {
				check(row)
			} else {
				t.Errorf("Get: %v, want a *core.RowError", err)
			}
		})
	}
}

// Columns and rows that the store does not know survive each of its writes.
func TestUnknownSurvives(t *testing.T) {
	srv := serve(t, emulator.Config{})
	s := srv.ready(t)
	srv.put(t,
		`{"leaseKey":{"S":"1"},"leaseCounter":{"N":"1"},"checkpoint":{"S":"495"},"checkpointSubSequenceNumber":{"N":"0"},"entityType":{"S":"LEASE"},"theirs":{"M":{"deep":{"L":[{"N":"1"},{"BOOL":false}]}}},"more":{"SS":["a","b"]}}`,
		`{"leaseKey":{"S":"Leader"},"entityType":{"S":"LEADER"},"ownerName":{"S":"w"}}`,
		`{"leaseKey":{"S":"later"},"entityType":{"S":"SOMETHING_NEW"},"leaseCounter":{"N":"7"},"checkpoint":{"S":"1"}}`)
	l, err := s.Get(t.Context(), core.LeaseKey{Stream: stream, Shard: "1"})
	must(t, err)
	p := core.Position{Token: "496"}
	for _, w := range []core.Write{
		core.Take(&l, "A", "A:1"), core.Renew(new(2.5)), core.Accept("A:2", true), core.MarkReady(), core.PrepareStore(&core.Pending{At: p}), core.Store(p, nil),
		core.Ask("B"), core.Decline(), core.Ask("C"), core.HandOver("C"), core.AddChildren([]core.ShardID{"2"}), core.FillRange(&core.HashRange{}),
		core.FixStart(time.Unix(1, 0)), core.Release(),
	} {
		l, err = s.Update(t.Context(), l, w.Same, w.Set)
		must(t, err)
		if raw := show(l.Raw.(dynamo.Attributes)); raw != "more=SS [a b] theirs=M{deep=L[N 1,BOOL false]}" {
			t.Fatalf("after %+v the unknown columns are %s", w, raw)
		}
	}
	before := srv.size()
	_, err = s.Look(t.Context(), stream)
	must(t, err)
	if before != 3 || srv.size() != 3 {
		t.Errorf("rows: %d, then %d, want 3", before, srv.size())
	}
	if row := srv.row(t, "later"); row != "checkpoint=S 1 entityType=S SOMETHING_NEW leaseCounter=N 7 leaseKey=S later" {
		t.Errorf("foreign row is now %s", row)
	}
}

// Positions that would be read back as something else are refused before they are written.
func TestPositionsThatCannotBeStored(t *testing.T) {
	srv := serve(t, emulator.Config{})
	s := srv.ready(t)
	l, err := s.Create(t.Context(), lease("1"))
	must(t, err)
	before := srv.row(t, "1")
	for _, c := range []struct {
		name string
		p    core.Position
	}{
		{"no position", core.Position{}},
		{"token that is a word", core.Position{Token: "SHARD_END"}},
		{"sub-sequence number above Java's long", core.Position{Token: "5", Sub: 1 << 63}},
		{"records inside a word", core.Position{Anchor: core.Horizon, Sub: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := core.Store(c.p, nil)
			_, err := s.Update(t.Context(), l, w.Same, w.Set)
			expect(t, "checkpoint", err, core.ErrInvalid)
			w = core.PrepareStore(&core.Pending{At: c.p})
			_, err = s.Update(t.Context(), l, w.Same, w.Set)
			expect(t, "prepare", err, core.ErrInvalid)
			n := lease("2")
			n.Checkpoint = c.p
			_, err = s.Create(t.Context(), n)
			expect(t, "create", err, core.ErrInvalid)
		})
	}
	if after := srv.row(t, "1"); after != before {
		t.Errorf("row changed from %s to %s", before, after)
	}
	out, err := srv.sdk().Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String(app)})
	must(t, err)
	if out.Count != 1 {
		t.Errorf("%d rows, want 1", out.Count)
	}
}

func decimal(b [16]byte) string { return new(big.Int).SetBytes(b[:]).String() }
