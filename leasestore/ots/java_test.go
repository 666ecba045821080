package ots_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	source "github.com/shardwarden/shardwarden/backends/memory"
	"github.com/shardwarden/shardwarden/core"
)

// javaWorker does what a worker of the Java Stream Client 1.0.0 does to a status table, write by write (docs/reference/tablestore.md 3.5 to 3.10),
// over a stream in memory. Like it, it dies on a row that it can't read.
type javaWorker struct {
	id      string
	stream  string
	sdk     *tablestore.TableStoreClient
	source  javaSource
	deliver func(by, shard, key string, n int)

	mu     sync.Mutex // never held across a call
	owned  map[string]*javaLease
	seen   map[string]*javaSighting
	steals int
	err    error // what it died of
	cancel context.CancelFunc
	done   chan struct{}
}

// javaSource is the stream as a Java worker reads it.
type javaSource interface {
	shards(ctx context.Context) ([]core.Shard, error) // parents first
	open(ctx context.Context, shard, checkpoint string) (javaReader, error)
}

// javaReader gives batches, each with the checkpoint behind it, empty where it is the former; SHARD_END is the last.
type javaReader interface {
	next(ctx context.Context) (batch []javaRecord, checkpoint string, err error)
	close()
}

type javaRecord struct {
	key string
	n   int
}

// The defaults of ClientConfig.
const (
	javaDuration = 20 * time.Second
	javaRenew    = 6 * time.Second
	javaTake     = 6 * time.Second
	javaSync     = 10 * time.Second
	javaPoll     = 5 * time.Second // of parents
)

// javaRow is a lease as the Java client reads it.
type javaRow struct {
	shard, owner, stealer, checkpoint string
	counter                           int64
	parents                           []string
}

// javaSighting is what the taker knows of a lease: when its counter last moved.
type javaSighting struct {
	row   javaRow
	moved time.Time
}

// javaLease is an owned lease with its consumer.
type javaLease struct {
	mu      sync.Mutex // one write at a time
	row     javaRow
	renewed time.Time
	stealer string
	lost    bool
	stop    context.CancelFunc // of the consumer
	stopped chan struct{}
}

func startJava(ctx context.Context, s *service, id, stream string, src javaSource, deliver func(by, shard, key string, n int)) *javaWorker {
	ctx, cancel := context.WithCancel(ctx)
	j := &javaWorker{
		id: id, stream: stream, sdk: s.sdk, source: src, deliver: deliver, cancel: cancel, done: make(chan struct{}),
		owned: map[string]*javaLease{}, seen: map[string]*javaSighting{},
	}
	go func() {
		defer close(j.done)
		j.run(ctx)
	}()
	return j
}

// kill ends it at once, as kill -9: nothing is written.
func (j *javaWorker) kill() {
	j.cancel()
	<-j.done
}

func (j *javaWorker) run(ctx context.Context) {
	var wg sync.WaitGroup
	every := func(d time.Duration, f func(context.Context) error) {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := f(ctx); err != nil && ctx.Err() == nil {
					j.mu.Lock()
					j.err = errors.Join(j.err, err)
					j.mu.Unlock()
					j.cancel()
					return
				}
				sleep(ctx, d)
			}
		})
	}
	if err := j.syncShards(ctx); err != nil {
		j.err = err
		return
	}
	every(javaSync, j.syncShards)
	every(javaTake, j.take)
	every(javaRenew, j.renewAll)
	wg.Wait()
	j.mu.Lock()
	leases := j.owned
	j.mu.Unlock()
	for _, l := range leases {
		l.stop()
		<-l.stopped
	}
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// list reads the leases as LeaseManager does.
func (j *javaWorker) list() ([]javaRow, error) {
	bounds := func(max bool) *tablestore.PrimaryKey {
		pk := new(tablestore.PrimaryKey)
		pk.AddPrimaryKeyColumn("StreamId", j.stream)
		pk.AddPrimaryKeyColumn("StatusType", "LeaseKey")
		if max {
			pk.AddPrimaryKeyColumnWithMaxValue("StatusValue")
		} else {
			pk.AddPrimaryKeyColumnWithMinValue("StatusValue")
		}
		return pk
	}
	var out []javaRow
	for at := bounds(false); at != nil; {
		page, err := j.sdk.GetRange(&tablestore.GetRangeRequest{RangeRowQueryCriteria: &tablestore.RangeRowQueryCriteria{
			TableName: status, StartPrimaryKey: at, EndPrimaryKey: bounds(true), MaxVersion: 1, Direction: tablestore.FORWARD,
		}})
		if err != nil {
			return nil, err
		}
		for _, r := range page.Rows {
			if len(r.Columns) < 5 {
				continue // debris
			}
			row, err := readJava(r.PrimaryKey.PrimaryKeys[2].Value.(string), r.Columns)
			if err != nil {
				return nil, err
			}
			out = append(out, row)
		}
		at = page.NextStartPrimaryKey
	}
	return out, nil
}

