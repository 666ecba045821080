package ots_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/tablestore"
	"github.com/shardwarden/shardwarden/leasestore/ots"
)

// makeTable makes a table as somebody else would; keys are "name TYPE".
func (s *service) makeTable(t *testing.T, name string, option *tablestore.TableOption, keys ...string) {
	t.Helper()
	meta := &tablestore.TableMeta{TableName: name}
	for _, k := range keys {
		column, kind, _ := strings.Cut(k, " ")
		meta.AddPrimaryKeyColumn(column, map[string]tablestore.PrimaryKeyType{
			"STRING": tablestore.PrimaryKeyType_STRING, "INTEGER": tablestore.PrimaryKeyType_INTEGER, "BINARY": tablestore.PrimaryKeyType_BINARY,
		}[kind])
	}
	_, err := s.sdk.CreateTable(&tablestore.CreateTableRequest{TableMeta: meta, TableOption: option, ReservedThroughput: &tablestore.ReservedThroughput{}})
	must(t, err)
}

var javaTable = []string{"StreamId STRING", "StatusType STRING", "StatusValue STRING"}

func forEver() *tablestore.TableOption {
	return &tablestore.TableOption{TimeToAlive: -1, MaxVersion: 1}
}

// The table is made as the Java client makes it.
func TestPrepareCreatesTheTableOfJava(t *testing.T) {
	s := newService(emulator.Config{})
	t.Cleanup(func() { must(t, s.Close()) })
	must(t, s.store(ots.Reserved(0, 0)).Prepare(t.Context()))
	d, err := s.sdk.DescribeTable(&tablestore.DescribeTableRequest{TableName: status})
	must(t, err)
	var is []string
	for _, k := range d.TableMeta.SchemaEntry {
		kind := "STRING"
		if *k.Type != tablestore.PrimaryKeyType_STRING {
			kind = "another"
		}
		is = append(is, *k.Name+" "+kind)
	}
	if got := strings.Join(is, ", "); got != strings.Join(javaTable, ", ") {
		t.Errorf("primary key is %s", got)
	}
	if o := d.TableOption; o.TimeToAlive != -1 || o.MaxVersion != 1 {
		t.Errorf("options are %+v, want rows for ever, of one version", *o)
	}
	if d.ReservedThroughput.Readcap != 0 || d.ReservedThroughput.Writecap != 0 || d.StreamDetails.EnableStream {
		t.Errorf("throughput %+v, stream %v; want none", *d.ReservedThroughput, d.StreamDetails.EnableStream)
	}
}

func TestPrepareOfATableThatIsThere(t *testing.T) {
	fail := func(op, code string) emulator.Fault {
		return emulator.Fault{Kind: emulator.Fail, Operation: op, Code: code}
	}
	denied := func(op string) emulator.Fault { return fail(op, "OTSNoPermissionAccess") }
	for name, c := range map[string]struct {
		keys   []string // nil: no table
		option *tablestore.TableOption
		rows   []*tablestore.PrimaryKey
		faults []emulator.Fault
		opts   []ots.Option
		want   error
		texts  []string
	}{
		"as Java made it":                     {keys: javaTable, option: forEver()},
		"with more versions":                  {keys: javaTable, option: &tablestore.TableOption{TimeToAlive: -1, MaxVersion: 5}},
		"with leases":                         {keys: javaTable, option: forEver(), rows: []*tablestore.PrimaryKey{rowKey("s", "LeaseKey", "a")}},
		"with rows of DataX":                  {keys: javaTable, option: forEver(), rows: []*tablestore.PrimaryKey{rowKey("s", "DataxJobDesc", "1"), rowKey("t", "CheckpointForDataxReader", "2")}},
		"with leases among rows unknown":      {keys: javaTable, option: forEver(), rows: []*tablestore.PrimaryKey{rowKey("a", "Others", "1"), rowKey("s", "LeaseKey", "a")}},
		"with rows of another use":            {keys: javaTable, option: forEver(), rows: []*tablestore.PrimaryKey{rowKey("u", "Invoice", "1")}, want: core.ErrInvalid, texts: []string{"another use", "Invoice", "LeaseKey"}},
		"one key column":                      {keys: []string{"id STRING"}, option: forEver(), want: core.ErrInvalid, texts: []string{"id STRING", "StatusValue STRING", "another name"}},
		"in another order":                    {keys: []string{"StatusType STRING", "StreamId STRING", "StatusValue STRING"}, option: forEver(), want: core.ErrInvalid, texts: []string{"StatusType STRING, StreamId STRING"}},
		"a number as a key":                   {keys: []string{"StreamId STRING", "StatusType STRING", "StatusValue INTEGER"}, option: forEver(), want: core.ErrInvalid, texts: []string{"StatusValue INTEGER"}},
		"one key column more":                 {keys: append(javaTable[:3:3], "More STRING"), option: forEver(), want: core.ErrInvalid, texts: []string{"More STRING"}},
		"rows vanish":                         {keys: javaTable, option: &tablestore.TableOption{TimeToAlive: 86400, MaxVersion: 1}, want: core.ErrInvalid, texts: []string{"86400", "TimeToLive to -1"}},
		"no right to describe it":             {keys: javaTable, option: forEver(), faults: []emulator.Fault{denied("DescribeTable")}},
		"no right at all":                     {keys: javaTable, option: forEver(), faults: []emulator.Fault{{Kind: emulator.Fail, Code: "OTSNoPermissionAccess"}}, want: core.ErrDenied, texts: []string{"ots:DescribeTable", "instance/inst/table/status"}},
		"no right to read it":                 {keys: javaTable, option: forEver(), faults: []emulator.Fault{denied("GetRow")}, want: core.ErrDenied, texts: []string{"ots:GetRow"}},
		"no right to list it":                 {keys: javaTable, option: forEver(), faults: []emulator.Fault{denied("GetRange")}, want: core.ErrDenied, texts: []string{"ots:GetRange"}},
		"missing, made":                       {},
		"missing, and no right to create it":  {faults: []emulator.Fault{denied("CreateTable")}, want: core.ErrDenied, texts: []string{"does not exist", "ots:CreateTable", "StreamId, StatusType, StatusValue"}},
		"missing, and the quota is used up":   {faults: []emulator.Fault{fail("CreateTable", "OTSQuotaExhausted")}, want: core.ErrDenied, texts: []string{"quota", "does not exist"}},
		"missing, and must exist":             {opts: []ots.Option{ots.MustExist()}, want: core.ErrNotFound, texts: []string{"does not exist", "inst", "StreamId, StatusType, StatusValue"}},
		"missing, no right to describe, made": {faults: []emulator.Fault{denied("DescribeTable")}},
		"missing, and the answer is lost":     {faults: []emulator.Fault{{Kind: emulator.DropAnswer, Operation: "CreateTable"}}, want: core.ErrUnavailable, texts: []string{"CreateTable"}},
		"another was quicker":                 {keys: javaTable, option: forEver(), faults: []emulator.Fault{fail("DescribeTable", "OTSObjectNotExist")}},
		"too short Java leases":               {opts: []ots.Option{ots.WithJava(20)}, want: core.ErrInvalid, texts: []string{"WithJava(20ns)", "leaseDurationMillis"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(emulator.Config{})
			t.Cleanup(func() { must(t, s.Close()) })
			if c.keys != nil {
				s.makeTable(t, status, c.option, c.keys...)
			}
			for _, k := range c.rows {
				must(t, s.put(k, rowOfJava()))
			}
			for _, f := range c.faults {
				must(t, s.SetFault(f))
			}
			err := s.store(c.opts...).Prepare(t.Context())
			if c.want == nil {
				must(t, err)
				s.ClearFaults()
				if _, err := s.store().Create(t.Context(), lease("s1")); err != nil {
					t.Errorf("a lease can't be created after it: %v", err)
				}
				return
			}
			expect(t, "Prepare", err, c.want, append(c.texts, status)...)
		})
	}
}

