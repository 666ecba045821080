package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	ots "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	source "github.com/shardwarden/shardwarden/backends/tablestore"
	"github.com/shardwarden/shardwarden/emulator/tablestore"
)

// changed is a printed line with the change in it.
type changed struct {
	Stream, Shard, Sequence, Key, Text string
	Arrived                            int64
	Data                               json.RawMessage
	change                             *source.Change
}

// n is the number of a change that fill made.
func (c *changed) n() int {
	col, _ := c.change.Column("n")
	n, _ := col.Value.(int64)
	return int(n)
}

func parseChanges(t *testing.T, lines []string) []changed {
	t.Helper()
	out := make([]changed, len(lines))
	for i, l := range lines {
		if err := json.Unmarshal([]byte(l), &out[i]); err != nil {
			t.Fatalf("line %q: %v", l, err)
		}
		var err error
		if out[i].change, err = source.ParseChange(out[i].Data); err != nil {
			t.Fatalf("data of %q: %v", l, err)
		}
	}
	return out
}

// wantAll checks that the changes made so far came, each so often at most, and the first time in order.
func (s *shop) wantAll(got []changed, most int) {
	s.t.Helper()
	seen, last := map[int]int{}, map[string]int{}
	for _, c := range got {
		n := c.n()
		if seen[n]++; seen[n] > 1 {
			continue
		}
		row := c.Stream + " " + c.Key
		if before, ok := last[row]; ok && n < before {
			s.t.Errorf("change %d of %s came after %d", n, row, before)
		}
		last[row] = n
	}
	for i := range s.put {
		if n := seen[i]; n == 0 || n > most {
			s.t.Errorf("change %d was printed %d times, want 1 to %d", i, n, most)
		}
		delete(seen, i)
	}
	if len(seen) > 0 {
		s.t.Errorf("changes that nobody made: %v", seen)
	}
}

func TestConsumeTablestorePrints(t *testing.T) {
	t.Parallel()
	s := newShop(t, tablestore.Config{})
	s.orders("orders", 2)
	s.fill("orders", 10)
	p, e := s.consume("--table", "orders", "--max", "10", "--worker-id", "me")
	lines := p.rest()
	p.wantExit(0)
	shape := regexp.MustCompile(`^\{"stream":"orders","shard":"[0-9a-f-]{36}_\d{16}","sequence":"0{8}:[0-9a-f]{16}:[0-9a-f]{8}","sub":0,"key":"\\"key \d\d\\"","arrived":1\d{12},"data":\{"type":"put","sequence":\{.*\}\}$`)
	for _, l := range lines {
		if !shape.MatchString(l) {
			t.Errorf("line %s", l)
		}
	}
	got := parseChanges(t, lines)
	for _, c := range got {
		if c.Sequence != c.change.Sequence.String() || c.Key != c.change.KeyText() || c.Arrived != c.change.Sequence.Timestamp/1000 {
			t.Errorf("the line is about another change than its data: %+v", c)
		}
	}
	s.wantAll(got, 1)
	all := e.all()
	for _, v := range all {
		if v.Worker != "me" || v.Time.IsZero() || v.Event == "" {
			t.Errorf("event %+v", v)
		}
	}
	// A shard that was split before anything was put, and its two children.
	for kind, n := range map[string]int{"worker started": 1, "lease released": 2, "worker stopped": 1} {
		if got := count(all, kind); got != n {
			t.Errorf("%d events %q, want %d", got, kind, n)
		}
	}
	s.wantFree()

	p, _ = startConsume(t, keys, "tablestore", "--instance", "any", "--endpoint", s.url, "--status-table", "peek", "--table", "orders", "--max", "10", "--text")
	for _, l := range p.rest() {
		var line changed
		if err := json.Unmarshal([]byte(l), &line); err != nil || line.Data != nil {
			t.Errorf("with --text: %s", l)
		}
		if _, err := source.ParseChange([]byte(line.Text)); err != nil {
			t.Errorf("with --text: %v in %s", err, l)
		}
	}
	p.wantExit(0)
}