// counterTime is when the counter of a lease moved last, as the vendor's command line derives it: by the timestamp of the cell.
func (j *javaWorker) counterTime(shard string) (time.Time, error) {
	out, err := j.sdk.GetRow(&tablestore.GetRowRequest{SingleRowQueryCriteria: &tablestore.SingleRowQueryCriteria{
		TableName: status, PrimaryKey: rowKey(j.stream, "LeaseKey", shard), MaxVersion: 1,
	}})
	if err != nil {
		return time.Time{}, err
	}
	for _, c := range out.Columns {
		if c.ColumnName == "LeaseCounter" {
			return time.UnixMilli(c.Timestamp), nil
		}
	}
	return time.Time{}, fmt.Errorf("shard %s has no counter", shard)
}

// readJava is the serializer's reading, which throws where a column is missing or of another type.
func readJava(shard string, columns []*tablestore.AttributeColumn) (row javaRow, err error) {
	values := map[string]any{}
	for _, c := range columns {
		values[c.ColumnName] = c.Value
	}
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("java can't read the row of %s: %v in %v", shard, v, values)
		}
	}()
	row = javaRow{
		shard: shard, owner: values["LeaseOwner"].(string), stealer: values["LeaseStealer"].(string),
		checkpoint: values["Checkpoint"].(string), counter: values["LeaseCounter"].(int64),
	}
	for p := range strings.SplitSeq(values["ParentShardIds"].(string), "\n") {
		if p != "" {
			row.parents = append(row.parents, p)
		}
	}
	switch row.checkpoint {
	case "LATEST", "AT_TIMESTAMP", "":
		return row, fmt.Errorf("java takes %q in the row of %s for an iterator, and dies", row.checkpoint, shard)
	}
	return row, nil
}

// update writes columns under conditions; false where one did not hold.
func (j *javaWorker) update(shard string, columns map[string]any, conditions ...*tablestore.SingleColumnCondition) (bool, error) {
	u := &tablestore.UpdateRowChange{TableName: status, PrimaryKey: rowKey(j.stream, "LeaseKey", shard)}
	for name, v := range columns {
		u.PutColumn(name, v)
	}
	u.SetCondition(tablestore.RowExistenceExpectation_IGNORE)
	var all tablestore.ColumnFilter
	for _, c := range conditions {
		c.LatestVersionOnly = true
		if all == nil {
			all = c
			continue
		}
		and := tablestore.NewCompositeColumnCondition(tablestore.LO_AND)
		and.AddFilter(all)
		and.AddFilter(c)
		all = and
	}
	u.SetColumnCondition(all)
	_, err := j.sdk.UpdateRow(&tablestore.UpdateRowRequest{UpdateRowChange: u})
	if ots, ok := errors.AsType[*tablestore.OtsError](err); ok && ots.Code == "OTSConditionCheckFail" {
		return false, nil
	}
	return err == nil, err
}

func counterIs(n int64) *tablestore.SingleColumnCondition {
	c := tablestore.NewSingleColumnCondition("LeaseCounter", tablestore.CT_EQUAL, n)
	c.FilterIfMissing = true
	return c
}

// syncShards is ShardSyncer: a lease for every listed shard, parents first, and none for others.
func (j *javaWorker) syncShards(ctx context.Context) error {
	shards, err := j.source.shards(ctx)
	if err != nil {
		return err
	}
	rows, err := j.list()
	if err != nil {
		return err
	}
	has := map[string]bool{}
	for _, r := range rows {
		has[r.shard] = true
	}
	for _, s := range shards {
		if has[string(s.ID)] {
			delete(has, string(s.ID))
			continue
		}
		var parents strings.Builder
		for _, p := range s.Parents {
			parents.WriteString(string(p) + "\n")
		}
		put := &tablestore.PutRowChange{TableName: status, PrimaryKey: rowKey(j.stream, "LeaseKey", string(s.ID))}
		for name, v := range map[string]any{"LeaseCounter": int64(0), "LeaseOwner": "", "LeaseStealer": "", "Checkpoint": "TRIM_HORIZON", "ParentShardIds": parents.String()} {
			put.AddColumn(name, v)
		}
		put.SetCondition(tablestore.RowExistenceExpectation_IGNORE)
		if _, err := j.sdk.PutRow(&tablestore.PutRowRequest{PutRowChange: put}); err != nil {
			return err
		}
	}
	for gone := range has {
		del := &tablestore.DeleteRowChange{TableName: status, PrimaryKey: rowKey(j.stream, "LeaseKey", gone)}
		del.SetCondition(tablestore.RowExistenceExpectation_IGNORE)
		if _, err := j.sdk.DeleteRow(&tablestore.DeleteRowRequest{DeleteRowChange: del}); err != nil {
			return err
		}
	}
	return nil
}

