package worker_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	source "github.com/shardwarden/shardwarden/backends/memory"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
	store "github.com/shardwarden/shardwarden/leasestore/memory"
)

// cpu is the processor time of the whole process, user and system.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkWholePath is the engine alone: records of 100 B in pages of 1,000 from memory to a handler that does nothing, automatic checkpoints. It
// reports records per CPU second of the whole process and allocations per record.
func BenchmarkWholePath(b *testing.B) {
	const records, shards = 1_000_000, 4
	stream := source.New("bench", shards)
	data := make([]byte, 100)
	batch := make([]core.Record, 0, 1000)
	for i := range records {
		batch = append(batch, core.Record{Key: fmt.Sprintf("key-%d", i%1000), Data: data})
		if len(batch) == cap(batch) {
			stream.PutMany(batch...)
			batch = batch[:0]
		}
	}
	var total, allocs uint64
	var spent time.Duration
	for b.Loop() {
		var seen atomic.Int64
		done := make(chan struct{})
		w, err := worker.New(worker.Config{
			Streams: worker.One(stream, core.FromHorizon), Store: store.New(),
			Process: func(_ context.Context, b *core.Batch) error {
				if seen.Add(int64(len(b.Records))) == records {
					close(done)
				}
				return nil
			},
		})
		if err != nil {
			b.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		start := cpu()
		ctx, stop := context.WithCancel(b.Context())
		ran := make(chan error, 1)
		go func() { ran <- w.Run(ctx) }()
		<-done
		spent += cpu() - start
		runtime.ReadMemStats(&after)
		stop()
		if err := <-ran; err != nil {
			b.Fatal(err)
		}
		total += records
		allocs += after.Mallocs - before.Mallocs
	}
	b.ReportMetric(float64(total)/spent.Seconds(), "records/cpu-s")
	b.ReportMetric(float64(allocs)/float64(total), "allocs/record")
}

// BenchmarkIdle is one worker that holds 10,000 open shards in which nothing happens: memory of the process above what it was before, and
// how much of a core it takes.
func BenchmarkIdle(b *testing.B) {
	const shards = 10_000
	stream := source.New("bench", shards, source.Idle(30*time.Second)) // a source that blocks, as far as one may without seeming stalled
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	w, err := worker.New(worker.Config{Streams: worker.One(stream, core.FromHorizon), Store: store.New(), Process: func(context.Context, *core.Batch) error { return nil }})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	ran := make(chan error, 1)
	go func() { ran <- w.Run(ctx) }()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	reading := func() (n int) {
		for _, s := range w.Status().Shards {
			if s.State == worker.Reading {
				n++
			}
		}
		return n
	}
	for reading() < shards {
		<-tick.C
	}
	const window = 15 * time.Second
	for b.Loop() {
		start := cpu()
		<-time.After(window)
		b.ReportMetric(100*(cpu()-start).Seconds()/window.Seconds(), "%core")
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.Sys-before.Sys)/1e6, "MB-sys")
	b.ReportMetric(float64(after.HeapInuse+after.StackInuse-before.HeapInuse-before.StackInuse)/1e6, "MB-inuse")
	stop()
	if err := <-ran; err != nil {
		b.Fatal(err)
	}
}
