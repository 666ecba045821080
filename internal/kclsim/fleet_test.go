package kclsim

import (
	"context"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"go.uber.org/goleak"

	tables "github.com/shardwarden/shardwarden/emulator/dynamodb"
	streams "github.com/shardwarden/shardwarden/emulator/kinesis"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	app     = "orders-app"
	latency = 6 * time.Millisecond
)

// fleet is a stream, a lease table, and workers of both kinds.
type fleet struct {
	t       *testing.T
	layout  Version // what a Java worker of the fleet is, unless said otherwise
	tables  *tables.Server
	streams *streams.Server
	rec     *Recorder
	db      *dynamodb.Client
	kinesis *kinesis.Client
	java    map[string]*javaWorker
	golang  map[string]*goWorker
	mu      sync.Mutex
	faults  []string
	seen    map[string]lease // rows at the last look
	ctx     context.Context
	windows Windows
	story   []string // what the scenario did, in the order of it
	stop    func()
	dry     func() // ends the traffic
	began   time.Time
}

// javaWorker is a model that runs.
type javaWorker struct {
	*Worker
	kill   context.CancelFunc
	done   chan struct{}
	pace   *pace
	tables *line
	gone   bool
}

// pace is how long a handler takes, which may change.
type pace struct {
	mu    sync.Mutex
	delay time.Duration
}

func (p *pace) set(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// work is a handler at work: false where it was broken off.
func (p *pace) work(ctx context.Context) bool {
	p.mu.Lock()
	d := p.delay
	p.mu.Unlock()
	return pause(ctx, d) == nil
}

// What scenarios allow.
var (
	// Nobody takes from who lives, and what is done is done once.
	onlyHandsOver = Windows{Overlap: 0, Repeat: -1}
	// Somebody dies: what it did comes again, of a Java worker the last batch, of ours what it had not stored with a renewal (every 4 s; 5 s at most).
	killed = Windows{Overlap: 0, Repeat: 6 * time.Second}
	// Leases are taken from who lives. It learns of it at its next renewal (Java's are 3.3 s apart, ours 4 s), Java's processor a round of the
	// dispatch loop later. Until then it does what comes again.
	stolen = Windows{Overlap: 4500 * time.Millisecond, Repeat: 9 * time.Second}
)

// within runs a scenario in a bubble. Afterwards everything that was put must be processed, as the windows say.
func within(t *testing.T, v Version, shards int, windows Windows, scenario func(f *fleet)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		f := &fleet{
			t: t, layout: v, windows: windows, ctx: ctx, rec: NewRecorder(), java: map[string]*javaWorker{}, golang: map[string]*goWorker{}, began: time.Now(),
			tables: tables.New(tables.Config{EventualLag: 200 * time.Millisecond, IndexDelay: 2 * time.Second, Seed: 1}), streams: streams.New(streams.Config{NoLimits: true, Seed: 1}),
		}
		f.db, f.kinesis = f.clients(&line{to: f.tables}, &line{to: f.streams})
		var traffic sync.WaitGroup
		f.stop = sync.OnceFunc(func() {
			f.stop = func() {}
			cancel()
			for _, j := range f.java {
				j.kill()
				<-j.done
			}
			for _, g := range f.golang {
				g.die()
			}
			traffic.Wait()
			f.tables.Close()
			f.streams.Close()
		})
		defer func() { f.stop() }()
		if _, err := f.kinesis.CreateStream(ctx, &kinesis.CreateStreamInput{StreamName: aws.String("orders"), ShardCount: aws.Int32(int32(shards))}); err != nil {
			t.Fatal(err)
		}
		f.listShards()
		flow, dry := context.WithCancel(ctx)
		traffic.Go(func() { f.put(flow) })
		f.dry = func() { dry(); traffic.Wait() }
		scenario(f)
		f.dry()
		f.await(3*time.Minute, "all records processed", func() bool { return f.rec.Undone() == 0 })
		for _, j := range f.java {
			if !j.gone {
				f.stopJava(j.ID())
			}
		}
		for _, g := range f.golang {
			if !g.gone {
				f.stopGo(g.id)
			}
		}
		for _, fault := range append(f.rec.Judge(f.windows), f.faults...) {
			f.t.Error(fault)
		}
		if f.t.Failed() {
			f.tell()
		}
	})
}

