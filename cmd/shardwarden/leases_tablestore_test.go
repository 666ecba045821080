package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/shardwarden/shardwarden/emulator/tablestore"
)

// A status table is shown with how far each shard is behind, and a place that it cannot hold as a word is turned into an iterator.
func TestLeasesOfTablestore(t *testing.T) {
	t.Parallel()
	s := newShop(t, tablestore.Config{})
	s.orders("orders", 1)
	s.fill("orders", 5)
	p, _ := s.consume("--table", "orders", "--max", "5")
	p.rest()
	p.wantExit(0)
	s.fill("orders", 3)
	leases := func(line string) string {
		t.Helper()
		p := start(t, keys, append(strings.Fields("leases "+line), "--instance", "any", "--status-table", "leases", "--endpoint", s.url, "--stream", "orders", "--observe", "0")...)
		out := strings.Join(p.rest(), "\n")
		p.wantExit(0)
		return out
	}
	list := func() (shard, checkpoint string, lag float64) {
		t.Helper()
		var r struct {
			Leases []struct {
				Shard, Checkpoint, State string
				Lag                      *float64
			}
			LagError string
		}
		if err := json.Unmarshal([]byte(leases("list --json")), &r); err != nil || len(r.Leases) != 1 || r.Leases[0].Lag == nil || r.Leases[0].State != "free" {
			t.Fatalf("%v: %+v", err, r)
		}
		return r.Leases[0].Shard, r.Leases[0].Checkpoint, *r.Leases[0].Lag
	}
	shard, before, _ := list()
	leases("rewind " + shard + " --to latest --yes --force")
	_, after, lag := list()
	if after == before || after == "LATEST" || lag != 0 {
		t.Errorf("the checkpoint was %q and is %q, with a lag of %v", before, after, lag)
	}
	s.fill("orders", 2)
	p, _ = s.consume("--table", "orders", "--max", "2")
	if lines := p.rest(); len(lines) != 2 {
		t.Errorf("after latest come the records that arrived since: %q", lines)
	}
	p.wantExit(0)
}
