package main

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardwarden/shardwarden/emulator/dynamodb"
	"github.com/shardwarden/shardwarden/emulator/kinesis"
)

const (
	streams = 100
	shards  = 10 // of each
	size    = 1000
	settle  = 20 * time.Second
	idle    = time.Minute
)

// BenchmarkManyStreams lets one worker, in a process of its own, read 100 streams of 10 shards on our emulators until it has caught up, and then
// stay idle for a minute: how much memory it took at most, how much it takes in the end beside what is mapped from files, and which calls it
// makes when idle. In the second case each shard has 150 kB of records at start.
func BenchmarkManyStreams(b *testing.B) {
	program := filepath.Join(b.TempDir(), "manystreams")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		b.Fatalf("build: %v\n%s", err, out)
	}
	for name, records := range map[string]int{"empty": 1, "150kB_a_shard": 150} { // one, to know that it is read
		b.Run(name, func(b *testing.B) {
			k := kinesis.New(kinesis.Config{})
			d := dynamodb.New(dynamodb.Config{})
			calls := &counted{next: k, n: map[string]int{}}
			ks, ds := httptest.NewServer(calls), httptest.NewServer(d)
			defer func() {
				k.Close()
				d.Close()
				ks.Close()
				ds.Close()
			}()
			for i := range streams {
				fill(b, k, fmt.Sprint("bench-", i), records)
			}
			run := 0
			for b.Loop() {
				run++
				c := exec.Command(program, "--streams", fmt.Sprint(streams), "--expect", fmt.Sprint(streams*shards*records), "--app", fmt.Sprint("bench-", run),
					"--kinesis", ks.URL, "--dynamo", ds.URL, "--heap", os.Getenv("BENCH_HEAP"))
				c.Stderr = os.Stderr
				out, err := c.StdoutPipe()
				if err != nil {
					b.Fatal(err)
				}
				in, err := c.StdinPipe()
				if err != nil {
					b.Fatal(err)
				}
				start := time.Now()
				if err := c.Start(); err != nil {
					b.Fatal(err)
				}
				if line, err := bufio.NewReader(out).ReadString('\n'); line != "read\n" {
					b.Fatalf("it says %q, %v", line, err)
				}
				read := time.Since(start)
				time.Sleep(settle)
				calls.take()
				time.Sleep(idle)
				made := calls.take()
				resting, peak := memory(b, c.Process.Pid, "RssAnon:"), memory(b, c.Process.Pid, "VmHWM:")
				if err := in.Close(); err != nil {
					b.Fatal(err)
				}
				if err := c.Wait(); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(peak, "MB-peak")
				b.ReportMetric(resting, "MB-idle")
				b.ReportMetric(read.Seconds(), "s-read")
				for op, n := range made {
					b.ReportMetric(float64(n), op+"/min")
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// memory is a line of what the kernel says of a process, in MB. What it says in the end (ru_maxrss) is no use: that begins with what the parent
// took when it started the process.
func memory(b *testing.B, pid int, line string) (mb float64) {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), line)
	if _, err := fmt.Sscan(rest, &mb); err != nil {
		b.Fatal(err)
	}
	return mb / 1024
}

// counted counts calls.
type counted struct {
	next http.Handler
	mu   sync.Mutex
	n    map[string]int
}

func (c *counted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	c.mu.Lock()
	c.n[op]++
	c.mu.Unlock()
	c.next.ServeHTTP(w, r)
}

func (c *counted) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.n
	c.n = map[string]int{}
	return n
}

// direct calls a server without a network, so that no put is ever sent twice.
type direct struct{ server http.Handler }

func (d direct) Do(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d.server.ServeHTTP(w, r)
	return w.Result(), nil
}

// fill makes a stream with so many records in each shard.
func fill(b *testing.B, server http.Handler, stream string, records int) {
	b.Helper()
	client := sdk.NewFromConfig(aws.Config{Region: "us-east-1", HTTPClient: direct{server}, Credentials: credentials.NewStaticCredentialsProvider("x", "x", "")})
	if _, err := client.CreateStream(b.Context(), &sdk.CreateStreamInput{StreamName: &stream, ShardCount: aws.Int32(shards)}); err != nil {
		b.Fatal(err)
	}
	var list *sdk.ListShardsOutput
	for { // until it is active
		var err error
		if list, err = client.ListShards(b.Context(), &sdk.ListShardsInput{StreamName: &stream}); err != nil {
			b.Fatal(err)
		}
		if len(list.Shards) == shards {
			break
		}
	}
	for _, s := range list.Shards {
		in := &sdk.PutRecordsInput{StreamName: &stream}
		for range records {
			in.Records = append(in.Records, types.PutRecordsRequestEntry{PartitionKey: aws.String("key"), Data: make([]byte, size), ExplicitHashKey: s.HashKeyRange.StartingHashKey})
		}
		if out, err := client.PutRecords(b.Context(), in); err != nil || *out.FailedRecordCount > 0 {
			b.Fatalf("put: %v", err)
		}
	}
}
