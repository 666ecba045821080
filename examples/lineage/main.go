// A family of shards, and who reads them: workers 1 and 2 read P1, P2 and P3; P2 is split into P4 and P5, which wait until P2 is read to its
// end; worker 3 joins and is handed a share; worker 1 leaves. The lease table is printed after each step.
//
//	go run ./examples/lineage
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"

	stream "github.com/shardwarden/shardwarden/backends/memory"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
	leases "github.com/shardwarden/shardwarden/leasestore/memory"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "lineage:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	s := newScene(out)
	defer s.close()
	steps := []func(context.Context) error{s.begin, s.split, s.readToTheEnd, s.join, s.leave}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if err := s.verdict(); err != nil {
		return err
	}
	_, err := fmt.Fprint(out, `
What happened: a shard that is split ends, but its lease stays until it has been read to its end, and the shards that go on wait for that.
So the records of one key keep their order across the split, whoever reads them. A worker that joins asks for its share and is handed it
by its owner, between two batches; one that leaves hands its leases on. Nothing was read by two workers at a time, and nothing twice.
`)
	return err
}

// scene is the stream, the table, the workers, and a judge of what they do.
type scene struct {
	out     io.Writer
	stream  *stream.Stream
	table   *leases.Store
	changed chan struct{} // something in the table or in the judge has changed
	slow    chan struct{} // the handler of P2 waits for it
	workers map[int]*worker.Worker
	running errgroup.Group

	mu      sync.Mutex
	put     map[core.ShardID]int
	handled map[core.ShardID][]string // the records, in the order they were handled
	last    map[core.ShardID]string   // the sequence number of the last of them
	busy    map[core.ShardID]bool     // a handler is at work
	faults  []error
}

func newScene(out io.Writer) *scene {
	s := &scene{
		out: out, changed: make(chan struct{}, 1), slow: make(chan struct{}), workers: map[int]*worker.Worker{},
		stream:  stream.New("orders", 3, stream.WithID("orders"), stream.ShardNames(func(n int) core.ShardID { return core.ShardID(fmt.Sprint("P", n+1)) })),
		table:   leases.New(),
		handled: map[core.ShardID][]string{}, put: map[core.ShardID]int{}, last: map[core.ShardID]string{}, busy: map[core.ShardID]bool{},
	}
	s.table.OnWrite(func(_, _ *core.Lease, _ string) { s.change() })
	return s
}

func (s *scene) change() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// close stops what an error left running.
func (s *scene) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, w := range s.workers {
		_ = w.Shutdown(ctx)
	}
}

func (s *scene) begin(ctx context.Context) error {
	for _, shard := range []core.ShardID{"P1", "P2", "P3"} {
		s.produce(shard, 3)
	}
	if err := s.start(1); err != nil {
		return err
	}
	if err := s.start(2); err != nil {
		return err
	}
	return s.show(ctx, "Workers 1 and 2 read P1, P2 and P3.", func() bool { return s.settled(2, 3) && s.stored("P1", "P2", "P3") })
}

func (s *scene) split(ctx context.Context) error {
	s.produceOne("P2", "slow")
	s.produce("P2", 2)
	if _, _, err := s.stream.Split("P2"); err != nil {
		return err
	}
	s.produce("P4", 2)
	s.produce("P5", 2)
	return s.show(ctx, "P2 was split into P4 and P5. Its worker is busy with a record that takes long: P4 and P5 wait, though they have records.", func() bool {
		shards, err := s.stream.Shards(ctx, core.Position{})
		return err == nil && len(shards) == 5 && s.count("P2") == 3 && s.count("P4")+s.count("P5") == 0
	})
}

func (s *scene) readToTheEnd(ctx context.Context) error {
	close(s.slow)
	return s.show(ctx, "P2 has been read to its end. P4 and P5 are read, from their beginning.", func() bool {
		return s.settled(2, 4) && s.stored("P1", "P3", "P4", "P5")
	})
}

func (s *scene) join(ctx context.Context) error {
	if err := s.start(3); err != nil {
		return err
	}
	return s.show(ctx, "Worker 3 has joined, and was handed a share.", func() bool { return s.settled(3, 4) })
}

func (s *scene) leave(ctx context.Context) error {
	if err := s.workers[1].Shutdown(ctx); err != nil {
		return err
	}
	for _, shard := range []core.ShardID{"P1", "P3", "P4", "P5"} {
		s.produce(shard, 1)
	}
	err := s.show(ctx, "Worker 1 has left, and handed its leases on; one more record came to each shard.", func() bool {
		return s.settled(2, 4) && s.stored("P1", "P3", "P4", "P5")
	})
	if err != nil {
		return err
	}
	return errors.Join(s.workers[2].Shutdown(ctx), s.workers[3].Shutdown(ctx), s.running.Wait())
}

