package leases

import (
	"context"
	"errors"
	"fmt"

	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/command"
	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/leasetable"
	"github.com/shardwarden/shardwarden/core"
)

const releaseAbout = `shardwarden leases release: take a lease from its owner; anybody may take it then, the former owner too.

Of an owner that is gone this saves the others the wait. One that lives learns of it with its next renewal, within seconds: it stops the shard, and what it had not stored comes again
from the next owner. For that long two workers may work on the shard, so prefer leases move. A lease without owner stays as it is.

KEY is as leases list shows it; or all leases of a worker: --worker ID.`

const releaseExamples = `  shardwarden leases release shardId-000000000003 --app billing
  shardwarden leases release --worker host-7:4711 --app billing --yes`

func release(ctx context.Context, args []string, std streams) error {
	var a act
	var worker string
	f := command.NewFlags("shardwarden leases release", releaseAbout, releaseExamples, std.out)
	f.Operand("[KEY]", &a.key)
	a.declare(f)
	f.StringVar(&worker, "worker", "", "all leases that this worker owns")
	f.Check(func() error {
		if (a.key == "") == (worker == "") {
			return errors.New("which lease? Say its KEY, or --worker, and not both")
		}
		return nil
	})
	if err := f.Parse(args); err != nil {
		return err
	}
	r, t, err := a.look(ctx)
	if err != nil {
		return err
	}
	some, err := toRelease(r, a.key, worker)
	if err != nil {
		return err
	}
	var p page
	for _, l := range some {
		p.line("%s at %s: %s", l.Name(), checkpoint(l), lives(l))
	}
	if err := p.to(std.out); err != nil {
		return err
	}
	if len(some) == 1 && some[0].Owner == "" {
		_, err := fmt.Fprintln(std.out, "it is free already; nothing was changed")
		return err
	}
	if err := a.confirm(std, fmt.Sprintf("Release %d lease(s)?", len(some))); err != nil {
		return err
	}
	var errs []error
	for _, l := range some {
		before, after, err := write(ctx, t, l.Core().Key, func(now *core.Lease) (core.Write, error) { return releaseOf(l, now) })
		if err != nil {
			errs = append(errs, fmt.Errorf("lease %s: %w", l.Name(), err))
			continue
		}
		var p page
		p.changed(&before, &after)
		if err := p.to(std.out); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

func toRelease(r *leasetable.Report, key, worker string) ([]*leasetable.Lease, error) {
	if key != "" {
		l, err := r.Find(key)
		return []*leasetable.Lease{l}, err
	}
	var out []*leasetable.Lease
	for i := range r.Leases {
		if r.Leases[i].Owner == worker {
			out = append(out, &r.Leases[i])
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("worker %s owns no lease of table %s (leases list shows who does)", worker, r.Table)
	}
	return out, nil
}

// releaseOf is the write for the row as it is now.
func releaseOf(shown *leasetable.Lease, now *core.Lease) (core.Write, error) {
	if string(now.Owner) != shown.Owner {
		return core.Write{}, fmt.Errorf("%w: %s owns it by now; nothing was changed", errChanged, nobody(now.Owner))
	}
	return core.Release(), nil
}
