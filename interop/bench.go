package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// bench is what all scenarios of a run share: the built program and what setup.sh installs, each made once.
type bench struct {
	root string // of the repository
	work string // where peers are installed ($PEERS_WORK)
	out  string // logs of this run

	mu   sync.Mutex
	made map[string]func() error

	jvms, jvmTurn chan struct{}
}

// maxJVMs is how many run at once: more are too slow together for the timers they are given.
const maxJVMs = 2

// reserve waits until n more JVMs may run, and returns what gives them back.
func (b *bench) reserve(ctx context.Context, n int) (release func(), err error) {
	taken := 0
	release = func() {
		for range taken {
			<-b.jvms
		}
	}
	if n == 0 {
		return release, nil
	}
	// One after the other: two that have half of what they need each would wait for ever.
	select {
	case b.jvmTurn <- struct{}{}:
	case <-ctx.Done():
		return release, context.Cause(ctx)
	}
	defer func() { <-b.jvmTurn }()
	for taken < n {
		select {
		case b.jvms <- struct{}{}:
			taken++
		case <-ctx.Done():
			return release, context.Cause(ctx)
		}
	}
	return release, nil
}

func newBench() (*bench, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "interop", "peers", "setup.sh")); err == nil {
			break
		}
		up := filepath.Dir(dir)
		if up == dir {
			return nil, errors.New("interop/peers/setup.sh was not found: run from within the repository")
		}
		dir = up
	}
	b := &bench{root: dir, work: os.Getenv("PEERS_WORK"), made: map[string]func() error{},
		jvms: make(chan struct{}, maxJVMs), jvmTurn: make(chan struct{}, 1)}
	if b.work == "" {
		b.work = filepath.Join(dir, "interop", "peers", ".work")
	}
	if b.work, err = filepath.Abs(b.work); err != nil {
		return nil, err
	}
	b.out = filepath.Join(dir, "interop", "out", time.Now().Format("20060102-150405"))
	return b, errors.Join(os.MkdirAll(b.work, 0o755), os.MkdirAll(b.out, 0o755))
}

// once runs f the first time it is asked for name; every caller gets its outcome.
func (b *bench) once(name string, f func() error) error {
	b.mu.Lock()
	g, ok := b.made[name]
	if !ok {
		g = sync.OnceValue(f)
		b.made[name] = g
	}
	b.mu.Unlock()
	return g()
}

// program builds cmd/shardwarden and returns its path; or $SHARDWARDEN, where that names one built before.
func (b *bench) program(ctx context.Context) (string, error) {
	if bin := os.Getenv("SHARDWARDEN"); bin != "" {
		return bin, nil
	}
	bin := filepath.Join(b.out, "shardwarden")
	return bin, b.once("program", func() error {
		_, err := b.command(ctx, b.root, nil, "go", "build", "-o", bin, "./cmd/shardwarden")
		return err
	})
}

// installed makes sure that a part of setup.sh is there, and says what is missing if it can't be.
func (b *bench) installed(ctx context.Context, part string, tools ...string) error {
	return b.once("part "+part, func() error {
		if err := b.have(tools...); err != nil {
			return err
		}
		_, err := b.command(ctx, b.root, []string{"PEERS_WORK=" + b.work}, filepath.Join(b.root, "interop", "peers", "setup.sh"), part)
		return noNetwork(err)
	})
}

func (b *bench) have(tools ...string) error {
	for _, t := range tools {
		if _, err := exec.LookPath(t); err != nil {
			return &skip{t + " is missing"}
		}
	}
	return nil
}

// command runs to the end and returns what was printed; a failure carries the end of it.
func (b *bench) command(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, lastLines(out.String(), 15))
	}
	return out.String(), err
}

// skip is why a scenario could not be run here.
type skip struct{ reason string }

func (s *skip) Error() string { return "skipped: " + s.reason }

func isSkip(err error) bool { _, ok := errors.AsType[*skip](err); return ok }

// noNetwork turns a registry that can't be reached into a skip. Any other failure of an installer stays a failure.
func noNetwork(err error) error {
	if err == nil {
		return nil
	}
	for _, sign := range []string{"ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ETIMEDOUT", "ENETUNREACH", "Temporary failure in name resolution",
		"Network is unreachable", "no such host", "NewConnectionError", "Unknown host", "UnknownHostException", "Connection refused", "ConnectTimeout"} {
		if strings.Contains(err.Error(), sign) {
			return &skip{"a package registry can't be reached: " + sign}
		}
	}
	return err
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