// take is LeaseTaker (3.7).
func (j *javaWorker) take(ctx context.Context) error {
	rows, err := j.list()
	if err != nil {
		return err
	}
	now := time.Now()
	j.mu.Lock()
	former := j.seen
	j.seen = map[string]*javaSighting{}
	counts := map[string]int{j.id: 0}
	var mine, expired, all []*javaSighting
	for _, r := range rows {
		s := former[r.shard]
		switch {
		case s == nil && r.owner == "":
			s = &javaSighting{row: r}
		case s == nil || s.row.counter != r.counter:
			s = &javaSighting{row: r, moved: now}
		default:
			s.row = r
		}
		j.seen[r.shard] = s
		all = append(all, s)
		switch {
		case r.owner == j.id && r.stealer == j.id:
			mine = append(mine, s)
		case now.Sub(s.moved) > javaDuration:
			expired = append(expired, s)
		case r.stealer == "":
			counts[r.owner]++
		}
	}
	j.mu.Unlock()
	target := (len(rows) + len(counts) - 1) / len(counts)
	need := target - counts[j.id]
	rand.Shuffle(len(expired), func(a, b int) { expired[a], expired[b] = expired[b], expired[a] })
	var take []*javaSighting
	for i, s := range mine {
		if i == 0 || need > 0 {
			take = append(take, s)
			need--
		}
	}
	for _, s := range expired {
		if need > 0 {
			take = append(take, s)
			need--
		}
	}
	for _, s := range take {
		ok, err := j.update(s.row.shard, map[string]any{"LeaseCounter": s.row.counter + 1, "LeaseOwner": j.id, "LeaseStealer": ""}, counterIs(s.row.counter))
		if err != nil {
			return err
		}
		if ok {
			s.row.counter++
			s.row.owner, s.row.stealer, s.moved = j.id, "", time.Now()
			j.own(ctx, s.row)
		}
	}
	if need > 0 {
		return j.steal(all, counts, target, need)
	}
	return nil
}

// steal asks for one lease of the owner that has most.
func (j *javaWorker) steal(all []*javaSighting, counts map[string]int, target, need int) error {
	most := ""
	for owner, n := range counts {
		if owner != j.id && owner != "" && (most == "" || n > counts[most]) {
			most = owner
		}
	}
	if most == "" || counts[most] <= target-1 || need <= 1 && counts[most] == target {
		return nil
	}
	var of []*javaSighting
	for _, s := range all {
		if s.row.owner == most {
			of = append(of, s)
		}
	}
	s := of[rand.IntN(len(of))]
	owner := tablestore.NewSingleColumnCondition("LeaseOwner", tablestore.CT_EQUAL, s.row.owner)
	owner.FilterIfMissing = true
	nobody := tablestore.NewSingleColumnCondition("LeaseStealer", tablestore.CT_EQUAL, "")
	ok, err := j.update(s.row.shard, map[string]any{"LeaseStealer": j.id}, owner, nobody)
	if ok {
		j.mu.Lock()
		j.steals++
		j.mu.Unlock()
	}
	return err
}

// own begins to renew a lease, and to consume it.
func (j *javaWorker) own(ctx context.Context, row javaRow) {
	consuming, stop := context.WithCancel(ctx)
	l := &javaLease{row: row, renewed: time.Now(), stop: stop, stopped: make(chan struct{})}
	j.mu.Lock()
	j.owned[row.shard] = l
	j.mu.Unlock()
	go func() {
		defer close(l.stopped)
		j.consume(ctx, consuming, l)
		if consuming.Err() == nil {
			<-consuming.Done() // it read to the end, or failed: the lease is kept
		}
		if ctx.Err() == nil {
			j.transfer(l)
		}
	}()
}

func (j *javaWorker) leases() []*javaLease {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []*javaLease
	for _, l := range j.owned {
		out = append(out, l)
	}
	return out
}

