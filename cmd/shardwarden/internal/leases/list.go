package leases

import (
	"context"
	"errors"
	"time"

	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/command"
	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/leasetable"
)

// defaultObserve is longer than workers wait between two renewals at their defaults: 4 s ours, 3.3 s the KCL's, 6 s the Stream Client's.
const defaultObserve = 7 * time.Second

// reading is what list and describe have in common.
type reading struct {
	leasetable.Flags
	observe   time.Duration
	lag, json bool
}

func (o *reading) declare(f *command.Flags) {
	o.Flags.Declare(f)
	o.declareStream(f)
	f.DurationVar(&o.observe, "observe", defaultObserve, "how long to watch whether owners renew; 0: read once")
	f.BoolVar(&o.json, "json", false, "print one JSON object (docs/leases.md)")
	f.Check(func() error {
		if o.observe < 0 {
			return errors.New("--observe must not be below 0")
		}
		return nil
	})
}

func (o *reading) declareStream(f *command.Flags) {
	f.StringVar(&o.Stream, "stream", "", "ask this stream (Tablestore: table) how far each shard is behind, by one small read of each")
	f.BoolVar(&o.lag, "lag", false, "the same of the stream that the rows name")
}

// report reads the table.
func (o *reading) report(ctx context.Context) (*leasetable.Report, *leasetable.Table, error) {
	t, err := o.Open(ctx)
	if err != nil {
		return nil, nil, err
	}
	var seen leasetable.Observer
	r, err := t.Watch(ctx, &seen, o.observe, time.Second)
	if err != nil {
		return nil, nil, err
	}
	out := t.Report(r, &seen)
	if o.lag || o.Stream != "" {
		t.Lags(ctx, out, o.Stream)
	}
	return out, t, nil
}

const listAbout = `shardwarden leases list: who has which shard, how far it is read, and what the table says of the fleet. Reads only.

A row holds no time, so the table is watched for a while (--observe): SEEN is how long ago the owner was seen to renew, ">7s" that it was not.
An owner that is silent for its lease duration is dead, and others take its leases.`

const listExamples = `  shardwarden leases list --app billing
  shardwarden leases list --app billing --observe 0 --json | jq '.leases[] | select(.state == "free")'
  shardwarden leases list --app billing --lag`

func list(ctx context.Context, args []string, std streams) error {
	var o reading
	f := command.NewFlags("shardwarden leases list", listAbout, listExamples, std.out)
	o.declare(f)
	if err := f.Parse(args); err != nil {
		return err
	}
	r, _, err := o.report(ctx)
	switch {
	case err != nil:
		return err
	case o.json:
		return printJSON(std.out, r)
	}
	var p page
	p.report(r)
	return p.to(std.out)
}