// start starts a worker. Leases are short, so that little time passes between the steps.
func (s *scene) start(n int) error {
	id := core.WorkerID(fmt.Sprint("worker ", n))
	w, err := worker.New(worker.Config{
		ID:              id,
		Streams:         worker.One(s.stream.Handle(), core.FromHorizon),
		Store:           s.table.Handle(string(id)),
		Process:         s.handle,
		LeaseDuration:   time.Second,
		CheckpointEvery: 100 * time.Millisecond,
		StallAfter:      time.Minute,
	})
	if err != nil {
		return err
	}
	s.workers[n] = w
	s.running.Go(func() error { return w.Run(context.Background()) })
	return nil
}

func (s *scene) produce(shard core.ShardID, n int) {
	for range n {
		s.mu.Lock()
		number := s.put[shard] + 1
		s.mu.Unlock()
		s.produceOne(shard, fmt.Sprint(number))
	}
}

func (s *scene) produceOne(shard core.ShardID, data string) {
	s.mu.Lock()
	s.put[shard]++
	s.mu.Unlock()
	if err := s.stream.PutTo(shard, core.Record{Key: string(shard), Data: []byte(data)}); err != nil {
		s.fault(err)
	}
}

// handle is the user's code: it takes its time over one record.
func (s *scene) handle(ctx context.Context, b *core.Batch) error {
	s.enter(b.Shard)
	defer s.exit(b.Shard)
	for _, r := range b.Records {
		if string(r.Data) == "slow" {
			select {
			case <-s.slow:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		s.judge(b.Shard, r.Clone())
	}
	return nil
}

func (s *scene) enter(shard core.ShardID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[shard] {
		s.faults = append(s.faults, fmt.Errorf("two handlers are at work on %s", shard))
	}
	s.busy[shard] = true
}

func (s *scene) exit(shard core.ShardID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy[shard] = false
}

// judge knows what was put, and so what is wrong.
func (s *scene) judge(shard core.ShardID, r core.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handled[shard] = append(s.handled[shard], string(r.Data))
	s.last[shard] = r.Sequence
	if (shard == "P4" || shard == "P5") && len(s.handled["P2"]) < s.put["P2"] {
		s.faults = append(s.faults, fmt.Errorf("record %s of %s came before the last of its parent P2", r.Data, shard))
	}
	s.change()
}

func (s *scene) fault(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, err)
}

// verdict is what went wrong.
func (s *scene) verdict() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for shard, put := range s.put {
		if n := len(s.handled[shard]); n != put {
			s.faults = append(s.faults, fmt.Errorf("%d records of %s were handled, and %d put: %v", n, shard, put, s.handled[shard]))
		}
	}
	return errors.Join(s.faults...)
}

func (s *scene) count(shard core.ShardID) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.handled[shard])
}

// settled: so many shards are read, by so many workers, none of which has more than its share, and nobody asks for more.
func (s *scene) settled(workers, shards int) bool {
	held := map[core.WorkerID]int{}
	n := 0
	for _, l := range s.table.Rows() {
		if l.Ended() {
			continue
		}
		if l.Owner == core.Nobody || l.Next != core.Nobody || l.Run == "" {
			return false
		}
		n++
		held[l.Owner]++
	}
	for _, k := range held {
		if k > (shards+workers-1)/workers {
			return false
		}
	}
	return n == shards && len(held) == workers
}

// stored: all that was put was handled, and the table says so.
func (s *scene) stored(shards ...core.ShardID) bool {
	rows := s.table.Rows()
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, l := range rows {
		if id := l.Key.Shard; slices.Contains(shards, id) && len(s.handled[id]) == s.put[id] && l.Checkpoint.Token == s.last[id] {
			n++
		}
	}
	return n == len(shards)
}

// show waits until a step is done, and prints the table.
func (s *scene) show(ctx context.Context, what string, done func() bool) error {
	for !done() {
		select {
		case <-s.changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting for this in vain: %s\n%w", what, ctx.Err())
		}
	}
	fmt.Fprintf(s.out, "\n%s\n\n", what)
	rows := map[core.ShardID]core.Lease{}
	for _, l := range s.table.Rows() {
		rows[l.Key.Shard] = l
	}
	shards, err := s.stream.Shards(ctx, core.Position{})
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(s.out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "  shard\tparents\towner\tcheckpoint\tstate")
	for _, sh := range shards {
		l, ok := rows[sh.ID]
		parents, owner, checkpoint, state := "-", "-", "-", "waits for its parent: no lease yet"
		if len(sh.Parents) > 0 {
			parents = fmt.Sprint(sh.Parents[0])
		}
		switch {
		case !ok:
		case l.Ended():
			checkpoint, state = l.Checkpoint.String(), fmt.Sprint("read to its end; goes on in ", l.Children)
		default:
			owner, checkpoint, state = string(l.Owner), l.Checkpoint.String(), "is read"
			if sh.Closed {
				state = "has ended, and is read to its end"
			}
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\n", sh.ID, parents, owner, checkpoint, state)
	}
	return t.Flush()
}
