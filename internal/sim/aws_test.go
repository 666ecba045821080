package sim

import (
	"context"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardwarden/shardwarden/backends/kinesis"
	source "github.com/shardwarden/shardwarden/backends/memory"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
	"github.com/shardwarden/shardwarden/emulator/dynamodb"
	emulator "github.com/shardwarden/shardwarden/emulator/kinesis"
	"github.com/shardwarden/shardwarden/leasestore/dynamo"
	store "github.com/shardwarden/shardwarden/leasestore/memory"
)

// wire is a listener of net.Pipe connections, which a bubble can see through.
type wire struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (w *wire) Accept() (net.Conn, error) {
	select {
	case c := <-w.conns:
		return c, nil
	case <-w.done:
		return nil, net.ErrClosed
	}
}

func (w *wire) Close() error   { w.once.Do(func() { close(w.done) }); return nil }
func (w *wire) Addr() net.Addr { return &net.UnixAddr{Name: "wire", Net: "wire"} }

func (w *wire) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case w.conns <- there:
		return here, nil
	case <-w.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// cable is a member's HTTP client. It can be cut: requests that are under way, or made while it is, get no answer.
type cable struct {
	next *http.Client
	mu   sync.Mutex
	cut  chan struct{} // not nil while it is cut; closed when it is mended
}

func (c *cable) Do(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	cut := c.cut
	c.mu.Unlock()
	if cut != nil {
		select {
		case <-r.Context().Done():
			return nil, r.Context().Err()
		case <-cut:
		}
	}
	return c.next.Do(r)
}

func (c *cable) sever() (mend func()) {
	cut := make(chan struct{})
	c.mu.Lock()
	c.cut = cut
	c.mu.Unlock()
	return func() {
		c.mu.Lock()
		c.cut = nil
		c.mu.Unlock()
		close(cut)
	}
}

// aws are both services, and the fleet that runs on them.
type awsFleet struct {
	*Fleet
	t       *testing.T
	streams *emulator.Server
	tables  *dynamodb.Server
	http    *http.Client
	config  aws.Config
	admin   *sdk.Client
	own     *kinesis.Source // the driver's, without faults of its own
	cables  map[*Member]*cable
}

const onWire = "http://wire.test"

func newAWSFleet(t *testing.T, shards int, seed uint64) (f *awsFleet, end func()) {
	f = &awsFleet{
		t: t, streams: emulator.New(emulator.Config{NoLimits: true, Seed: seed}), tables: dynamodb.New(dynamodb.Config{}), cables: map[*Member]*cable{},
		config: aws.Config{Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("AKIDTEST", "secret", "")},
	}
	w := &wire{conns: make(chan net.Conn), done: make(chan struct{})}
	mux := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Host == "tables.test" {
			f.tables.ServeHTTP(rw, r)
		} else {
			f.streams.ServeHTTP(rw, r)
		}
	})
	server := &http.Server{Handler: mux}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(w) }) // ends when it is closed
	tr := &http.Transport{DialContext: w.dial, MaxIdleConnsPerHost: 200}
	f.http = &http.Client{Transport: tr}
	f.admin = sdk.NewFromConfig(f.config, func(o *sdk.Options) {
		o.BaseEndpoint, o.HTTPClient, o.Retryer = aws.String(onWire), f.http, aws.NopRetryer{}
	})
	if _, err := f.admin.CreateStream(t.Context(), &sdk.CreateStreamInput{StreamName: aws.String("orders"), ShardCount: aws.Int32(int32(shards))}); err != nil {
		t.Fatal(err)
	}
	f.own = kinesis.New(f.config, "orders", kinesis.Endpoint(onWire), kinesis.HTTPClient(f.http))
	f.Fleet = NewFleet(source.New("not used", 1), store.New())
	f.Reach, f.Judge = f.reach, newJudge()
	f.Judge.tainted = true // its writes go by another way
	f.list()
	return f, func() {
		f.streams.Close()
		f.tables.Close()
		tr.CloseIdleConnections()
		_ = server.Close()
		serving.Wait()
	}
}

func (f *awsFleet) reach(m *Member) (core.StreamSource, core.LeaseStore) {
	c := &cable{next: f.http}
	f.cables[m] = c
	config := f.config
	config.HTTPClient = c
	return kinesis.New(f.config, "orders", kinesis.Endpoint(onWire), kinesis.HTTPClient(c)), dynamo.New(config, "app", dynamo.Endpoint("http://tables.test"))
}

// list tells the judge of the shards; reshard is done under its lock.
func (f *awsFleet) list(reshard ...func() error) []core.Shard {
	f.Judge.mu.Lock()
	defer f.Judge.mu.Unlock()
	for _, r := range reshard {
		if err := r(); err != nil {
			f.t.Fatal(err)
		}
	}
	all, err := f.own.Shards(f.t.Context(), core.Position{})
	if err != nil {
		f.t.Fatal(err)
	}
	f.Judge.shards(all)
	open := slices.DeleteFunc(all, func(s core.Shard) bool { return s.Closed })
	slices.SortFunc(open, func(a, b core.Shard) int { return slices.Compare(a.Range.Start[:], b.Range.Start[:]) })
	return open
}

