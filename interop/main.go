// Command interop runs the program against emulators and SDKs that others wrote, and judges what it delivered by a ledger of its own.
//
//	go run ./interop list
//	go run ./interop smoke            what CI runs: the quick scenarios, side by side
//	go run ./interop run all|NAME...  the whole matrix, one after the other; a line for each goes to docs/interop.md
//	go run ./interop try NAME...      the same without those lines
//
// A scenario whose tool is missing (node, java, python3, the network, a binary built by hand) is reported as SKIPPED with the reason,
// never passed in silence. All traffic stays on 127.0.0.1, but for what setup.sh fetches from package registries.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, out io.Writer) int {
	all := scenarios()
	if len(args) == 0 {
		args = []string{"help"}
	}
	var chosen []scenario
	parallel := false
	switch args[0] {
	case "worker": // of a scenario, see worker.go
		if err := workerMain(ctx, args[1:], out); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "interop worker:", err)
			return 1
		}
		return 0
	case "list":
		for _, s := range all {
			fmt.Fprintf(out, "%-24s %s\n", s.name, s.what)
		}
		return 0
	case "smoke":
		parallel = true
		for _, s := range all {
			if s.smoke {
				chosen = append(chosen, s)
			}
		}
	case "run", "try":
		names := args[1:]
		if len(names) == 0 || slices.Equal(names, []string{"all"}) {
			chosen = all
			break
		}
		for _, n := range names {
			i := slices.IndexFunc(all, func(s scenario) bool { return s.name == n })
			if i < 0 {
				fmt.Fprintf(out, "interop: there is no scenario %q; `go run ./interop list` names them\n", n)
				return 2
			}
			chosen = append(chosen, all[i])
		}
	default:
		fmt.Fprintln(out, "usage: interop list | smoke | run all | run NAME... | try NAME...")
		return 2
	}
	b, err := newBench()
	if err != nil {
		fmt.Fprintln(out, "interop:", err)
		return 1
	}
	results := runAll(ctx, b, chosen, parallel, out)
	if args[0] == "run" {
		if err := appendReport(filepath.Join(b.root, "docs", "interop.md"), time.Now(), results); err != nil {
			fmt.Fprintln(out, "interop:", err)
			return 1
		}
	}
	return summarize(results, out)
}

// result is what became of one scenario. A nil err is a pass, a skipped one names what was missing.
type result struct {
	name, text string
	err        error
	took       time.Duration
}

func (r result) skipped() (string, bool) {
	s, ok := errors.AsType[*skip](r.err)
	if !ok {
		return "", false
	}
	return s.reason, true
}

func runAll(ctx context.Context, b *bench, chosen []scenario, parallel bool, out io.Writer) []result {
	results := make([]result, len(chosen))
	say := &prefixer{out: out}
	one := func(i int) {
		s := chosen[i]
		release, err := b.reserve(ctx, s.jvms)
		defer release()
		t := time.Now()
		r := &runner{bench: b, name: s.name, out: filepath.Join(b.out, s.name), say: say.named(s.name)}
		var text string
		if err == nil {
			err = os.MkdirAll(r.out, 0o755)
		}
		if err == nil {
			text, err = r.within(ctx, s)
		}
		r.stopAll()
		results[i] = result{name: s.name, text: text, err: err, took: time.Since(t)}
		if err != nil && !isSkip(err) {
			r.say("FAILED: %v", err)
			r.tailLogs()
		}
	}
	if !parallel {
		for i := range chosen {
			one(i)
		}
		return results
	}
	var wg sync.WaitGroup
	for i := range chosen {
		wg.Go(func() { one(i) })
	}
	wg.Wait()
	return results
}

func summarize(results []result, out io.Writer) int {
	passed, failed, skipped := 0, 0, 0
	fmt.Fprintln(out)
	for _, r := range results {
		reason, isSkipped := r.skipped()
		switch {
		case isSkipped:
			skipped++
			fmt.Fprintf(out, "SKIPPED: interop %s (%s)\n", r.name, reason)
		case r.err != nil:
			failed++
			fmt.Fprintf(out, "FAIL %s (%.0f s): %s\n", r.name, r.took.Seconds(), firstLine(r.err.Error()))
		default:
			passed++
			fmt.Fprintf(out, "ok   %s (%.0f s): %s\n", r.name, r.took.Seconds(), r.text)
		}
	}
	fmt.Fprintf(out, "interop: %d passed, %d failed, %d skipped\n", passed, failed, skipped)
	if failed > 0 {
		return 1
	}
	return 0
}

func firstLine(s string) string {
	l, _, more := strings.Cut(s, "\n")
	if more {
		l += " …"
	}
	return l
}

// prefixer keeps the lines of scenarios that run side by side apart.
type prefixer struct {
	mu  sync.Mutex
	out io.Writer
}

func (p *prefixer) named(name string) func(format string, a ...any) {
	t := time.Now()
	return func(format string, a ...any) {
		line := fmt.Sprintf("[%s %5.1f] %s\n", name, time.Since(t).Seconds(), strings.TrimRight(fmt.Sprintf(format, a...), "\n"))
		p.mu.Lock()
		defer p.mu.Unlock()
		_, _ = io.WriteString(p.out, line)
	}
}
