package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// A fleet that is well is found well, and its lease duration is told from its renewals; with another one at hand the difference is found.
func TestDoctorOfARunningFleet(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.stream("orders", 2)
	c.fill("orders", 4)
	p, e := c.consume("--stream", "orders", "--app", "billing", "--lease-duration", "2s", "--worker-id", "go-1")
	for range 4 {
		p.line()
	}
	e.await(t, `"event":"checkpoint"`)
	for _, tt := range []struct {
		name, args, check, level, what string
		status                         int
	}{
		{"well", "--lease-duration 2s", "lease duration", "ok", "the renewals of go-1 go with a lease duration of 2s", 0},
		{"another duration", "--lease-duration 10s", "lease duration", "warn", "of about 2s; --lease-duration is 10s", 0},
		{"an id in use", "--lease-duration 2s --worker-id go-1", "worker id", "fail", "in use by a worker that lives", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := start(t, nil, append(strings.Fields("doctor kinesis --stream orders --app billing --json --observe 8s --region us-east-1 --endpoint-url "+c.kurl+" --dynamodb-endpoint-url "+c.durl), strings.Fields(tt.args)...)...)
			out := strings.Join(d.rest(), "\n")
			d.wantExit(tt.status)
			var r struct {
				Findings           []struct{ Check, Level, What string }
				Warnings, Failures int
			}
			if err := json.Unmarshal([]byte(out), &r); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			found := false
			for _, f := range r.Findings {
				switch {
				case f.Check == tt.check:
					found = true
					if f.Level != tt.level || !strings.Contains(f.What, tt.what) {
						t.Errorf("%+v; want %s with %q", f, tt.level, tt.what)
					}
				case f.Level != "ok":
					t.Errorf("found beside it: %+v", f)
				}
			}
			if !found {
				t.Errorf("%s found nothing: %s", tt.check, out)
			}
		})
	}
}

// The lag is that of the oldest record that is not done.
func TestLeasesListLag(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.stream("orders", 1)
	c.fill("orders", 2)
	p, _ := c.consume("--stream", "orders", "--app", "billing", "--max", "2")
	p.rest()
	p.wantExit(0)
	list := func() (lag *float64) {
		t.Helper()
		l := start(t, nil, strings.Fields("leases list --app billing --observe 0 --lag --json --region us-east-1 --endpoint-url "+c.kurl+" --dynamodb-endpoint-url "+c.durl)...)
		out := strings.Join(l.rest(), "\n")
		l.wantExit(0)
		var r struct {
			Leases   []struct{ Lag *float64 }
			LagError string
		}
		if err := json.Unmarshal([]byte(out), &r); err != nil || len(r.Leases) != 1 || r.LagError != "" {
			t.Fatalf("%v: %s", err, out)
		}
		return r.Leases[0].Lag
	}
	if lag := list(); lag == nil || *lag != 0 {
		t.Errorf("all is read, and the lag is %v", lag)
	}
	c.fill("orders", 1)
	if lag := list(); lag == nil || *lag > 60 {
		t.Errorf("a record waits for a moment, and the lag is %v", lag)
	}
}