// Each kind of change is printed with what there is of it: types, binary, former values, how a column was deleted.
func TestConsumeTablestoreKinds(t *testing.T) {
	t.Parallel()
	s := newShop(t, tablestore.Config{})
	s.table("orders", 24, "id", "part")
	key := &ots.PrimaryKey{}
	key.AddPrimaryKeyColumn("id", "a\"ü")
	key.AddPrimaryKeyColumn("part", "p")
	version := time.Now().UnixMilli() - 5000
	put := &ots.PutRowChange{TableName: "orders", PrimaryKey: key}
	put.AddColumnWithTimestamp("n", int64(1)<<62+1, version)
	put.AddColumn("half", 0.5)
	put.AddColumn("paid", true)
	put.AddColumn("raw", []byte{0, 255})
	put.SetCondition(ots.RowExistenceExpectation_IGNORE)
	if _, err := s.client.PutRow(&ots.PutRowRequest{PutRowChange: put}); err != nil {
		t.Fatal(err)
	}
	update := &ots.UpdateRowChange{TableName: "orders", PrimaryKey: key}
	update.PutColumn("n", int64(2))
	update.DeleteColumn("paid")
	update.DeleteColumnWithTimestamp("raw", version-1)
	update.SetCondition(ots.RowExistenceExpectation_EXPECT_EXIST)
	if _, err := s.client.UpdateRow(&ots.UpdateRowRequest{UpdateRowChange: update}); err != nil {
		t.Fatal(err)
	}
	del := &ots.DeleteRowChange{TableName: "orders", PrimaryKey: key}
	del.SetCondition(ots.RowExistenceExpectation_EXPECT_EXIST)
	if _, err := s.client.DeleteRow(&ots.DeleteRowRequest{DeleteRowChange: del}); err != nil {
		t.Fatal(err)
	}
	p, _ := s.consume("--table", "orders", "--max", "3")
	got := p.rest()
	p.wantExit(0)
	want := []string{
		`{"type":"put",S,K,"columns":[{"name":"n","integer":"4611686018427387905","timestamp":VERSION},{"name":"half","double":0.5,T},{"name":"paid","boolean":true,T},{"name":"raw","binary":"AP8=",T}]}`,
		`{"type":"update",S,K,"columns":[{"name":"n","integer":"2",T},{"name":"paid","op":"delete"},{"name":"raw","op":"delete_version","timestamp":OLDER}],"old":[{"name":"n","integer":"4611686018427387905","timestamp":VERSION}]}`,
		`{"type":"delete",S,K,"columns":[],"old":[{"name":"n","integer":"2",T}]}`,
	}
	if len(got) != len(want) {
		t.Fatalf("%d lines: %q", len(got), got)
	}
	now := regexp.MustCompile(`"timestamp":1\d{12}\b`) // what the service chose
	sequence := regexp.MustCompile(`"sequence":\{"epoch":0,"timestamp":1\d{15},"row":\d+\}`)
	given := strings.NewReplacer(fmt.Sprintf(`"timestamp":%d`, version), `"timestamp":VERSION`, fmt.Sprintf(`"timestamp":%d`, version-1), `"timestamp":OLDER`,
		`"key":[{"name":"id","string":"a\"ü"},{"name":"part","string":"p"}]`, "K")
	for i, line := range got {
		_, data, _ := strings.Cut(strings.TrimSuffix(line, "}"), `"data":`)
		if data = now.ReplaceAllString(sequence.ReplaceAllString(given.Replace(data), "S"), "T"); data != want[i] {
			t.Errorf("line %d\n got %s\nwant %s", i+1, data, want[i])
		}
	}
}

// --max stops at the record, inside of a batch too, and the next run goes on with the one behind it.
func TestConsumeTablestoreMaxIsExact(t *testing.T) {
	t.Parallel()
	s := newShop(t, tablestore.Config{})
	s.orders("orders", 4)
	s.fill("orders", 2000)
	var all []changed
	for _, n := range []int{333, 1, 900, 766} {
		p, e := s.consume("--table", "orders", "--max", fmt.Sprint(n))
		got := p.rest()
		p.wantExit(0)
		if len(got) != n {
			t.Errorf("--max %d printed %d records", n, len(got))
		}
		all = append(all, parseChanges(t, got)...)
		if ev := e.all(); failures(ev) > 0 {
			t.Errorf("--max %d: %d errors", n, failures(ev))
		}
		s.wantFree()
	}
	s.wantAll(all, 1)
}

// Several tables share one status table, and each line names its own.
func TestConsumeTablestoreTables(t *testing.T) {
	t.Parallel()
	s := newShop(t, tablestore.Config{})
	for _, name := range []string{"orders", "customers", "returns"} {
		s.orders(name, 2)
		s.fill(name, 100)
	}
	p, _ := s.consume("--table", "orders", "--table", "customers", "--table", "returns", "--max", "300")
	got := parseChanges(t, p.rest())
	p.wantExit(0)
	s.wantAll(got, 1)
	of := map[string]int{}
	for _, c := range got {
		of[c.Stream]++
	}
	for _, name := range []string{"orders", "customers", "returns"} {
		if of[name] != 100 {
			t.Errorf("%d changes of %s, want 100 (%v)", of[name], name, of)
		}
	}
}

