package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/command"
	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/interrupt"
	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/leasetable"
)

const about = `shardwarden doctor kinesis: look for what does not fit between a stream, a lease table, the fleet that uses it and the settings of a worker to be started here, and say what to do.

The table is watched for a while (--observe), so that the pace of its workers shows. Nothing is changed: whether writes are allowed is tried with writes on a condition that never
holds (--no-probes leaves that out). Run it where the worker will run, with its credentials.

Exit status 0: no failure, warnings or not; 1: a failure was found, or it could not look; 2: the command line makes no sense.`

const examples = `  shardwarden doctor kinesis --stream orders --app billing
  shardwarden doctor kinesis --stream orders --app billing --worker-id go-1 --lease-duration 10s
  shardwarden doctor kinesis --stream orders --app billing --json | jq '.findings[] | select(.level != "ok")'`

type options struct {
	leasetable.Flags
	observe, lease time.Duration
	worker         string
	noProbes, json bool
}

// Run is the command.
func Run(ctx context.Context, args []string, stdout, _ io.Writer) error {
	var o options
	f := command.NewFlags("shardwarden doctor kinesis", about, examples, stdout)
	f.StringVar(&o.Stream, "stream", "", "name of the stream, or its ARN, or account:name:creationEpoch (required)")
	o.DeclareDynamo(f)
	f.DurationVar(&o.lease, "lease-duration", 10*time.Second, "what the worker to be started will have (worker.Config.LeaseDuration, consume --lease-duration)")
	f.StringVar(&o.worker, "worker-id", "", "id of the worker to be started, where it is to have a fixed one")
	f.DurationVar(&o.observe, "observe", 20*time.Second, "how long to watch the table; longer than the lease duration")
	f.BoolVar(&o.noProbes, "no-probes", false, "do not try whether writes are allowed")
	f.BoolVar(&o.json, "json", false, "print one JSON object (docs/leases.md)")
	f.Require("stream", "app")
	f.Positive("lease-duration", &o.lease)
	f.Check(func() error {
		if o.observe < 0 {
			return errors.New("--observe must not be below 0")
		}
		return nil
	})
	switch {
	case len(args) > 0 && args[0] == "kinesis":
		args = args[1:]
	case len(args) == 0 || args[0] != "--help" && args[0] != "-h":
		return f.Bad("doctor for what? Say kinesis")
	}
	if err := f.Parse(args); err != nil {
		return err
	}
	ctx, stop := interrupt.Context(ctx)
	defer stop()
	facts, err := o.gather(ctx)
	if err != nil {
		return err
	}
	return o.print(stdout, report(facts))
}

func report(f *Facts) *Report {
	r := &Report{Stream: f.Stream, Table: f.Table, Findings: Examine(f)}
	for _, x := range r.Findings {
		switch x.Level {
		case Warn:
			r.Warnings++
		case Fail:
			r.Failures++
		}
	}
	return r
}

func (o *options) print(w io.Writer, r *Report) error {
	var err error
	if o.json {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		err = e.Encode(r)
	} else {
		_, err = io.WriteString(w, text(r))
	}
	if err == nil && r.Failures > 0 {
		return &command.ExitError{Status: command.Failed}
	}
	return err
}

// text is the report for people.
func text(r *Report) string {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%-4s  %s: %s\n", f.Level, f.Check, f.What)
		if f.Do != "" {
			fmt.Fprintf(&b, "      -> %s\n", f.Do)
		}
	}
	fmt.Fprintf(&b, "\n%d findings, %d warnings, %d failures\n", len(r.Findings), r.Warnings, r.Failures)
	return b.String()
}
