package memory_test

import (
	"context"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/shardwarden/shardwarden/backends/memory"
	"github.com/shardwarden/shardwarden/core"
)

// cpu is what the process has used so far.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func filled(b *testing.B, n int) (*memory.Stream, core.Shard) {
	s := memory.New("bench", 1)
	shard := only(b, s)
	data := make([]byte, 100)
	records := make([]core.Record, n)
	for i := range records {
		records[i] = core.Record{Key: "key", Data: data}
	}
	if err := s.PutTo(shard.ID, records...); err != nil {
		b.Fatal(err)
	}
	return s, shard
}

// Records of 100 bytes in pages of 1,000, through Next alone.
func BenchmarkNext(b *testing.B) {
	const n = 1_000_000
	s, shard := filled(b, n)
	b.ReportAllocs()
	total := 0
	began := cpu(b)
	for b.Loop() {
		r, err := s.Open(b.Context(), shard, core.FromHorizon)
		if err != nil {
			b.Fatal(err)
		}
		for range n / 1000 {
			p, err := r.Next(b.Context())
			if err != nil || len(p.Records) != 1000 {
				b.Fatal(err, len(p.Records))
			}
			total += len(p.Records)
		}
		_ = r.Close()
	}
	b.ReportMetric(float64(total)/(cpu(b)-began).Seconds(), "records/cpu-s")
}

func BenchmarkPut(b *testing.B) {
	s := memory.New("bench", 8)
	data := make([]byte, 100)
	b.ReportAllocs()
	for b.Loop() {
		s.Put("key", data)
	}
}

// 10,000 readers that wait: what they hold, and what it costs to wake one of them.
func BenchmarkIdle(b *testing.B) {
	const n = 10_000
	s := memory.New("bench", n, memory.Idle(time.Hour))
	shards := list(b, s, core.FromLatest)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	ctx, cancel := context.WithCancel(b.Context())
	got := make(chan int)
	var wg sync.WaitGroup
	for _, sh := range shards {
		r, err := s.Open(ctx, sh, core.FromHorizon)
		if err != nil {
			b.Fatal(err)
		}
		wg.Go(func() {
			for {
				p, err := r.Next(ctx)
				if err != nil {
					return
				}
				got <- len(p.Records)
			}
		})
	}
	for s.Calls()[memory.Next] < n {
		runtime.Gosched()
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	for b.Loop() {
		s.Put("key", nil)
		<-got
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc+after.StackInuse-before.StackInuse)/n, "bytes/reader")
	cancel()
	wg.Wait()
}
