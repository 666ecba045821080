package leases

import (
	"bytes"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/emulator/tablestore"
	"github.com/shardwarden/shardwarden/leasestore/ots"
)

// The same commands work on a status table.
func TestStatusTable(t *testing.T) {
	t.Parallel()
	server := tablestore.New(tablestore.Config{})
	h := httptest.NewServer(server)
	t.Cleanup(func() {
		server.Close()
		h.Close()
	})
	store := ots.New(ots.Instance{Endpoint: h.URL, Name: "any"}, "leases")
	if err := store.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, l := range []core.Lease{
		{Key: core.LeaseKey{Stream: "stream-1", Shard: "p"}, Owner: "java", Counter: 3, Checkpoint: core.Position{Token: "iterator"}},
		{Key: core.LeaseKey{Stream: "stream-1", Shard: "c"}, Checkpoint: core.FromHorizon, Parents: []core.ShardID{"p"}},
	} {
		if _, err := store.Create(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	run := func(line string) (string, error) {
		var out bytes.Buffer
		err := Run(t.Context(), append(strings.Fields(line), "--instance", "any", "--status-table", "leases", "--endpoint", h.URL), strings.NewReader(""), &out, &out)
		return out.String(), err
	}
	must := func(line string) string {
		t.Helper()
		out, err := run(line)
		if err != nil {
			t.Fatalf("leases %s: %v\n%s", line, err, out)
		}
		return out
	}
	writes := func() (n int64) {
		for op, count := range server.Calls() {
			if op != "GetRange" && op != "GetRow" && op != "DescribeTable" {
				n += count
			}
		}
		return n
	}
	wrote := writes()
	wantParts(t, must("list --observe 0"), "table leases (tablestore): 2 leases, 1 held, 1 free", "stream stream-1", "java (java)", "free, waits for p")
	wantParts(t, must("describe stream-1/p --observe 0"), "iterator")
	wantParts(t, must("export"), `"StatusValue":{"STRING":"p"}`, `"LeaseCounter":{"INTEGER":"3"}`)
	if now := writes(); now != wrote {
		t.Errorf("commands that read made %d calls that write: %v", now-wrote, server.Calls())
	}
	if _, err := run("rewind p --to latest --observe 0 --yes --force"); err == nil || !strings.Contains(err.Error(), "say --stream") {
		t.Errorf("a status table holds no instants: %v", err)
	}
	must("release p --observe 0 --yes")
	must("rewind p --to another:2 --observe 0 --yes")
	got, err := store.Get(t.Context(), core.LeaseKey{Stream: "stream-1", Shard: "p"})
	if err != nil || got.Owner != core.Nobody || got.Checkpoint.Token != "another" || got.Checkpoint.Sub != 2 {
		t.Errorf("the lease is %+v, %v", got, err)
	}
}
