package leases

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/command"
	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/leasetable"
)

const migrateAbout = `shardwarden leases migrate: turn a lease table in DynamoDB into one of another layout, with all progress.

  multi-stream   of one stream into one of several. Stop every worker first; the table is watched for a while, and nothing is done if anybody uses it. If it is cut off, run it again:
                 until it is through, workers of both kinds refuse the table. There is no way back but a backup
  kcl2           the KCL's fleet goes by the rules of 2.x: each worker takes leases
  kcl3           it goes by the rules of 3.x: a leader assigns them
  single-table   the KCL's three tables become one (3.5 and later)

Without --yes it only says what would be done, and what speaks against it. The last three are for a fleet that runs, and go in stages, with workers following in between: docs/migrating-from-kcl.md
says when, and what to look at. Where rows can only go while nobody uses the table it is watched for half a minute.`

const migrateExamples = `  shardwarden leases migrate --to multi-stream --app billing --stream orders          # says what it would do
  shardwarden leases migrate --to multi-stream --app billing --stream orders --yes
  shardwarden leases migrate --to kcl3 --app billing`

type migrate struct {
	leasetable.Flags
	to    string
	watch time.Duration
	yes   bool
}

// targets are the values of --to.
const targets = "multi-stream, kcl2, kcl3 or single-table"

func migrateTable(ctx context.Context, args []string, std streams) error {
	m := &migrate{}
	f := command.NewFlags("shardwarden leases migrate", migrateAbout, migrateExamples, std.out)
	f.StringVar(&m.to, "to", "", "what the table becomes: "+targets+" (required)")
	m.DeclareDynamo(f)
	f.StringVar(&m.Stream, "stream", "", "with multi-stream, the stream whose leases the table holds: name, ARN or account:name:creationEpoch")
	f.DurationVar(&m.watch, "watch", 15*time.Second, "with multi-stream, how long to watch whether somebody uses the table; longer than the lease duration of its workers")
	f.BoolVar(&m.yes, "yes", false, "do it")
	f.Require("to", "app")
	f.Positive("watch", &m.watch)
	f.Check(func() error {
		switch m.to {
		case "multi-stream":
			if m.Stream == "" {
				return errors.New("--stream is missing: it must be given with --to multi-stream")
			}
		case "kcl2", "kcl3", "single-table", "":
			if m.Stream != "" {
				return errors.New("--stream goes with --to multi-stream")
			}
		default:
			return fmt.Errorf("--to is %q: must be %s", m.to, targets)
		}
		return nil
	})
	if err := f.Parse(args); err != nil {
		return err
	}
	if m.to == "multi-stream" {
		return m.toSeveralStreams(ctx, std.out)
	}
	return m.toLayout(ctx, std)
}