func (f *awsFleet) put(key string) {
	f.perKey[key]++
	f.Judge.mu.Lock()
	defer f.Judge.mu.Unlock()
	out, err := f.admin.PutRecord(f.t.Context(), &sdk.PutRecordInput{StreamName: aws.String("orders"), PartitionKey: aws.String(key), Data: []byte("x")})
	if err != nil {
		f.t.Fatal(err)
	}
	f.Judge.put(core.ShardID(*out.ShardId), key, f.perKey[key], *out.SequenceNumber)
}

// TestAWS runs fleets with the real clients of both services against their emulators, in fake time: answers lost after a write was applied, writes
// that come late, throttling, expired iterators, stale listings, a worker whose cable is cut, splits and merges. Afterwards all must be there.
func TestAWS(t *testing.T) {
	for _, seed := range []uint64{1, 2} {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { simulateAWS(t, seed) })
		})
	}
}

func simulateAWS(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 3))
	f, end := newAWSFleet(t, 3, seed)
	defer end()
	f.Config = func(c *worker.Config) {
		c.OnError.MaxBackoff = 5 * time.Second
		c.CleanupFinished, c.CleanupEvery = time.Minute, 30*time.Second
	}
	for _, id := range []string{"a", "b", "c"} {
		if _, err := f.Join(id, 0); err != nil {
			t.Fatal(err)
		}
	}
	stream := func(x emulator.Fault) {
		if err := f.streams.SetFault(x); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range []dynamodb.Fault{
		{Kind: dynamodb.FaultDropAfter, Op: "UpdateItem", Probability: 0.05}, // applied, the answer is lost
		{Kind: dynamodb.FaultDropBefore, Probability: 0.02},
		{Kind: dynamodb.FaultApplyLate, Op: "UpdateItem", Probability: 0.02, Delay: 3 * time.Second},
		{Kind: dynamodb.FaultThrottle, Probability: 0.02},
		{Kind: dynamodb.FaultDelay, Probability: 0.05, Delay: 700 * time.Millisecond},
		{Kind: dynamodb.FaultPageSize, Op: "Scan", Items: 2},
	} {
		f.tables.SetFault(x)
	}
	for _, op := range []string{"GetRecords", "GetShardIterator"} {
		stream(emulator.Fault{Kind: emulator.Throttle, Operation: op, Probability: 0.05})
		stream(emulator.Fault{Kind: emulator.DropAnswer, Operation: op, Probability: 0.03})
		stream(emulator.Fault{Kind: emulator.Internal, Operation: op, Probability: 0.02})
	}
	stream(emulator.Fault{Kind: emulator.ExpireIterator, Probability: 0.02})
	stream(emulator.Fault{Kind: emulator.PartialPage, Probability: 0.2, Records: 1})

	for range 80 {
		for range 1 + r.IntN(6) {
			f.put(fmt.Sprintf("k%d", r.IntN(12)))
		}
		time.Sleep(time.Duration(r.IntN(6000)) * time.Millisecond)
		open := f.list()
		switch r.IntN(10) {
		case 0:
			s := open[r.IntN(len(open))]
			f.list(func() error {
				_, err := f.admin.SplitShard(t.Context(), &sdk.SplitShardInput{StreamName: aws.String("orders"), ShardToSplit: aws.String(string(s.ID)), NewStartingHashKey: aws.String(middle(s.Range))})
				return err
			})
		case 1:
			if i := r.IntN(len(open)); i+1 < len(open) {
				f.list(func() error {
					_, err := f.admin.MergeShards(t.Context(), &sdk.MergeShardsInput{StreamName: aws.String("orders"), ShardToMerge: aws.String(string(open[i].ID)), AdjacentShardToMerge: aws.String(string(open[i+1].ID))})
					return err
				})
			}
		case 2:
			alive := f.Alive()
			mend := f.cables[alive[r.IntN(len(alive))]].sever()
			time.Sleep(time.Duration(r.IntN(20)) * time.Second)
			mend()
		}
	}
	f.tables.ClearFaults()
	f.streams.ClearFaults()
	n := f.Judge.Stats().Records
	took, ok := f.Await(WholeWithin(10*time.Second), func() bool { return f.Judge.Undone(n) == 0 })
	if !ok {
		_, text := f.Judge.unfinished(n)
		t.Errorf("%v after the faults ended, records are not acknowledged: %s", took, text)
	}
	for _, m := range f.members {
		m.stop()
		<-m.Done
		if m.Err != nil {
			t.Errorf("worker %s ended: %v", m.Name, m.Err)
		}
	}
	for _, b := range f.Judge.Faults() {
		t.Error(b)
	}
	s := f.Judge.Stats()
	t.Logf("whole again %v after the faults; %d records, %d deliveries; %d leases lost, %d fenced off; longest wait %v", took, s.Records, s.Delivered, s.Losses, s.Fenced, s.WaitWorst)
}

// middle is the hash key in the middle of a range, in the decimal notation of the service.
func middle(r *core.HashRange) string {
	sum := new(big.Int).Add(new(big.Int).SetBytes(r.Start[:]), new(big.Int).SetBytes(r.End[:]))
	return sum.Rsh(sum, 1).String()
}
