package consume

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
)

func TestEventFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "events")
	if err := os.WriteFile(name, []byte("{\"from\":\"an earlier run\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := openEvents(name)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2024, 5, 6, 7, 8, 9, 1e6, time.UTC)
	key := core.LeaseKey{Stream: "1:orders:2", Shard: "shardId-0"}
	e.OnEvent(worker.Event{Time: at, Kind: worker.WorkerStarted, Worker: "w"})
	e.OnEvent(worker.Event{Time: at, Kind: worker.LeaseTaken, Worker: "w", Key: key, Other: "v", Counter: 7})
	e.OnEvent(worker.Event{Time: at, Kind: worker.Checkpoint, Worker: "w", Key: key, Position: core.Position{Token: "17", Sub: 3}})
	e.OnEvent(worker.Event{Time: at, Kind: worker.HandlerError, Worker: "w", Key: key, Failures: 2, Err: errors.New("disk <full>")})
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e.OnEvent(worker.Event{Time: at, Kind: worker.LeaseLost}) // late ones are not kept, and harm nothing
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`{"from":"an earlier run"}`,
		`{"time":"2024-05-06T07:08:09.001Z","worker":"w","event":"worker started"}`,
		`{"time":"2024-05-06T07:08:09.001Z","worker":"w","event":"lease taken","stream":"1:orders:2","shard":"shardId-0","other":"v","counter":7}`,
		`{"time":"2024-05-06T07:08:09.001Z","worker":"w","event":"checkpoint","stream":"1:orders:2","shard":"shardId-0","position":"17","sub":3}`,
		`{"time":"2024-05-06T07:08:09.001Z","worker":"w","event":"error","of":"handler","stream":"1:orders:2","shard":"shardId-0","failures":2,"error":"disk <full>"}`,
	}
	if s := strings.Split(strings.TrimSpace(string(got)), "\n"); strings.Join(s, "\n") != strings.Join(want, "\n") {
		t.Errorf("\n got %s\nwant %s", strings.Join(s, "\n     "), strings.Join(want, "\n     "))
	}
}

// A queue that is full drops, counts what it drops, and says so.
func TestEventFileDrops(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "events")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	e := &eventFile{file: f, wake: make(chan struct{}, 1), done: make(chan struct{})} // nobody writes yet
	for range maxQueued + 5 {
		e.OnEvent(worker.Event{Kind: worker.Checkpoint, Worker: "w"})
	}
	go e.write()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	var last eventLine
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Event != "events dropped" || !strings.HasPrefix(last.Text, "5 events") {
		t.Errorf("last line %q (%v), want 5 events dropped", lines[len(lines)-1], err)
	}
	if len(lines) != maxQueued+1 {
		t.Errorf("%d lines, want %d", len(lines), maxQueued+1)
	}
}
