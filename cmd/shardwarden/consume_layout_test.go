package main

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
)

// call makes a call of DynamoDB without an SDK.
func (c *cloud) call(op, body string) {
	c.t.Helper()
	r := httptest.NewRequestWithContext(c.t.Context(), "POST", "/", strings.NewReader(body))
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810."+op)
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=x")
	w := httptest.NewRecorder()
	c.dynamo.ServeHTTP(w, r)
	if w.Code != 200 {
		c.t.Fatalf("%s: %s", op, w.Body)
	}
}

// javaTable is a lease table of two shards, as Java workers that are gone left it.
func (c *cloud) javaTable(name string, more ...string) {
	c.t.Helper()
	c.call("CreateTable", `{"TableName":"`+name+`","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"leaseKey","AttributeType":"S"}],"KeySchema":[{"AttributeName":"leaseKey","KeyType":"HASH"}]}`)
	rows := more
	for _, shard := range []string{"shardId-000000000000", "shardId-000000000001"} {
		rows = append(rows, `"leaseKey":{"S":"`+shard+`"},"leaseOwner":{"S":"java-1"},"leaseCounter":{"N":"5"},"checkpoint":{"S":"TRIM_HORIZON"},"checkpointSubSequenceNumber":{"N":"0"},"ownerSwitchesSinceCheckpoint":{"N":"0"}`)
	}
	for _, row := range rows {
		c.call("PutItem", `{"TableName":"`+name+`","Item":{`+row+`}}`)
	}
}

func (c *cloud) row(table, key string) map[string]any {
	for _, row := range c.dynamo.Items(table) {
		if k, ok := row["leaseKey"].(map[string]any); ok && k["S"] == key {
			return row
		}
	}
	return nil
}

// In a table of the KCL 2.x nothing is ever written but leases, which its workers would fail on.
func TestConsumeInTableOfKCL2(t *testing.T) {
	t.Parallel()
	for _, layout := range []string{"kcl2", "auto"} {
		t.Run(layout, func(t *testing.T) {
			t.Parallel()
			c := newCloud(t)
			c.stream("orders", 2)
			c.fill("orders", 40)
			c.javaTable("billing")
			p, e := c.consume("--stream", "orders", "--app", "billing", "--layout", layout, "--lease-duration", "1s")
			for range 40 {
				p.line()
			}
			e.await(t, "lease taken")
			for _, row := range c.dynamo.Items("billing") {
				if row["checkpoint"] == nil || row["entityType"] != nil {
					t.Errorf("there is a row that KCL 2.x would fail on: %v", row)
				}
			}
			if counts := c.dynamo.Calls(); counts["CreateTable"] != 1 {
				t.Errorf("tables were made: %v", counts)
			}
		})
	}
}

// A table that is not called like the application is the one that is used, and no other is made.
func TestConsumeTableOfAnotherName(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.stream("orders", 2)
	c.fill("orders", 40)
	c.javaTable("billing-leases")
	p, e := c.consume("--stream", "orders", "--app", "billing", "--table", "billing-leases", "--layout", "auto", "--lease-duration", "1s")
	for range 40 {
		p.line()
	}
	e.await(t, "lease taken")
	if counts := c.dynamo.Calls(); counts["CreateTable"] != 1 {
		t.Errorf("tables were made: %v", counts)
	}
}

// In a table of the KCL 3.x a worker waits until the lock of the leader that is gone has run out, leads then, and so gets its leases; one that must
// not lead gets none.
func TestConsumeInTableOfKCL3(t *testing.T) {
	t.Parallel()
	leader := `"leaseKey":{"S":"Leader"},"entityType":{"S":"LEADER"},"ownerName":{"S":"java-1"},"leaseDuration":{"S":"1000"},"recordVersionNumber":{"S":"v"}`
	version := `"leaseKey":{"S":"Migration3.0"},"entityType":{"S":"CLIENT_VERSION_MIGRATION"},"cv":{"S":"CLIENT_VERSION_3X"},"mb":{"S":"java-1"},"mts":{"N":"1796039494833"}`
	t.Run("leading", func(t *testing.T) {
		t.Parallel()
		c := newCloud(t)
		c.stream("orders", 2)
		c.fill("orders", 40)
		c.javaTable("billing", leader, version)
		p, _ := c.consume("--stream", "orders", "--app", "billing", "--layout", "auto", "--lease-duration", "1s", "--worker-id", "go-1", "--max", "40")
		c.wantAll(parse(t, p.rest()), 1)
		p.wantExit(0)
		if l := c.row("billing", "Leader"); l != nil && l["ownerName"].(map[string]any)["S"] != "java-1" {
			t.Errorf("a worker that stops keeps the lock: %v", l)
		}
	})
	t.Run("never leading", func(t *testing.T) {
		t.Parallel()
		c := newCloud(t)
		c.stream("orders", 2)
		c.fill("orders", 40)
		c.javaTable("billing", leader, version)
		before, _ := json.Marshal(c.row("billing", "Leader"))
		p, _ := c.consume("--stream", "orders", "--app", "billing", "--layout", "auto", "--never-lead", "--lease-duration", "1s", "--idle-exit", "4s")
		if lines := p.rest(); len(lines) > 0 {
			t.Errorf("it read what nobody gave it: %v", lines)
		}
		p.wantExit(0)
		if after, _ := json.Marshal(c.row("billing", "Leader")); string(before) != string(after) {
			t.Errorf("the lock was %s and is %s", before, after)
		}
	})
}
