package kinesis

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	emulator "github.com/shardwarden/shardwarden/emulator/kinesis"
)

// benchStream is what a server of its own process holds, so that the CPU of clients is measured alone.
type benchStream struct {
	Shards, Records, Bytes int // records a shard, bytes a record
	TLS                    bool
	EventRecords           int // records in an event of a subscription, over HTTP/2 where there is TLS
}

const benchServerVar = "SHARDWARDEN_BENCH_SERVER"

// serveBench runs in the child: it serves until its standard input ends.
func serveBench(spec string) {
	var s benchStream
	if err := json.Unmarshal([]byte(spec), &s); err != nil {
		panic(err)
	}
	k := emulator.New(emulator.Config{NoLimits: true, EventRecords: s.EventRecords, ConsumerLimit: 1 << 20})
	fillBench(k, s)
	server := httptest.NewUnstartedServer(k)
	if s.TLS {
		server.EnableHTTP2 = s.EventRecords > 0
		server.StartTLS()
	} else {
		server.Start()
	}
	fmt.Println(server.URL)
	_, _ = io.Copy(io.Discard, os.Stdin)
	server.Close()
	k.Close()
}

func fillBench(k *emulator.Server, s benchStream) {
	direct := doer(func(r *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		k.ServeHTTP(w, r)
		return w.Result(), nil
	})
	client := sdk.NewFromConfig(testConfig(), func(o *sdk.Options) { o.HTTPClient = direct })
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	ctx, shards := context.Background(), int32(s.Shards)
	_, err := client.CreateStream(ctx, &sdk.CreateStreamInput{StreamName: aws.String("bench"), ShardCount: &shards})
	must(err)
	list, err := client.ListShards(ctx, &sdk.ListShardsInput{StreamName: aws.String("bench")})
	must(err)
	data := make([]byte, s.Bytes)
	for _, shard := range list.Shards {
		for n := 0; n < s.Records; {
			in := &sdk.PutRecordsInput{StreamName: aws.String("bench")}
			for range min(500, s.Records-n) {
				fillRandom(data, n)
				in.Records = append(in.Records, types.PutRecordsRequestEntry{PartitionKey: aws.String(fmt.Sprintf("key-%d", n%1000)), Data: append([]byte{}, data...), ExplicitHashKey: shard.HashKeyRange.StartingHashKey})
				n++
			}
			out, err := client.PutRecords(ctx, in)
			must(err)
			if *out.FailedRecordCount > 0 {
				panic("records refused")
			}
		}
	}
}

// startBench starts a server and gives its address.
func startBench(b *testing.B, s benchStream) string {
	b.Helper()
	spec, err := json.Marshal(s)
	if err != nil {
		b.Fatal(err)
	}
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), benchServerVar+"="+string(spec))
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		_ = c.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// benchConfig is a config as LoadDefaultConfig makes it, which takes the server's certificate.
func benchConfig() aws.Config {
	cfg := testConfig()
	cfg.HTTPClient = awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // a certificate of httptest
	})
	return cfg
}

// cpu is what this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
