package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// consumer is one `shardwarden consume kinesis` process.
type consumer struct {
	worker string
	cmd    *exec.Cmd
	done   chan struct{} // closed when the process has ended and its output was read to the end
	exit   error
	killed atomic.Bool // by us
	asked  atomic.Bool // by us to stop
	java   bool        // a JVM ends with 143 where it was asked by SIGTERM
	events string
}

// consume starts a worker; what it prints goes to the journal.
func (r *runner) consume(ctx context.Context, j *journal, kinesisURL, dynamoURL, stream, app, worker string, flags ...string) (*consumer, error) {
	bin, err := r.program(ctx)
	if err != nil {
		return nil, err
	}
	c := &consumer{worker: worker, events: filepath.Join(r.out, worker+".events.jsonl")}
	args := append([]string{"consume", "kinesis", "--stream", stream, "--app", app, "--worker-id", worker, "--from", "trim-horizon",
		"--region", region, "--endpoint-url", kinesisURL, "--dynamodb-endpoint-url", dynamoURL, "--events", c.events}, flags...)
	c.cmd = exec.Command(bin, args...)
	c.cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID="+account, "AWS_SECRET_ACCESS_KEY=secret", "AWS_EC2_METADATA_DISABLED=true")
	return c, r.follow(j, c, parseDelivery)
}

// follow starts c.cmd and enters the deliveries it prints into the journal. A line that is none has no id.
func (r *runner) follow(j *journal, c *consumer, parse func(worker string, text []byte) (delivery, error)) error {
	log, err := os.Create(filepath.Join(r.out, c.worker+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	pipe, out, err := os.Pipe()
	if err != nil {
		return err
	}
	defer out.Close()
	c.done = make(chan struct{})
	c.cmd.Stdout, c.cmd.Stderr = out, log
	if err := c.cmd.Start(); err != nil {
		return errors.Join(err, pipe.Close())
	}
	r.say("worker %s is pid %d: %s", c.worker, c.cmd.Process.Pid, strings.Join(c.cmd.Args[1:], " "))
	read := make(chan error, 1)
	go func() {
		err := readLines(pipe, func(text []byte, after, before time.Time) {
			d, err := parse(c.worker, text)
			if err != nil {
				j.fail(err)
				return
			}
			if d.id == "" && d.mark == "" {
				return
			}
			d.after, d.before = after, before
			j.add(d)
		})
		read <- errors.Join(err, pipe.Close())
	}()
	go func() {
		defer close(c.done)
		c.exit = c.cmd.Wait()
		if e, ok := errors.AsType[*exec.ExitError](c.exit); ok && c.java && c.asked.Load() && e.ExitCode() == 143 {
			c.exit = nil
		}
		err := <-read
		// Only a worker that was killed may stop in the middle of a line.
		if err != nil && !(c.killed.Load() && errors.Is(err, io.ErrUnexpectedEOF)) {
			c.exit = errors.Join(c.exit, fmt.Errorf("output of %s: %w", c.worker, err))
		}
		if c.exit != nil && !c.killed.Load() {
			j.fail(fmt.Errorf("worker %s ended: %w; see its log below", c.worker, c.exit))
		}
	}()
	r.onStop(func() { _ = c.cmd.Process.Kill(); <-c.done })
	return nil
}

// parseDelivery reads one line of the program's output. Data is "KEY NUMBER padding", as the producer wrote it.
func parseDelivery(worker string, text []byte) (delivery, error) {
	var l struct {
		Stream, Shard, Sequence string
		Sub                     *uint64
		Key                     string
		Arrived                 json.RawMessage
		Data                    []byte
	}
	if err := json.Unmarshal(text, &l); err != nil {
		return delivery{}, fmt.Errorf("worker %s wrote a line that is no JSON object: %q: %w", worker, text, err)
	}
	if l.Stream == "" || l.Shard == "" || l.Sequence == "" || l.Sub == nil || l.Key == "" || len(l.Arrived) == 0 || len(l.Data) == 0 {
		return delivery{}, fmt.Errorf("worker %s wrote a line without one of stream shard sequence sub key arrived data: %s", worker, text)
	}
	f := strings.Fields(string(l.Data))
	if len(f) < 2 || f[0] != l.Key {
		return delivery{}, fmt.Errorf("worker %s delivered a record under key %q that nobody put: %q", worker, l.Key, l.Data)
	}
	return delivery{worker: worker, stream: l.Stream, shard: l.Shard, seq: l.Sequence, sub: *l.Sub, key: l.Key, id: f[0] + " " + f[1]}, nil
}

// kill is kill -9.
func (c *consumer) kill() error {
	c.killed.Store(true)
	if err := c.cmd.Process.Kill(); err != nil {
		return err
	}
	<-c.done
	return nil
}

// terminate asks the worker to stop as a deploy does, and wants exit status 0, or 143 of a JVM.
func (c *consumer) terminate(ctx context.Context, limit time.Duration) (time.Duration, error) {
	t := time.Now()
	c.asked.Store(true)
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return 0, err
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-timer.C:
		return 0, fmt.Errorf("worker %s still runs %v after SIGTERM", c.worker, limit)
	}
	if c.exit != nil {
		return 0, fmt.Errorf("worker %s after SIGTERM: %w", c.worker, c.exit)
	}
	return time.Since(t), nil
}

// checkEvents reads a worker's event file: JSON objects with time, worker and what happened; the last line of a killed worker may be cut.
func (c *consumer) checkEvents() (map[string]int, error) {
	b, err := os.ReadFile(c.events)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(string(b), "\n")
	last := lines[len(lines)-1]
	lines = lines[:len(lines)-1]
	if last != "" && !c.killed.Load() {
		return nil, fmt.Errorf("%s: the last line was cut", c.events)
	}
	kinds := map[string]int{}
	for i, l := range lines {
		var e struct {
			Time          time.Time
			Worker, Event string
		}
		if err := json.Unmarshal([]byte(l), &e); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", c.events, i+1, err)
		}
		if e.Time.IsZero() || e.Worker != c.worker || e.Event == "" {
			return nil, fmt.Errorf("%s:%d: an event needs time, worker %q and event: %s", c.events, i+1, c.worker, l)
		}
		kinds[e.Event]++
	}
	if len(kinds) == 0 {
		return nil, fmt.Errorf("%s: no events", c.events)
	}
	return kinds, nil
}