func TestConsumeTablestoreFrom(t *testing.T) {
	t.Parallel()
	s := newShop(t, tablestore.Config{})
	s.orders("orders", 2)
	s.fill("orders", 100)
	p, e := s.consume("--table", "orders", "--from", "latest", "--max", "5")
	e.await(t, `"shard started"`)
	s.fill("orders", 5)
	for _, c := range parseChanges(t, p.rest()) {
		if c.n() < 100 {
			t.Errorf("from latest: change %d, which was there before", c.n())
		}
	}
	p.wantExit(0)
}

// The stream is switched off and on while it is consumed: the new one is read from its beginning, under the same name.
func TestConsumeTablestoreStreamOffAndOn(t *testing.T) {
	t.Parallel()
	s := newShop(t, tablestore.Config{})
	s.orders("orders", 1)
	s.fill("orders", 10)
	p, _ := s.consume("--table", "orders", "--max", "10")
	first := parseChanges(t, p.rest())
	p.wantExit(0)
	for _, spec := range []*ots.StreamSpecification{{EnableStream: false}, {EnableStream: true, ExpirationTime: 24}} {
		if _, err := s.client.UpdateTable(&ots.UpdateTableRequest{TableName: "orders", StreamSpec: spec}); err != nil {
			t.Fatal(err)
		}
	}
	s.fill("orders", 10)
	p, _ = s.consume("--table", "orders", "--max", "10")
	s.wantAll(append(first, parseChanges(t, p.rest())...), 1)
	p.wantExit(0)
}

func TestConsumeTablestoreStopsInOrder(t *testing.T) {
	t.Parallel()
	s := newShop(t, tablestore.Config{})
	s.orders("orders", 4)
	s.fill("orders", 1000)
	p, e := s.consume("--table", "orders", "--lease-duration", "1h", "--checkpoint-interval", "1h")
	first := []string{p.line()}
	p.signal(syscall.SIGTERM)
	first = append(first, p.rest()...)
	p.wantExit(0)
	if ev := e.all(); ev[len(ev)-1].Event != "worker stopped" || ev[len(ev)-1].Error != "" {
		t.Errorf("last event %+v", ev[len(ev)-1])
	}
	s.wantFree()
	got := parseChanges(t, first)
	if left := s.put - len(got); left > 0 {
		p, _ = s.consume("--table", "orders", "--lease-duration", "1h", "--max", fmt.Sprint(left))
		got = append(got, parseChanges(t, p.rest())...)
		p.wantExit(0)
	}
	s.wantAll(got, 1)
}

// With --with-java rows stay in the form that Java workers read: no lease is deleted, the five columns are there, and checkpoints are iterators.
func TestConsumeTablestoreWithJava(t *testing.T) {
	t.Parallel()
	s := newShop(t, tablestore.Config{})
	s.orders("orders", 2)
	s.fill("orders", 100)
	p, _ := s.consume("--table", "orders", "--with-java", "20s", "--max", "100")
	s.wantAll(parseChanges(t, p.rest()), 1)
	p.wantExit(0)
	rows := s.leases()
	if len(rows) != 3 { // a shard that was split, and its children
		t.Errorf("%d leases, want 3: %v", len(rows), rows)
	}
	for shard, row := range rows {
		for _, column := range []string{"LeaseCounter", "LeaseOwner", "LeaseStealer", "Checkpoint", "ParentShardIds"} {
			if _, ok := row[column]; !ok {
				t.Errorf("the lease of %s lacks %s: %v", shard, column, row)
			}
		}
	}
}

