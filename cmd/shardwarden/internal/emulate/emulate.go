// Package emulate serves the emulators of Kinesis, DynamoDB and Tablestore to SDKs of any language.
package emulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/command"
	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/interrupt"
	"github.com/shardwarden/shardwarden/emulator/dynamodb"
	"github.com/shardwarden/shardwarden/emulator/kinesis"
	"github.com/shardwarden/shardwarden/emulator/tablestore"
)

const about = `shardwarden emulator kinesis|dynamodb|tablestore|all: Kinesis, DynamoDB, Tablestore or all as a local server that any SDK can use.

Everything is kept in memory and gone when the server ends (SIGINT or SIGTERM). With "all" the services answer on one address. What they do
and do not do: docs/emulators.md.`

const examples = `  shardwarden emulator all
  shardwarden emulator kinesis --addr 127.0.0.1:0                       # any free port; the first line on stdout names it
  shardwarden emulator all --latency 20ms --throttle 0.01 --seed 7     # a bad day, the same one each time

  export AWS_ENDPOINT_URL=http://127.0.0.1:4567 AWS_REGION=us-east-1 AWS_DEFAULT_REGION=us-east-1 AWS_ACCESS_KEY_ID=x AWS_SECRET_ACCESS_KEY=x
  aws kinesis create-stream --stream-name orders --shard-count 4
  shardwarden consume kinesis --stream orders --app billing

  shardwarden emulator tablestore      # for Alibaba Cloud's SDKs: any instance name, and an access key secret that equals its id
  curl -d '{"instance": "i", "table": "orders", "at": 1000}' http://127.0.0.1:4567/emulator/split      # partitions split on command`

var kinds = []string{"kinesis", "dynamodb", "tablestore", "all"}

// Run is the command.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var addr, region string
	var latency time.Duration
	var throttle float64
	var seed uint64
	f := command.NewFlags("shardwarden emulator", about, examples, stdout)
	f.StringVar(&addr, "addr", "127.0.0.1:4567", "host and port to listen on; port 0 takes a free one")
	f.StringVar(&region, "region", "us-east-1", "region in the ARNs")
	f.DurationVar(&latency, "latency", 0, "wait so long before each call is looked at")
	f.Float64Var(&throttle, "throttle", 0, "refuse this part of all calls as throttled, 0 to 1")
	f.Uint64Var(&seed, "seed", 1, "which calls are throttled is decided by this number")
	f.Positive("latency", &latency)
	f.Check(func() error {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return fmt.Errorf("--addr is %q: must be host:port, such as 127.0.0.1:4567 (%w)", addr, err)
		}
		return nil
	})
	f.Check(func() error {
		if !(throttle >= 0 && throttle <= 1) {
			return fmt.Errorf("--throttle is %v: must be between 0 and 1", throttle)
		}
		return nil
	})
	f.Check(func() error {
		if err := (kinesis.Config{Region: region}).Validate(); err != nil {
			return fmt.Errorf("--region is %q: must be a region such as us-east-1", region)
		}
		return nil
	})
	kind := ""
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		kind, args = args[0], args[1:]
	}
	if err := f.Parse(args); err != nil {
		return err
	}
	if !slices.Contains(kinds, kind) {
		if kind == "" {
			return f.Bad("which emulator? Say one of %s", strings.Join(kinds, ", "))
		}
		return f.Bad("there is no emulator %q: it is one of %s", kind, strings.Join(kinds, ", "))
	}

	ctx, stop := interrupt.Context(ctx)
	defer stop()
	listener, err := net.Listen("tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("--addr %s is in use: another program listens there. Stop it, or choose another address, such as 127.0.0.1:0 for any free port", addr)
	case err != nil:
		return fmt.Errorf("--addr %s: %w", addr, err)
	}
	handler, end := build(kind, region, seed, latency, throttle)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true) // the Java SDK subscribes to shards by HTTP/2 alone
	server := &http.Server{Handler: handler, Protocols: protocols, ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	url := "http://" + listener.Addr().String()
	fmt.Fprintf(stdout, "%s emulator ready at %s\n", kind, url)
	if kind != "tablestore" {
		fmt.Fprintf(stdout, "point an SDK at it: %s=%s AWS_REGION=%s AWS_DEFAULT_REGION=%[3]s AWS_ACCESS_KEY_ID=x AWS_SECRET_ACCESS_KEY=x\n", variable(kind), url, region)
	}
	if kind == "tablestore" || kind == "all" {
		fmt.Fprintf(stdout, "point a Tablestore SDK at it: endpoint=%s instance=any TABLESTORE_ACCESS_KEY_ID=x TABLESTORE_ACCESS_KEY_SECRET=x\n", url)
	}
	select {
	case err = <-served:
	case <-ctx.Done():
	}
	end()
	if e := server.Close(); err == nil {
		err = e
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// variable is the environment variable that SDKs take the address of the service from.
func variable(kind string) string {
	switch kind {
	case "kinesis":
		return "AWS_ENDPOINT_URL_KINESIS"
	case "dynamodb":
		return "AWS_ENDPOINT_URL_DYNAMODB"
	}
	return "AWS_ENDPOINT_URL"
}

// build makes the handler of a kind, and what ends calls that wait in it.
func build(kind, region string, seed uint64, latency time.Duration, throttle float64) (http.Handler, func()) {
	has := func(service string) bool { return kind == service || kind == "all" }
	var k *kinesis.Server
	var d *dynamodb.Server
	var t *tablestore.Server
	if has("kinesis") {
		c := kinesis.Config{Region: region, Seed: seed}
		if latency > 0 {
			c.Faults = append(c.Faults, kinesis.Fault{Kind: kinesis.Delay, Delay: latency})
		}
		if throttle > 0 {
			c.Faults = append(c.Faults, kinesis.Fault{Kind: kinesis.Throttle, Probability: throttle})
		}
		k = kinesis.New(c)
	}
	if has("dynamodb") {
		d = dynamodb.New(dynamodb.Config{Region: region, Seed: seed})
		if latency > 0 {
			d.SetFault(dynamodb.Fault{Kind: dynamodb.FaultDelay, Delay: latency})
		}
		if throttle > 0 {
			d.SetFault(dynamodb.Fault{Kind: dynamodb.FaultThrottle, Probability: throttle})
		}
	}
	if has("tablestore") {
		c := tablestore.Config{Seed: seed}
		if latency > 0 {
			c.Faults = append(c.Faults, tablestore.Fault{Kind: tablestore.Delay, Delay: latency})
		}
		if throttle > 0 {
			c.Faults = append(c.Faults, tablestore.Fault{Kind: tablestore.Fail, Code: "OTSServerBusy", Probability: throttle})
		}
		t = tablestore.New(c)
	}
	switch kind {
	case "kinesis":
		return k, k.Close
	case "dynamodb":
		return d, d.Close
	case "tablestore":
		return t, t.Close
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		// SDKs of AWS name service and call in a header: Kinesis_20131202.PutRecords, DynamoDB_20120810.GetItem.
		case strings.HasPrefix(r.Header.Get("X-Amz-Target"), "DynamoDB_"):
			d.ServeHTTP(w, r)
		// Those of Tablestore name the call in the path, and send the version of its protocol.
		case r.Header.Get("X-Ots-Apiversion") != "" || strings.HasPrefix(r.URL.Path, tablestore.AdminPath):
			t.ServeHTTP(w, r)
		default:
			k.ServeHTTP(w, r)
		}
	}), func() { k.Close(); d.Close(); t.Close() }
}
