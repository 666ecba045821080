package main

import (
	"strings"
	"testing"
)

// A table of one stream becomes one of several, and the next worker goes on where the last one stopped.
func TestLeasesMigrate(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.stream("orders", 2)
	c.stream("payments", 1)
	c.fill("orders", 40)
	p, _ := c.consume("--stream", "orders", "--app", "billing", "--max", "25")
	all := parse(t, p.rest())
	p.wantExit(0)
	migrate := func(more ...string) (stdout string) {
		t.Helper()
		p := start(t, nil, append([]string{"leases", "migrate", "--to", "multi-stream", "--app", "billing", "--stream", "orders", "--region", "us-east-1",
			"--endpoint-url", c.kurl, "--dynamodb-endpoint-url", c.durl, "--watch", "100ms"}, more...)...)
		stdout = strings.Join(p.rest(), "\n")
		p.wantExit(0)
		return stdout
	}
	for _, part := range []string{"looking for 100ms whether anybody uses table billing\n", "shardId-000000000000 at ", "becomes 000000000000:orders:", "2 leases; nothing was changed", "--yes"} {
		if out := migrate(); !strings.Contains(out, part) {
			t.Errorf("stdout lacks %q: %s", part, out)
		}
	}
	p, _ = c.consume("--stream", "orders", "--app", "billing", "--max", "5") // still of the one kind
	all = append(all, parse(t, p.rest())...)
	p.wantExit(0)
	if out := migrate("--yes"); !strings.Contains(out, "2 leases; done") {
		t.Errorf("stdout: %s", out)
	}
	if out := migrate("--yes"); !strings.Contains(out, "nothing to do") {
		t.Errorf("stdout: %s", out)
	}
	c.fill("payments", 10)
	p, _ = c.consume("--stream", "orders", "--stream", "payments", "--app", "billing", "--max", "20")
	c.wantAll(append(all, parse(t, p.rest())...), 1)
	p.wantExit(0)
}

// Nothing is made of what is not there.
func TestLeasesMigrateBadInput(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, app, stream string
		want              []string
	}{
		{"no table", "nobody", "orders", []string{"nobody", "not found"}},
		{"no stream", "billing", "nope", []string{"nope", "not found"}},
		{"another stream", "billing", "payments", []string{"billing", ":orders:", ":payments:"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newCloud(t)
			c.stream("orders", 1)
			c.stream("payments", 1)
			c.fill("orders", 1)
			p, _ := c.consume("--stream", "orders", "--app", "billing", "--max", "1")
			p.rest()
			p.wantExit(0)
			p = start(t, nil, "leases", "migrate", "--to", "multi-stream", "--app", tt.app, "--stream", tt.stream, "--region", "us-east-1",
				"--endpoint-url", c.kurl, "--dynamodb-endpoint-url", c.durl, "--watch", "100ms", "--yes")
			p.rest()
			p.wantExit(1)
			for _, part := range tt.want {
				if text := p.errors.String(); !strings.Contains(text, part) {
					t.Errorf("stderr lacks %q: %s", part, text)
				}
			}
			for _, row := range c.dynamo.Items("billing") {
				if _, several := row["streamName"]; several {
					t.Errorf("row %v was changed", row)
				}
			}
		})
	}
}