// write is a compare-and-swap on the counter of an owned lease, under its lock. One that fails loses the lease.
func (j *javaWorker) write(l *javaLease, columns map[string]any) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost || time.Since(l.renewed) > javaDuration {
		l.lost = true
		return false, nil
	}
	columns["LeaseCounter"] = l.row.counter + 1
	ok, err := j.update(l.row.shard, columns, counterIs(l.row.counter))
	if ok {
		l.row.counter++
		l.renewed = time.Now()
	} else if err == nil {
		l.lost = true
	}
	return ok, err
}

// renewAll is LeaseRenewer: first it looks who is being stolen from it, which it sees only where the counters agree.
func (j *javaWorker) renewAll(context.Context) error {
	rows, err := j.list()
	if err != nil {
		return err
	}
	remote := map[string]javaRow{}
	for _, r := range rows {
		remote[r.shard] = r
	}
	for _, l := range j.leases() {
		l.mu.Lock()
		r := remote[l.row.shard]
		if l.stealer == "" && r.stealer != "" && r.counter == l.row.counter {
			l.stealer = r.stealer
		}
		stolen := l.stealer != ""
		l.mu.Unlock()
		ok, err := j.write(l, map[string]any{})
		if err != nil {
			return err
		}
		if !ok {
			j.forget(l)
		} else if stolen {
			l.stop() // the consumer's task finishes, and then the lease is handed over
		}
	}
	return nil
}

func (j *javaWorker) forget(l *javaLease) {
	l.stop()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.owned[l.row.shard] == l {
		delete(j.owned, l.row.shard)
	}
}

// consume is ShardConsumer: waits for parents, whatever is asked of it meanwhile, reads from the checkpoint, and checkpoints each batch by the
// position behind it. life is the worker's, ctx ends when the lease is lost or asked for.
func (j *javaWorker) consume(life, ctx context.Context, l *javaLease) {
	for waiting := true; waiting; {
		rows, err := j.list()
		if err != nil || life.Err() != nil {
			return
		}
		waiting = false
		for _, r := range rows {
			waiting = waiting || slices.Contains(l.row.parents, r.shard) && r.checkpoint != "SHARD_END"
			if r.shard == l.row.shard {
				l.mu.Lock()
				l.row.checkpoint = r.checkpoint // Initialize reads the row again
				l.mu.Unlock()
			}
		}
		if waiting {
			sleep(life, javaPoll)
		}
	}
	if l.row.checkpoint == "SHARD_END" {
		return // TERMINATE; the lease is kept and renewed
	}
	reader, err := j.source.open(ctx, l.row.shard, l.row.checkpoint)
	if err != nil {
		return
	}
	defer reader.close()
	for ctx.Err() == nil {
		batch, checkpoint, err := reader.next(ctx)
		if err != nil {
			return
		}
		for _, r := range batch {
			j.deliver(j.id, l.row.shard, r.key, r.n)
		}
		if checkpoint == "" {
			continue
		}
		if ok, err := j.write(l, map[string]any{"Checkpoint": checkpoint}); !ok || err != nil || checkpoint == "SHARD_END" {
			return
		}
	}
}

// transfer makes the stealer the owner. It leaves the stealer where it is.
func (j *javaWorker) transfer(l *javaLease) {
	l.mu.Lock()
	to := l.stealer
	l.mu.Unlock()
	j.forget(l)
	if to != "" {
		_, _ = j.write(l, map[string]any{"LeaseOwner": to})
	}
}

// memorySource is a stream in memory for a Java worker.
type memorySource struct{ *source.Stream }

func (s memorySource) shards(ctx context.Context) ([]core.Shard, error) {
	shards, err := s.Shards(ctx, core.Position{})
	slices.SortFunc(shards, func(a, b core.Shard) int { return cmp.Compare(a.ID, b.ID) }) // names grow, so parents come first
	return shards, err
}

func (s memorySource) open(ctx context.Context, shard, checkpoint string) (javaReader, error) {
	at, err := core.ParsePosition(checkpoint, 0, time.Time{})
	if err != nil {
		return nil, err
	}
	r, err := s.Open(ctx, core.Shard{ID: core.ShardID(shard)}, at)
	return memoryReader{r}, err
}

type memoryReader struct{ core.ShardReader }

func (r memoryReader) close() { _ = r.Close() }

func (r memoryReader) next(ctx context.Context) (batch []javaRecord, checkpoint string, err error) {
	page, err := r.Next(ctx)
	if err != nil {
		return nil, "", err
	}
	for i := range page.Records {
		key, n := memoryRecord(&page.Records[i])
		batch = append(batch, javaRecord{key, n})
		checkpoint = page.Records[i].Sequence
	}
	if page.End {
		checkpoint = "SHARD_END"
	}
	if page.Release != nil {
		page.Release()
	}
	return batch, checkpoint, nil
}