// tell shows what happened.
func (f *fleet) tell() {
	for _, id := range slices.Sorted(maps.Keys(f.java)) {
		f.t.Logf("%s:\n  %s", id, strings.Join(f.java[id].Log(), "\n  "))
	}
	for _, id := range slices.Sorted(maps.Keys(f.golang)) {
		f.t.Logf("%s:\n  %s", id, strings.Join(f.golang[id].told(), "\n  "))
	}
	if len(f.story) > 0 {
		f.t.Logf("what happened:\n  %s", strings.Join(f.story, "\n  "))
	}
	f.t.Logf("rows at %s:\n%s", time.Now().Format("15:04:05.000"), f.dump())
}

func (f *fleet) fault(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (f *fleet) clients(db, stream *line) (*dynamodb.Client, *kinesis.Client) {
	c := aws.Config{Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("AKIDTEST", "secret", "")}
	return dynamodb.NewFromConfig(c, func(o *dynamodb.Options) {
			o.BaseEndpoint, o.HTTPClient, o.Retryer = aws.String("http://tables.test"), db, aws.NopRetryer{}
			o.EndpointOptions.DisableHTTPS = true
		}), kinesis.NewFromConfig(c, func(o *kinesis.Options) {
			o.BaseEndpoint, o.HTTPClient, o.Retryer = aws.String("http://streams.test"), stream, aws.NopRetryer{}
		})
}

// joinJava starts a Java worker.
func (f *fleet) joinJava(id string, with ...func(*Settings)) *javaWorker {
	f.t.Helper()
	j := &javaWorker{done: make(chan struct{}), pace: &pace{delay: 50 * time.Millisecond}, tables: &line{to: f.tables, latency: latency}}
	db, stream := f.clients(j.tables, &line{to: f.streams, latency: latency})
	s := Settings{ID: id, Version: f.layout, App: app, Stream: "orders", DynamoDB: db, Kinesis: stream, Seed: uint64(len(f.java) + 1), Fault: f.fault}
	s.Process = func(ctx context.Context, d Delivery) bool {
		end := f.rec.Begin(d)
		ok := j.pace.work(ctx)
		end(ok)
		return ok
	}
	for _, w := range with {
		w(&s)
	}
	j.Worker = New(s)
	ctx, kill := context.WithCancel(f.ctx)
	j.kill = kill
	go func() {
		defer close(j.done)
		if err := j.Run(ctx); err != nil {
			f.fault("Java worker %s ended: %v", id, err)
		}
	}()
	f.java[id] = j
	return j
}

// killJava ends a Java worker as kill -9 does.
func (f *fleet) killJava(id string) {
	j := f.java[id]
	j.gone = true
	j.kill()
	<-j.done
}

// stopJava ends it gracefully.
func (f *fleet) stopJava(id string) {
	j := f.java[id]
	j.gone = true
	j.Stop()
	select {
	case <-j.done:
	case <-time.After(2 * time.Minute):
		f.fault("Java worker %s does not stop", id)
		j.kill()
		<-j.done
	}
}

// put puts records, some a second over many keys, until ctx ends.
func (f *fleet) put(ctx context.Context) {
	for n := 0; ; n++ {
		err := f.rec.Put(func() (string, string, error) {
			out, err := f.kinesis.PutRecord(f.ctx, &kinesis.PutRecordInput{StreamName: aws.String("orders"), PartitionKey: aws.String(fmt.Sprintf("key %d", n%211)), Data: []byte("some bytes of an order")})
			if err != nil {
				return "", "", err
			}
			return *out.ShardId, *out.SequenceNumber, nil
		})
		if err != nil {
			f.fault("put: %v", err)
			return
		}
		if pause(ctx, 400*time.Millisecond) != nil {
			return
		}
	}
}

// shard is an entry of the true listing.
type shard struct {
	id      string
	parents []string
	closed  bool
	lo, hi  *big.Int
}

func (f *fleet) listShards() []shard {
	f.t.Helper()
	out, err := f.kinesis.ListShards(f.ctx, &kinesis.ListShardsInput{StreamName: aws.String("orders")})
	if err != nil {
		f.t.Fatal(err)
	}
	var all []shard
	for i := range out.Shards {
		s := &out.Shards[i]
		l := leaseFor(s)
		all = append(all, shard{id: l.key, parents: l.parents, closed: s.SequenceNumberRange.EndingSequenceNumber != nil, lo: hash(l.start), hi: hash(l.end)})
		f.rec.Shard(l.key, l.parents)
	}
	return all
}

// open are the shards that take records, by hash range.
func (f *fleet) open() []shard {
	open := slices.DeleteFunc(f.listShards(), func(s shard) bool { return s.closed })
	slices.SortFunc(open, func(a, b shard) int { return a.lo.Cmp(b.lo) })
	return open
}

// split splits a shard in the middle; it returns the children.
func (f *fleet) split(s shard) []string {
	f.t.Helper()
	middle := new(big.Int).Rsh(new(big.Int).Add(s.lo, s.hi), 1)
	if _, err := f.kinesis.SplitShard(f.ctx, &kinesis.SplitShardInput{StreamName: aws.String("orders"), ShardToSplit: aws.String(s.id), NewStartingHashKey: aws.String(middle.String())}); err != nil {
		f.t.Fatal(err)
	}
	return f.children(s.id)
}

// merge merges two neighbours.
func (f *fleet) merge(a, b shard) []string {
	f.t.Helper()
	if _, err := f.kinesis.MergeShards(f.ctx, &kinesis.MergeShardsInput{StreamName: aws.String("orders"), ShardToMerge: aws.String(a.id), AdjacentShardToMerge: aws.String(b.id)}); err != nil {
		f.t.Fatal(err)
	}
	return f.children(a.id)
}

func (f *fleet) children(id string) []string {
	var out []string
	for _, s := range f.listShards() {
		if slices.Contains(s.parents, id) {
			out = append(out, s.id)
		}
	}
	return out
}

// rows are the lease rows as they stand, by shard.
func (f *fleet) rows() map[string]lease {
	f.t.Helper()
	out := map[string]lease{}
	for _, row := range f.items(app) {
		if kind := textOf(row, "entityType"); kind != "" && kind != "LEASE" {
			continue
		}
		l, err := readLease(row)
		if err != nil {
			f.fault("row %q: %v", textOf(row, "leaseKey"), err)
			continue
		}
		out[l.key] = l
	}
	f.follow(out)
	return out
}

// follow holds what must be true of rows from one look to the next.
func (f *fleet) follow(now map[string]lease) {
	f.mu.Lock()
	before := f.seen
	f.seen = now
	f.mu.Unlock()
	for key, was := range before {
		is, there := now[key]
		switch {
		case !there && was.checkpoint != shardEnd:
			f.fault("the lease of %s was deleted at checkpoint %s", key, was.checkpoint)
		case !there:
			for _, c := range was.children {
				if child, ok := now[c]; ok && child.checkpoint == trimHorizon || !ok && before[c].key == "" {
					f.fault("the lease of %s was deleted, and its child %s has not begun", key, c)
				}
			}
		case is.counter < was.counter:
			f.fault("the counter of %s went back from %d to %d", key, was.counter, is.counter)
		case is.checkpoint != was.checkpoint && (was.checkpoint == shardEnd || is.checkpoint != shardEnd && !after(is.checkpoint, was.checkpoint)):
			f.fault("the checkpoint of %s went back from %s to %s", key, was.checkpoint, is.checkpoint)
		}
	}
}

// items are the rows of a table as they stand.
func (f *fleet) items(table string) []item {
	var out []item
	for _, row := range f.tables.Items(table) {
		it := item{}
		for name, v := range row {
			it[name] = value(v)
		}
		out = append(out, it)
	}
	return out
}

// value reads the form of the JSON protocol.
func value(v any) types.AttributeValue {
	m, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	for kind, v := range m {
		switch v := v.(type) {
		case string:
			if kind == "N" {
				return &types.AttributeValueMemberN{Value: v}
			}
			return str(v)
		case []string:
			return &types.AttributeValueMemberSS{Value: v}
		case bool:
			return &types.AttributeValueMemberBOOL{Value: v}
		case map[string]any:
			inner := item{}
			for k, x := range v {
				inner[k] = value(x)
			}
			return &types.AttributeValueMemberM{Value: inner}
		case []any:
			inner := []types.AttributeValue{}
			for _, x := range v {
				inner = append(inner, value(x))
			}
			return &types.AttributeValueMemberL{Value: inner}
		}
	}
	return nil
}

// item finds a row by its key.
func (f *fleet) item(table, pk, key string) item {
	for _, row := range f.items(table) {
		if textOf(row, pk) == key {
			return row
		}
	}
	return nil
}

func (f *fleet) dump() string {
	var b strings.Builder
	for _, table := range []string{app, app + "-CoordinatorState", app + "-WorkerMetricStats"} {
		for _, row := range f.tables.Items(table) {
			fmt.Fprintf(&b, "  %s:", strings.TrimPrefix(table, app))
			for _, name := range slices.Sorted(maps.Keys(row)) {
				if name != "startingHashKey" && name != "endingHashKey" && name != "checkpointSubSequenceNumber" && name != "h" {
					m, _ := row[name].(map[string]any)
					for _, v := range m {
						fmt.Fprintf(&b, " %s=%v", name, v)
					}
				}
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

// alive are the workers that run, of both kinds.
func (f *fleet) alive() []string {
	var out []string
	for id, j := range f.java {
		if !j.gone {
			out = append(out, id)
		}
	}
	for id, g := range f.golang {
		if !g.gone {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// load is how many leases each worker that runs has, ended ones too (they are a part of the share, V11), and how many are nobody's or a dead
// worker's.
func (f *fleet) load() (load map[string]int, lost int) {
	load = map[string]int{}
	for _, id := range f.alive() {
		load[id] = 0
	}
	for _, l := range f.rows() {
		if _, ok := load[l.owner]; ok && l.checkpointOwner == "" {
			load[l.owner]++
		} else if l.checkpoint != shardEnd { // nobody has to look after what has ended
			lost++
		}
	}
	return load, lost
}

// even reports whether all leases are with workers that run, and spread within one.
func (f *fleet) even() bool { return f.within(1) }

func (f *fleet) within(most int) bool {
	load, lost := f.load()
	if lost > 0 || len(load) == 0 || len(f.rows()) == 0 {
		return false
	}
	counts := slices.Collect(maps.Values(load))
	return slices.Max(counts)-slices.Min(counts) <= most
}

// await waits for a condition in fake time.
func (f *fleet) await(most time.Duration, what string, cond func() bool) (took time.Duration) {
	f.t.Helper()
	began, step := time.Now(), 500*time.Millisecond
	if most <= time.Minute {
		step = 100 * time.Millisecond
	}
	for !cond() {
		if took = time.Since(began); took > most {
			f.tell()
			f.stop()
			f.t.Fatalf("after %v: not in %v: %s; undone records: %d", time.Since(f.began), most, what, f.rec.Undone())
		}
		time.Sleep(step)
	}
	return time.Since(began)
}

// settle waits until all leases are with workers that run, evenly.
func (f *fleet) settle(most time.Duration) time.Duration {
	f.t.Helper()
	return f.await(most, "an even spread", f.even)
}

// watch calls look now and then in a time.
func (f *fleet) watch(d time.Duration, look func()) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(250 * time.Millisecond) {
		look()
	}
}

// ownedBy finds a shard that takes records and is of a worker.
func (f *fleet) ownedBy(id string) shard {
	f.t.Helper()
	rows := f.rows()
	for _, s := range f.open() {
		if rows[s.id].owner == id {
			return s
		}
	}
	f.t.Fatalf("%s owns no open shard", id)
	return shard{}
}
