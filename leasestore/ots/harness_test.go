package ots_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/aliyun/aliyun-tablestore-go-sdk/common"
	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"
	"go.uber.org/goleak"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/tablestore"
	"github.com/shardwarden/shardwarden/leasestore/ots"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	instance = "inst"
	status   = "status"
)

// pipe is a listener without a network, so that a synctest bubble can hold both ends.
type pipe struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipe() *pipe { return &pipe{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipe) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipe) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipe) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func (p *pipe) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	mine, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return mine, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// service is an emulator with a way to reach it, which can be closed.
type service struct {
	*emulator.Server
	http   *http.Server
	served chan error
	direct *http.Transport
	gate   *gate
	sdk    *tablestore.TableStoreClient // to do what others do

	mu      sync.Mutex
	writes  []string // calls that change something, as they were sent
	handles []*ots.Store
}

// gate is a way to the service that can be closed.
type gate struct {
	next http.RoundTripper
	note func(op string)

	mu     sync.Mutex
	shut   chan struct{} // nil: open
	ranges int           // pages that may still pass, if not below 0
}

func (g *gate) RoundTrip(r *http.Request) (*http.Response, error) {
	op := strings.TrimPrefix(r.URL.Path, "/")
	g.note(op)
	g.mu.Lock()
	shut := g.shut
	broken := op == "GetRange" && g.ranges == 0
	if op == "GetRange" && g.ranges > 0 {
		g.ranges--
	}
	g.mu.Unlock()
	if broken {
		return nil, errors.New("connection reset by peer")
	}
	if shut != nil {
		select {
		case <-shut:
			return nil, errors.New("connection reset by peer")
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	return g.next.RoundTrip(r)
}

func newService(c emulator.Config) *service {
	p := newPipe()
	s := &service{Server: emulator.New(c), served: make(chan error, 1)}
	s.http = &http.Server{Handler: s.Server}
	go func() { s.served <- s.http.Serve(p) }()
	s.direct = &http.Transport{DialContext: p.dial, MaxIdleConnsPerHost: 64}
	s.gate = &gate{next: s.direct, ranges: -1, note: s.note}
	config := tablestore.NewDefaultTableStoreConfig()
	config.RetryTimes, config.Transport, config.HTTPTimeout.RequestTimeout = 0, s.direct, 0
	s.sdk = tablestore.NewClientWithConfig("http://emulator", instance, "x", "x", "", config)
	return s
}

func (s *service) note(op string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.HasSuffix(op, "Row") && op != "GetRow" {
		s.writes = append(s.writes, op)
	}
}

// sent are the writes since it was last asked.
func (s *service) sent() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.writes
	s.writes = nil
	return out
}

// Close ends the emulator and what reaches it.
func (s *service) Close() error {
	s.Server.Close()
	err := s.http.Close()
	if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	s.direct.CloseIdleConnections()
	return err
}

var keys = &common.DefaultCredentialsProvider{AccessKeyID: "x", AccessKeySecret: "x"}

// store is one more handle on the status table.
func (s *service) store(opts ...ots.Option) *ots.Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := ots.New(ots.Instance{Endpoint: "http://emulator", Name: instance, Credentials: keys}, status, append([]ots.Option{ots.Transport(s.gate)}, opts...)...)
	s.handles = append(s.handles, st)
	return st
}

// serve is a service of a test, with a status table that is ready, and a store on it.
func serve(t testing.TB, c emulator.Config, opts ...ots.Option) (*service, *ots.Store) {
	t.Helper()
	s := newService(c)
	t.Cleanup(func() { must(t, s.Close()) })
	st := s.store(opts...)
	must(t, st.Prepare(t.Context()))
	s.sent()
	return s, st
}

func statusKey(k core.LeaseKey) *tablestore.PrimaryKey {
	return rowKey(string(k.Stream), "LeaseKey", string(k.Shard))
}

func rowKey(stream, kind, value string) *tablestore.PrimaryKey {
	pk := new(tablestore.PrimaryKey)
	pk.AddPrimaryKeyColumn("StreamId", stream)
	pk.AddPrimaryKeyColumn("StatusType", kind)
	pk.AddPrimaryKeyColumn("StatusValue", value)
	return pk
}

// put writes a row as others would, over whatever is there.
func (s *service) put(pk *tablestore.PrimaryKey, row ots.Columns) error {
	put := &tablestore.PutRowChange{TableName: status, PrimaryKey: pk}
	for name, v := range row {
		put.AddColumn(name, v)
	}
	put.SetCondition(tablestore.RowExistenceExpectation_IGNORE)
	_, err := s.sdk.PutRow(&tablestore.PutRowRequest{PutRowChange: put})
	return err
}

// set writes columns of a row as others would.
func (s *service) set(k core.LeaseKey, row ots.Columns) error {
	u := &tablestore.UpdateRowChange{TableName: status, PrimaryKey: statusKey(k)}
	for name, v := range row {
		u.PutColumn(name, v)
	}
	u.SetCondition(tablestore.RowExistenceExpectation_IGNORE)
	_, err := s.sdk.UpdateRow(&tablestore.UpdateRowRequest{UpdateRowChange: u})
	return err
}

// row is a lease's row as the table has it, nil where there is none.
func (s *service) row(k core.LeaseKey) (ots.Columns, error) {
	out, err := s.sdk.GetRow(&tablestore.GetRowRequest{SingleRowQueryCriteria: &tablestore.SingleRowQueryCriteria{TableName: status, PrimaryKey: statusKey(k), MaxVersion: 1}})
	if err != nil || len(out.PrimaryKey.PrimaryKeys) == 0 {
		return nil, err
	}
	row := ots.Columns{}
	for _, c := range out.Columns {
		row[c.ColumnName] = c.Value
	}
	return row, nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func expect(t testing.TB, what string, err, kind error, texts ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("%s: error is %v, want %v", what, err, kind)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%s: error %q does not say %q", what, err, text)
		}
	}
}

func lease(shard core.ShardID) core.Lease {
	return core.Lease{Key: keyOf(shard), Checkpoint: core.FromHorizon}
}

func show(row ots.Columns) string {
	if row == nil {
		return "no row"
	}
	return fmt.Sprintf("%d %q %q at %q", row["LeaseCounter"], row["LeaseOwner"], row["LeaseStealer"], row["Checkpoint"])
}
