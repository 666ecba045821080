package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardwarden/shardwarden/emulator/dynamodb"
	"github.com/shardwarden/shardwarden/emulator/kinesis"
)

// BenchmarkConsumer lets the consumer, in a process of its own, catch up with 8 shards of 200 B records on our emulators: records per CPU second
// and peak memory of that process alone. It needs no peer, so it is for comparing a change with what was before; the figures beside those of
// peers come from bench/harness.
func BenchmarkConsumer(b *testing.B) {
	const shards, records = 8, 200_000
	program := filepath.Join(b.TempDir(), "consumer")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		b.Fatalf("build: %v\n%s", err, out)
	}
	k := kinesis.New(kinesis.Config{NoLimits: true})
	d := dynamodb.New(dynamodb.Config{})
	ks, ds := httptest.NewServer(k), httptest.NewServer(d)
	defer func() {
		k.Close()
		d.Close()
		ks.Close()
		ds.Close()
	}()
	fill(b, k, shards, records)

	var cpu time.Duration
	var peak int64
	run := 0
	for b.Loop() {
		run++
		c := exec.Command(program, "--streams", "bench", "--app", fmt.Sprintf("bench-%d", run), "--worker", "w", "--kinesis", ks.URL, "--dynamo", ds.URL,
			"--expect", fmt.Sprint(records), "--checkpoint-ms", "5000")
		c.Stderr = os.Stderr
		out, err := c.StdoutPipe()
		if err != nil {
			b.Fatal(err)
		}
		if err := c.Start(); err != nil {
			b.Fatal(err)
		}
		said := map[string]int64{}
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var l struct {
				Event   string
				Records int64
				PeakKB  int64
			}
			if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
				b.Fatalf("line %q: %v", lines.Text(), err)
			}
			said[l.Event] = l.Records
			peak = max(peak, l.PeakKB)
		}
		if err := c.Wait(); err != nil {
			b.Fatal(err)
		}
		if said["summary"] != records || said["first-record"] == 0 {
			b.Fatalf("it read %d of %d records; it said %v", said["summary"], records, said)
		}
		cpu += c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	}
	b.ReportMetric(float64(records*run)/cpu.Seconds(), "records/cpu-s")
	b.ReportMetric(float64(peak)/1024, "MB-peak")
}

// direct calls a server without a network, so that no put is ever sent twice.
type direct struct{ server http.Handler }

func (d direct) Do(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d.server.ServeHTTP(w, r)
	return w.Result(), nil
}

func fill(b *testing.B, server http.Handler, shards int32, records int) {
	b.Helper()
	client := sdk.NewFromConfig(aws.Config{Region: "us-east-1", HTTPClient: direct{server}, Credentials: credentials.NewStaticCredentialsProvider("x", "x", "")})
	if _, err := client.CreateStream(b.Context(), &sdk.CreateStreamInput{StreamName: aws.String("bench"), ShardCount: &shards}); err != nil {
		b.Fatal(err)
	}
	for n := 0; n < records; {
		in := &sdk.PutRecordsInput{StreamName: aws.String("bench")}
		for range min(500, records-n) {
			in.Records = append(in.Records, types.PutRecordsRequestEntry{PartitionKey: aws.String(fmt.Sprintf("key-%d", n%1000)), Data: make([]byte, 200)})
			n++
		}
		if out, err := client.PutRecords(b.Context(), in); err != nil || *out.FailedRecordCount > 0 {
			b.Fatalf("put: %v", err)
		}
	}
}