func TestNamesThatCannotBe(t *testing.T) {
	for _, name := range []string{"", "1status", "my-status", "a.b", strings.Repeat("s", 256)} {
		err := ots.New(ots.Instance{Endpoint: "http://emulator", Name: instance, Credentials: keys}, name).Prepare(t.Context())
		expect(t, name, err, core.ErrInvalid, "name of a table")
	}
	for _, endpoint := range []string{"", "emulator", "ftp://emulator", "http://emulator/path"} {
		err := ots.New(ots.Instance{Endpoint: endpoint, Name: instance, Credentials: keys}, status).Prepare(t.Context())
		expect(t, endpoint, err, core.ErrInvalid, "endpoint")
	}
}

// A table that was made a moment ago is waited for, and not for ever.
func TestPrepareWaits(t *testing.T) {
	for delay, want := range map[time.Duration]error{10 * time.Second: nil, 10 * time.Minute: core.ErrUnavailable} {
		synctest.Test(t, func(t *testing.T) {
			s := newService(emulator.Config{CreateDelay: delay})
			defer func() { must(t, s.Close()) }()
			began := time.Now()
			err := s.store().Prepare(t.Context())
			took := time.Since(began)
			if want != nil {
				expect(t, "Prepare", err, want, "2m0s", "OTSTableNotReady")
				if took < 110*time.Second || took > 3*time.Minute {
					t.Errorf("it gave up after %v, want two minutes", took)
				}
				return
			}
			must(t, err)
			if took < delay || took > delay+5*time.Second {
				t.Errorf("it took %v, want %v and a little", took, delay)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := newService(emulator.Config{CreateDelay: time.Hour})
		defer func() { must(t, s.Close()) }()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		err := s.store().Prepare(ctx)
		expect(t, "Prepare whose context ends", err, context.DeadlineExceeded)
		if took := time.Since(began); took != time.Second {
			t.Errorf("it took %v, want 1s", took)
		}
	})
}

// Wrong credentials, and an instance that is not there.
func TestWrongCredentials(t *testing.T) {
	s := newService(emulator.Config{Credentials: map[string]string{"x": "another secret"}})
	t.Cleanup(func() { must(t, s.Close()) })
	expect(t, "Prepare", s.store().Prepare(t.Context()), core.ErrDenied, "OTSAuthFailed", "secret", "15 minutes")

	other := newService(emulator.Config{Instances: []string{"another"}})
	t.Cleanup(func() { must(t, other.Close()) })
	if err := other.store().Prepare(t.Context()); err == nil || !strings.Contains(err.Error(), instance) {
		t.Errorf("Prepare in an instance that is not there: %v, want an error that names it", err)
	}
}