func TestConsumeTablestoreBadInput(t *testing.T) {
	t.Parallel()
	with := map[string]string{"y": "swordfish"}
	tests := []struct {
		name   string
		config tablestore.Config
		break_ func(*shop)
		args   []string
		env    []string
		want   []string // parts of stderr
	}{
		{name: "stream not enabled", break_: func(s *shop) { s.table("plain", 0, "id") }, args: []string{"--table", "plain"},
			want: []string{"plain", "has no stream", "enable it", "EnableStream"}},
		{name: "unknown table", args: []string{"--table", "nope"}, want: []string{"nope", "not found", "instance any"}},
		{name: "one of two tables is unknown", args: []string{"--table", "orders", "--table", "nope"}, want: []string{"nope", "not found"}},
		{name: "unknown instance", config: tablestore.Config{Instances: []string{"shop"}}, want: []string{"instance any"}},
		{name: "no credentials", env: []string{"TABLESTORE_ACCESS_KEY_ID="}, want: []string{"credentials", "TABLESTORE_ACCESS_KEY_ID", "TABLESTORE_ACCESS_KEY_SECRET"}},
		{name: "wrong secret", env: []string{"TABLESTORE_ACCESS_KEY_SECRET=swordfish"}, want: []string{"access denied", "OTSAuthFailed", "access key"}},
		{name: "unknown access key", config: tablestore.Config{Credentials: with}, want: []string{"access denied", "OTSAuthFailed"}},
		{name: "status table of another shape", break_: func(s *shop) { s.table("leases", 0, "invoice") }, want: []string{"leases", "invoice STRING", "StreamId STRING, StatusType STRING, StatusValue STRING"}},
		{name: "status table of another use", break_: (*shop).foreignRows, want: []string{"leases", "another use", "Checkpoints"}},
		{name: "denied to create the status table", config: tablestore.Config{Faults: []tablestore.Fault{{Kind: tablestore.Fail, Operation: "CreateTable", Table: "leases", Code: "OTSNoPermissionAccess"}}},
			want: []string{"leases", "access denied", "ots:CreateTable"}},
		{name: "denied to read the stream's shards", config: tablestore.Config{Faults: []tablestore.Fault{{Kind: tablestore.Fail, Operation: "DescribeStream", Code: "OTSNoPermissionAccess"}}},
			want: []string{"access denied", "ots:DescribeStream"}},
		{name: "no table name", args: []string{"--status-table", "my leases"}, want: []string{`"my leases"`, "letters, digits"}},
		{name: "endpoint with a path", args: []string{"--endpoint", "http://127.0.0.1:1/x"}, want: []string{"http://127.0.0.1:1/x", "nothing behind the host"}},
		{name: "no instance name", args: []string{"--instance", "a b"}, want: []string{`"a b"`, "name of a Tablestore instance"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, tablestore.Config{})
			if tt.config.Instances == nil && tt.config.Credentials == nil {
				s.orders("orders", 1)
			}
			for _, f := range tt.config.Faults {
				if err := s.server.SetFault(f); err != nil {
					t.Fatal(err)
				}
			}
			if tt.config.Instances != nil || tt.config.Credentials != nil {
				s = newShop(t, tt.config)
			}
			if tt.break_ != nil {
				tt.break_(s)
			}
			args := []string{"consume", "tablestore"}
			for name, value := range map[string]string{"--instance": "any", "--table": "orders", "--status-table": "leases", "--endpoint": s.url} {
				if !slices.Contains(tt.args, name) {
					args = append(args, name, value)
				}
			}
			p := start(t, append(slices.Clone(keys), tt.env...), append(args, tt.args...)...)
			if out := p.rest(); len(out) > 0 {
				t.Errorf("stdout: %q", out)
			}
			p.wantExit(1)
			last := p.errors.String()
			last = last[strings.LastIndex(strings.TrimSpace(last), "shardwarden: ")+1:]
			for _, part := range tt.want {
				if !strings.Contains(last, part) {
					t.Errorf("the error lacks %q: %s", part, last)
				}
			}
			if strings.Contains(last, "swordfish") {
				t.Errorf("the error tells a secret: %s", last)
			}
		})
	}
}

// foreignRows makes a table of the shape of a status table that holds something else.
func (s *shop) foreignRows() {
	s.t.Helper()
	s.table("leases", 0, "StreamId", "StatusType", "StatusValue")
	row := &ots.PutRowChange{TableName: "leases", PrimaryKey: &ots.PrimaryKey{}}
	row.PrimaryKey.AddPrimaryKeyColumn("StreamId", "s")
	row.PrimaryKey.AddPrimaryKeyColumn("StatusType", "Checkpoints")
	row.PrimaryKey.AddPrimaryKeyColumn("StatusValue", "v")
	row.SetCondition(ots.RowExistenceExpectation_IGNORE)
	if _, err := s.client.PutRow(&ots.PutRowRequest{PutRowChange: row}); err != nil {
		s.t.Fatal(err)
	}
}
