package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
)

// The shards of two streams have leases in one table, and progress of their own. A stream that was deleted and made again begins anew.
func TestConsumeSeveralStreams(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.stream("orders", 2)
	c.stream("payments", 3)
	c.fill("orders", 50)
	args := []string{"--stream", "orders", "--stream", "payments", "--app", "ledger", "--lease-duration", "2s"}
	p, e := c.consume(append(slices.Clone(args), "--max", "50")...)
	got := parse(t, p.rest())
	p.wantExit(0)
	c.wantAll(got, 1)
	if n := count(e.all(), "lease taken"); n != 5 {
		t.Errorf("%d leases taken, want those of both streams, 5", n)
	}
	for _, row := range c.dynamo.Items("ledger") {
		if key := fmt.Sprint(row["leaseKey"]); !strings.Contains(key, ":orders:") && !strings.Contains(key, ":payments:") {
			t.Errorf("row %v is of neither stream", key)
		}
	}
	c.wantFree("ledger")

	c.fill("payments", 30)
	p, _ = c.consume(append(slices.Clone(args), "--max", "30")...)
	for _, l := range parse(t, p.rest()) {
		if l.Stream != "payments" {
			t.Errorf("a record of %s, which has been read", l.Stream)
		}
	}
	p.wantExit(0)

	// It is made again while nobody runs: what it had of progress counts for nothing.
	name := "orders"
	if _, err := c.client.DeleteStream(t.Context(), &sdk.DeleteStreamInput{StreamName: &name}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1100 * time.Millisecond) // ids differ by the second
	c.stream("orders", 2)
	c.fill("orders", 20)
	p, _ = c.consume(append(slices.Clone(args), "--max", "20")...)
	if n := len(p.rest()); n != 20 {
		t.Errorf("%d records of the stream that was made again, want 20", n)
	}
	p.wantExit(0)
}

func TestConsumeSeveralStreamsBadInput(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		first  []string // fills the table
		args   []string
		status int
		want   []string
	}{
		{"twice", nil, []string{"--stream", "orders", "--stream", "orders"}, 2, []string{"--stream orders is given twice"}},
		{"a list", nil, []string{"--stream", "orders,payments"}, 2, []string{"one stream", "again"}},
		{"none", nil, nil, 2, []string{"--stream is missing"}},
		{"neither is there", nil, []string{"--stream", "nope", "--stream", "nada"}, 1, []string{"nope", "nada", "not found"}},
		{"wrong epoch", nil, []string{"--stream", "000000000000:orders:1600000000"}, 1, []string{"1600000000", "deleted and made again"}},
		{"one stream's table", []string{"--stream", "orders"}, []string{"--stream", "orders", "--stream", "payments"}, 1, []string{"billing", "single stream"}},
		{"several streams' table", []string{"--stream", "orders", "--several-streams"}, []string{"--stream", "orders"}, 1, []string{"billing", "several streams"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newCloud(t)
			c.stream("orders", 1)
			c.stream("payments", 1)
			c.fill("orders", 1)
			args := []string{"consume", "kinesis", "--endpoint-url", c.kurl, "--dynamodb-endpoint-url", c.durl, "--app", "billing", "--region", "us-east-1"}
			if tt.first != nil {
				p := start(t, nil, append(append(slices.Clone(args), "--max", "1"), tt.first...)...)
				p.rest()
				p.wantExit(0)
			}
			p := start(t, nil, append(slices.Clone(args), tt.args...)...)
			if out := p.rest(); len(out) > 0 {
				t.Errorf("stdout: %q", out)
			}
			p.wantExit(tt.status)
			for _, part := range tt.want {
				if text := p.errors.String(); !strings.Contains(text, part) {
					t.Errorf("stderr lacks %q: %s", part, text)
				}
			}
		})
	}
}

// That one of two streams is not there yet stops nothing, and is told.
func TestConsumeOneOfTwoIsMissing(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.stream("orders", 1)
	c.fill("orders", 5)
	p, _ := c.consume("--stream", "orders", "--stream", "later", "--app", "ledger", "--max", "5")
	if n := len(p.rest()); n != 5 {
		t.Errorf("%d records, want 5", n)
	}
	p.wantExit(0)
	if text := p.errors.String(); !strings.Contains(text, "later") || !strings.Contains(text, "not found") {
		t.Errorf("stderr does not say that a stream is missing: %s", text)
	}
}

// Two workers share three streams; one is killed, and the other goes on with all of it.
func TestConsumeSeveralStreamsKill9(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	args := []string{"--app", "ledger", "--lease-duration", "2s", "--checkpoint-interval", "500ms"}
	for _, name := range []string{"orders", "payments", "returns"} {
		c.stream(name, 2)
		args = append(args, "--stream", name)
	}
	first, _ := c.consume(args...)
	c.fill("orders", 50)
	var got []string
	for range 50 {
		got = append(got, first.line())
	}
	second, e := c.consume(append(slices.Clone(args), "--idle-exit", "8s")...)
	e.await(t, `"lease accepted"`) // it has begun to get its share
	for _, name := range []string{"orders", "payments", "returns"} {
		c.fill(name, 100)
	}
	for range 30 {
		got = append(got, first.line())
	}
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	got = append(got, first.rest()...)
	got = append(got, second.rest()...)
	second.wantExit(0)
	whole := got[:0]
	for _, l := range got {
		if strings.HasSuffix(l, "}") { // the kill may have cut a line
			whole = append(whole, l)
		}
	}
	c.wantAll(parse(t, whole), 3)
}
