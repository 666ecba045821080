package doctor

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/command"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/emulator/dynamodb"
	"github.com/shardwarden/shardwarden/emulator/kinesis"
	"github.com/shardwarden/shardwarden/leasestore/dynamo"
)

// TestMain gives the SDK credentials that emulators take, and nothing of the machine's own.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_REGION": "us-east-1", "AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
	} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// cloud is a Kinesis with a stream of two shards, and a DynamoDB with a lease table that a worker has just left.
type cloud struct {
	t       *testing.T
	kinesis *kinesis.Server
	dynamo  *dynamodb.Server
	store   *dynamo.Store
	flags   []string
}

func newCloud(t *testing.T) *cloud {
	t.Helper()
	k, d := kinesis.New(kinesis.Config{NoLimits: true}), dynamodb.New(dynamodb.Config{})
	kh, dh := httptest.NewServer(k), httptest.NewServer(d)
	t.Cleanup(func() {
		k.Close()
		d.Close()
		kh.Close()
		dh.Close()
	})
	cfg := aws.Config{Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("x", "x", "")}
	client := sdk.NewFromConfig(cfg, func(o *sdk.Options) { o.BaseEndpoint = &kh.URL })
	if _, err := client.CreateStream(t.Context(), &sdk.CreateStreamInput{StreamName: new("orders"), ShardCount: new(int32(2))}); err != nil {
		t.Fatal(err)
	}
	return &cloud{
		t: t, kinesis: k, dynamo: d, store: dynamo.New(cfg, "billing", dynamo.Endpoint(dh.URL)),
		flags: []string{"kinesis", "--stream", "orders", "--app", "billing", "--endpoint-url", kh.URL, "--dynamodb-endpoint-url", dh.URL, "--observe", "0"},
	}
}

func (c *cloud) leases() {
	c.t.Helper()
	if err := c.store.Prepare(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	for _, shard := range []core.ShardID{"shardId-000000000000", "shardId-000000000001"} {
		if _, err := c.store.Create(c.t.Context(), core.Lease{Key: core.LeaseKey{Shard: shard}, Checkpoint: core.FromHorizon, Ready: true}); err != nil {
			c.t.Fatal(err)
		}
	}
}

// run is the findings, by check, and the exit status.
func (c *cloud) run(more ...string) (map[string]Finding, int) {
	c.t.Helper()
	var out bytes.Buffer
	err := Run(c.t.Context(), append(append(c.flags, "--json"), more...), &out, &out)
	status := command.OK
	if exit, ok := errors.AsType[*command.ExitError](err); ok {
		status = exit.Status
	} else if err != nil {
		c.t.Fatal(err)
	}
	var r Report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		c.t.Fatalf("%v: %s", err, out.String())
	}
	found := map[string]Finding{}
	for _, f := range r.Findings {
		if was, there := found[f.Check]; !there || was.Level == OK {
			found[f.Check] = f
		}
	}
	return found, status
}

// What is asked of the services becomes the facts that the checks look at.
func TestDoctor(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		set    func(*cloud)
		args   []string
		check  string
		level  Level
		want   string
		status int
	}{
		{"all is well", (*cloud).leases, nil, "permissions", OK, "every call that a worker makes is allowed", 0},
		{"the stream", (*cloud).leases, nil, "stream", OK, "2 open shards, 0 closed", 0},
		{"the clock", (*cloud).leases, nil, "clock", OK, "agrees", 0},
		{"the shards", (*cloud).leases, nil, "shards", OK, "every part", 0},
		{"no table", func(*cloud) {}, nil, "table", Warn, "there is no lease table billing yet", 0},
		{"no stream", (*cloud).leases, []string{"--stream", "other"}, "stream", Fail, "other", 1},
		{"a write denied", func(c *cloud) {
			c.leases()
			c.dynamo.SetFault(dynamodb.Fault{Kind: dynamodb.FaultDenied, Op: "DeleteItem"})
		}, nil, "permissions", Fail, "dynamodb:DeleteItem on table billing is denied", 1},
		{"the table denied", func(c *cloud) {
			c.leases()
			c.dynamo.SetFault(dynamodb.Fault{Kind: dynamodb.FaultDenied, Op: "Scan"})
		}, nil, "table", Fail, "Scan", 1},
		{"side tables denied", func(c *cloud) {
			c.leases()
			c.dynamo.SetFault(dynamodb.Fault{Kind: dynamodb.FaultDenied, Table: "billing-CoordinatorState"})
		}, nil, "side tables", Fail, "billing-CoordinatorState: it may not be asked", 1},
		{"a row that cannot be read", func(c *cloud) {
			c.leases()
			c.put(map[string]any{"leaseKey": map[string]any{"S": "shardId-000000000000"}, "leaseCounter": map[string]any{"N": "1"}})
		}, nil, "bad rows", Fail, "row shardId-000000000000 is a lease and can't be read: checkpoint is missing", 1},
		{"a shard without lease", func(c *cloud) {
			c.leases()
			if err := c.store.Delete(c.t.Context(), core.Lease{Key: core.LeaseKey{Shard: "shardId-000000000001"}}, 0); err != nil {
				c.t.Fatal(err)
			}
		}, nil, "shards", Fail, "shardId-000000000001", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newCloud(t)
			tt.set(c)
			before := c.dynamo.Items("billing")
			found, status := c.run(tt.args...)
			if f := found[tt.check]; f.Level != tt.level || !strings.Contains(f.What, tt.want) {
				t.Errorf("%s: %+v; want %s with %q", tt.check, f, tt.level, tt.want)
			}
			if status != tt.status {
				t.Errorf("exit status %d, want %d: %+v", status, tt.status, found)
			}
			was, _ := json.Marshal(before)
			is, _ := json.Marshal(c.dynamo.Items("billing"))
			if !bytes.Equal(was, is) {
				t.Errorf("the table was changed from %s to %s", was, is)
			}
		})
	}
}

// put writes a row, whole, through the wire.
func (c *cloud) put(row map[string]any) {
	c.t.Helper()
	b, err := json.Marshal(map[string]any{"TableName": "billing", "Item": row})
	if err != nil {
		c.t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(c.t.Context(), "POST", "/", bytes.NewReader(b))
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810.PutItem")
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=x")
	w := httptest.NewRecorder()
	c.dynamo.ServeHTTP(w, r)
	if w.Code != 200 {
		c.t.Fatalf("PutItem: %s", w.Body)
	}
}

// Without --no-probes writes are tried, and with it no call is made that could write.
func TestNoProbes(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.leases()
	before := c.dynamo.Calls()
	c.run("--no-probes")
	for _, op := range []string{"PutItem", "UpdateItem", "DeleteItem", "CreateTable"} {
		if after := c.dynamo.Calls(); after[op] != before[op] {
			t.Errorf("%s was called", op)
		}
	}
}

// Of several permissions that are missing each is named, so that a policy is mended once.
func TestEachDeniedCallOfKinesisIsNamed(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.leases()
	for _, op := range []string{"DescribeStreamSummary", "DescribeStream", "GetRecords"} {
		if err := c.kinesis.SetFault(kinesis.Fault{Kind: kinesis.AccessDenied, Operation: op}); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	err := Run(t.Context(), c.flags, &out, &out)
	if exit, ok := errors.AsType[*command.ExitError](err); !ok || exit.Status != command.Failed {
		t.Errorf("%v", err)
	}
	for _, part := range []string{"kinesis:DescribeStreamSummary", "kinesis:GetRecords", "2 failures"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("lacks %q:\n%s", part, out.String())
		}
	}
}
