package tablestore

import (
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	sdk "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/shardwarden/shardwarden/conformance"
	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/tablestore"
)

// bench drives the stream of a table of the emulator for the conformance suite. A record of the suite is a row that is put: its key is the
// second column of the primary key, its data is the column "data".
type bench struct {
	*served
	mu   sync.Mutex
	shut chan struct{}
}

func newBench(c emulator.Config) (*bench, error) {
	c.PageShards = 3 // so that listings have pages
	b := &bench{served: serve(c)}
	return b, b.make()
}

// make begins with two partitions, and so with two shards without parents.
func (b *bench) make() error {
	if err := b.create(0); err != nil {
		return err
	}
	if _, _, err := b.served.Split(instance, table, int64(0)); err != nil {
		return err
	}
	return b.stream(true)
}

// RoundTrip is the way of the sources to the service, which can be shut.
func (b *bench) RoundTrip(r *http.Request) (*http.Response, error) {
	b.mu.Lock()
	shut := b.shut
	b.mu.Unlock()
	if shut != nil {
		select {
		case <-shut:
			return nil, errors.New("connection reset by peer")
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	return b.tr.RoundTrip(r)
}

func (b *bench) Source() core.StreamSource { return rows{New(there(), table, Transport(b))} }

func (b *bench) Close() error {
	b.close()
	return nil
}

// rows shows what the suite put into a change as the record it was.
type rows struct{ *Source }

func (s rows) Open(ctx context.Context, shard core.Shard, at core.Position) (core.ShardReader, error) {
	r, err := s.Source.Open(ctx, shard, at)
	if err != nil {
		return nil, err
	}
	return rowReader{r}, nil
}

type rowReader struct{ core.ShardReader }

func (r rowReader) Next(ctx context.Context) (*core.Page, error) {
	p, err := r.ShardReader.Next(ctx)
	if err != nil {
		return nil, err
	}
	for i := range p.Records {
		c := p.Records[i].Native.(*Change)
		data, _ := c.Column("data")
		p.Records[i].Data, p.Records[i].Key = data.Value.([]byte), c.Key[1].Value.(string)
	}
	return p, nil
}

// bounds is the part of the table that an open shard covers.
func (b *bench) bounds(shard core.ShardID) (from, to int64, err error) {
	parts, err := b.Partitions(instance, table)
	if err != nil {
		return 0, 0, err
	}
	i := slices.IndexFunc(parts, func(p emulator.Partition) bool { return p.Shard == string(shard) })
	if i < 0 {
		return 0, 0, core.ErrNotFound
	}
	from, to = math.MinInt64, math.MaxInt64
	if v, ok := parts[i].From.(int64); ok {
		from = v
	}
	if v, ok := parts[i].To.(int64); ok {
		to = v
	}
	return from, to, nil
}

func (b *bench) Put(_ context.Context, shard core.ShardID, key string, data []byte) error {
	part, _, err := b.bounds(shard)
	if err != nil {
		return err
	}
	return b.put(part, key, append([]byte{}, data...))
}

func (b *bench) Split(_ context.Context, shard core.ShardID) error {
	from, to, err := b.bounds(shard)
	if err != nil {
		return err
	}
	_, _, err = b.served.Split(instance, table, from/2+to/2)
	return err
}

func (b *bench) Merge(_ context.Context, x, y core.ShardID) error {
	_, err := b.served.Merge(instance, table, string(x), string(y))
	return err
}

func (b *bench) Trim(ctx context.Context, shard core.ShardID) error {
	if err := b.served.Trim(instance, table, string(shard), time.Now().Add(time.Microsecond)); err != nil {
		return err
	}
	return pause(ctx, time.Millisecond) // what is put next is not before then
}

func (b *bench) Forget(ctx context.Context, shard core.ShardID) error {
	if err := pause(ctx, time.Millisecond); err != nil {
		return err
	}
	return b.Expire(instance, table, string(shard))
}

// PageBytes is what the emulator makes of it: a source bounds its pages by the average size of records.
func (b *bench) PageBytes() int { return 1 << 20 }

func (b *bench) Remake(ctx context.Context) error {
	if _, err := b.admin.DeleteTable(&sdk.DeleteTableRequest{TableName: table}); err != nil {
		return err
	}
	if err := pause(ctx, time.Second); err != nil {
		return err
	}
	return b.make()
}

func (b *bench) Break(_ context.Context, f conformance.Fault) (func(), error) {
	faults := map[conformance.Fault]emulator.Fault{
		conformance.Unavailable: {Kind: emulator.DropRequest},
		conformance.Throttled:   {Kind: emulator.Fail, Code: "OTSServerBusy"},
		conformance.Denied:      {Kind: emulator.Fail, Code: "OTSNoPermissionAccess"},
		conformance.PartList:    {Kind: emulator.DropRequest, Operation: "DescribeStream", Skip: 1},
	}
	if fault, ok := faults[f]; ok {
		return b.ClearFaults, b.SetFault(fault)
	}
	if f != conformance.Silent {
		return nil, errors.ErrUnsupported
	}
	shut := make(chan struct{})
	b.mu.Lock()
	b.shut = shut
	b.mu.Unlock()
	return func() {
		b.mu.Lock()
		b.shut = nil
		b.mu.Unlock()
		close(shut)
	}, nil
}

// What the reference does not know of the service is tried both ways.
func TestConformance(t *testing.T) {
	for name, c := range map[string]emulator.Config{
		"as assumed": {},
		"the other way": {
			LateEnd: true, ShardsByID: true, IteratorsStay: true, TimestampPages: 3, PageRecords: 7,
			UnknownStream: "OTSParameterInvalid", UnknownIterator: "OTSParameterInvalid",
		},
		"all gone is trimmed": {UnknownStream: "OTSTrimmedDataAccess", UnknownIterator: "OTSObjectNotExist"},
	} {
		t.Run(name, func(t *testing.T) {
			conformance.TestSource(t, func(context.Context) (conformance.SourceHarness, error) { return newBench(c) }, conformance.FakeTime())
		})
	}
}
