package consume

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/shardwarden/shardwarden/core/worker"
)

// eventFile writes the engine's events to a file, one JSON object a line. The engine's goroutines only put them into a queue. A slow disk
// makes the queue longer, up to a bound, and what then does not fit is counted and said in the file.
type eventFile struct {
	file *os.File
	wake chan struct{} // holds one
	done chan struct{}
	err  error // to be read after done

	mu      sync.Mutex
	queue   []worker.Event
	dropped int
	closed  bool
}

const maxQueued = 100_000

// openEvents appends to the file, which it makes if need be.
func openEvents(name string) (*eventFile, error) {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	e := &eventFile{file: f, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go e.write()
	return e, nil
}

// OnEvent queues an event.
func (e *eventFile) OnEvent(v worker.Event) {
	e.mu.Lock()
	switch {
	case e.closed:
	case len(e.queue) < maxQueued:
		e.queue = append(e.queue, v)
	default:
		e.dropped++
	}
	e.mu.Unlock()
	e.nudge()
}

func (e *eventFile) nudge() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Close writes what is queued and says whether everything could be written.
func (e *eventFile) Close() error {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.nudge()
	<-e.done
	return errors.Join(e.err, e.file.Close())
}

func (e *eventFile) write() {
	defer close(e.done)
	out := bufio.NewWriter(e.file)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for range e.wake {
		e.mu.Lock()
		queue, dropped, closed := e.queue, e.dropped, e.closed
		e.queue, e.dropped = nil, 0
		e.mu.Unlock()
		for _, v := range queue {
			e.note(encoder.Encode(line(v)))
		}
		if dropped > 0 {
			e.note(encoder.Encode(eventLine{Time: time.Now().UTC(), Event: "events dropped", Text: fmt.Sprintf("%d events came faster than they could be written", dropped)}))
		}
		e.note(out.Flush())
		if closed {
			return
		}
	}
}

// note keeps the first error.
func (e *eventFile) note(err error) {
	if e.err == nil {
		e.err = err
	}
}

// eventLine is an event as the file has it. Keys that say nothing are left out.
type eventLine struct {
	Time     time.Time `json:"time"`
	Worker   string    `json:"worker"`
	Event    string    `json:"event"`
	Of       string    `json:"of,omitempty"` // of an error: which kind
	Stream   string    `json:"stream,omitempty"`
	Shard    string    `json:"shard,omitempty"`
	Other    string    `json:"other,omitempty"`
	Position string    `json:"position,omitempty"`
	Sub      uint64    `json:"sub,omitempty"`
	Counter  int64     `json:"counter,omitempty"`
	Failures int       `json:"failures,omitempty"`
	Records  int       `json:"records,omitempty"`
	Text     string    `json:"text,omitempty"`
	Error    string    `json:"error,omitempty"`
}

// errorKinds are the events that are called "error", with what failed beside it.
var errorKinds = map[worker.Kind]string{worker.HandlerError: "handler", worker.ReadError: "read", worker.StoreError: "store"}

func line(v worker.Event) eventLine {
	l := eventLine{
		Time: v.Time.UTC(), Worker: string(v.Worker), Event: string(v.Kind), Stream: string(v.Key.Stream), Shard: string(v.Key.Shard),
		Other: string(v.Other), Position: v.Position.String(), Sub: v.Position.Sub, Counter: v.Counter, Failures: v.Failures, Records: v.Records, Text: v.Text,
	}
	if of, ok := errorKinds[v.Kind]; ok {
		l.Event, l.Of = "error", of
	}
	if v.Err != nil {
		l.Error = v.Err.Error()
	}
	return l
}
