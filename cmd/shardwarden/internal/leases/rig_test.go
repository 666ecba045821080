package leases

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardwarden/shardwarden/emulator/dynamodb"
)

// TestMain gives the SDK credentials that emulators take, and nothing of the machine's own.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_REGION": "us-east-1", "AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
		"TABLESTORE_ACCESS_KEY_ID": "x", "TABLESTORE_ACCESS_KEY_SECRET": "x",
	} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// cloud is a DynamoDB for one test.
type cloud struct {
	t      *testing.T
	server *dynamodb.Server
	url    string
}

func newCloud(t *testing.T) *cloud {
	t.Helper()
	c := &cloud{t: t, server: dynamodb.New(dynamodb.Config{})}
	h := httptest.NewServer(c.server)
	c.url = h.URL
	t.Cleanup(func() {
		c.server.Close()
		h.Close()
	})
	return c
}

// call makes a call of the service without an SDK.
func (c *cloud) call(op string, body any) {
	c.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		c.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.url, bytes.NewReader(b))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810."+op)
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=x")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		var text bytes.Buffer
		_, _ = text.ReadFrom(resp.Body)
		c.t.Fatalf("%s: %d %s", op, resp.StatusCode, text.String())
	}
}

// table makes a lease table.
func (c *cloud) table(name, key string) {
	c.t.Helper()
	c.call("CreateTable", map[string]any{
		"TableName": name, "BillingMode": "PAY_PER_REQUEST",
		"AttributeDefinitions": []any{map[string]any{"AttributeName": key, "AttributeType": "S"}},
		"KeySchema":            []any{map[string]any{"AttributeName": key, "KeyType": "HASH"}},
	})
}

// put writes a row, whole.
func (c *cloud) put(table string, row any) {
	c.t.Helper()
	c.call("PutItem", map[string]any{"TableName": table, "Item": row})
}

// load makes a table as a Java KCL left it.
func (c *cloud) load(table, file string) {
	c.t.Helper()
	b, err := os.ReadFile(filepath.Join("../../../../testdata/kcl-tables", file))
	if err != nil {
		c.t.Fatal(err)
	}
	var dump struct {
		KeySchema []struct{ AttributeName string }
		Items     []json.RawMessage
	}
	if err := json.Unmarshal(b, &dump); err != nil || len(dump.Items) == 0 {
		c.t.Fatalf("%s: %d rows, %v", file, len(dump.Items), err)
	}
	c.table(table, dump.KeySchema[0].AttributeName)
	for _, row := range dump.Items {
		c.put(table, row)
	}
}

// lease is a row of a Java KCL 2.x.
func lease(shard, owner string, counter int, checkpoint string, more ...map[string]any) map[string]any {
	row := map[string]any{
		"leaseKey": s(shard), "leaseCounter": n(counter), "checkpoint": s(checkpoint), "checkpointSubSequenceNumber": n(0), "ownerSwitchesSinceCheckpoint": n(0),
	}
	if owner != "" {
		row["leaseOwner"] = s(owner)
	}
	for _, m := range more {
		maps.Copy(row, m)
	}
	return row
}

func s(text string) map[string]any { return map[string]any{"S": text} }
func n(i int) map[string]any       { return map[string]any{"N": fmt.Sprint(i)} }
func parents(ids ...string) map[string]any {
	return map[string]any{"parentShardId": map[string]any{"SS": ids}}
}
func children(ids ...string) map[string]any {
	return map[string]any{"childShardIds": map[string]any{"SS": ids}}
}

// typed is what rows of 3.5 and later, and ours, have.
var typed = map[string]any{"entityType": s("LEASE")}

func ours(owner string) map[string]any { return map[string]any{"sw_run": s(owner + ":1")} }
func (c *cloud) row(table, key string) map[string]any {
	c.t.Helper()
	for _, row := range c.server.Items(table) {
		if row["leaseKey"].(map[string]any)["S"] == key {
			return row
		}
	}
	c.t.Fatalf("table %s has no row %s", table, key)
	return nil
}

// run runs a command line, split at spaces, without a terminal.
func (c *cloud) run(line string) (stdout string, err error) {
	c.t.Helper()
	var out, errs bytes.Buffer
	args := append(strings.Fields(line), "--dynamodb-endpoint-url", c.url)
	err = Run(c.t.Context(), args, strings.NewReader(""), &out, &errs)
	return out.String(), err
}

// must is run without an error.
func (c *cloud) must(line string) string {
	c.t.Helper()
	out, err := c.run(line)
	if err != nil {
		c.t.Fatalf("leases %s: %v\n%s", line, err, out)
	}
	return out
}

// wantParts checks that a text has some parts.
func wantParts(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("lacks %q:\n%s", part, text)
		}
	}
}

// wrote counts the calls that can change something.
func (c *cloud) wrote() map[string]int64 {
	out := map[string]int64{}
	for op, count := range c.server.Calls() {
		switch op {
		case "Scan", "GetItem", "DescribeTable", "Query", "BatchGetItem", "ListTables":
		default:
			out[op] = count
		}
	}
	return out
}
