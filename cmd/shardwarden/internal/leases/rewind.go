package leases

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardwarden/shardwarden/backends/kinesis"
	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/command"
	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/leasetable"
	"github.com/shardwarden/shardwarden/core"

	"github.com/aws/aws-sdk-go-v2/aws"
)

const rewindAbout = `shardwarden leases rewind: begin a shard again at another place.

  trim-horizon          the oldest record that the service has
  latest                what arrives from now on
  2006-01-02T15:04:05Z  the first record that arrived then or later
  SEQUENCE[:SUB]        behind a record, or behind a part of an aggregated one; Tablestore: an iterator, and how many records of its batch were taken

The lease must be free. A worker that owns it knows its place by heart and would write it over the new one, so stop the workers, or --force: it is then taken from its owner with the same
write. What the owner had not stored comes again anyhow.

--force is also needed where records would be skipped (going forward), where they would come out of order (a shard that has ended and whose children have begun), and for a time in a table that Java
workers use, since their rows hold no time: the Java worker that takes the lease begins at the time of its own settings.`

const rewindExamples = `  shardwarden leases rewind shardId-000000000003 --to trim-horizon --app billing
  shardwarden leases rewind shardId-000000000003 --to 2026-11-30T08:00:00Z --app billing --force --yes`

func rewind(ctx context.Context, args []string, std streams) error {
	var a act
	var text string
	var to core.Position
	f := command.NewFlags("shardwarden leases rewind", rewindAbout, rewindExamples, std.out)
	f.Operand("KEY", &a.key)
	a.declare(f)
	f.StringVar(&text, "to", "", "where to begin: trim-horizon, latest, a time, or SEQUENCE[:SUB] (required)")
	f.StringVar(&a.Stream, "stream", "", "Tablestore: the table whose changes are read; needed for latest and for a time")
	f.BoolVar(&a.force, "force", false, "though it has an owner, or records would be skipped or come out of order")
	f.Require("to")
	f.Check(needKey(&a.key))
	f.Check(func() (err error) {
		if text != "" {
			to, err = parsePlace(text, time.Now(), a.Status == "")
		}
		return err
	})
	if err := f.Parse(args); err != nil {
		return err
	}
	r, t, l, err := a.find(ctx)
	if err != nil {
		return err
	}
	if to, err = storable(ctx, t, l, to, a.Stream); err != nil {
		return err
	}
	w := rewinder{report: r, lease: l, to: to}
	if _, err := fmt.Fprintf(std.out, "%s at %s: %s\n", l.Name(), checkpoint(l), lives(l)); err != nil {
		return err
	}
	doubts := w.doubts()
	if len(doubts) > 0 && !a.force {
		return fmt.Errorf("nothing was changed:\n  %s\n--force does it all the same", strings.Join(doubts, "\n  "))
	}
	for _, d := range doubts {
		if _, err := fmt.Fprintln(std.out, d); err != nil {
			return err
		}
	}
	if err := a.confirm(std, fmt.Sprintf("Begin it at %s?", text)); err != nil {
		return err
	}
	before, after, err := write(ctx, t, l.Core().Key, w.decide)
	if err != nil {
		return err
	}
	var p page
	p.changed(&before, &after)
	return p.to(std.out)
}

// parsePlace reads a place. Kinesis numbers its records; Tablestore's iterators are opaque.
func parsePlace(text string, now time.Time, numbers bool) (core.Position, error) {
	switch strings.ToLower(text) {
	case "trim-horizon", "trim_horizon":
		return core.FromHorizon, nil
	case "latest":
		return core.Position{Anchor: core.Latest, Time: now.UTC()}, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return core.From(t.UTC()), nil
	}
	token, subText, has := strings.Cut(text, ":")
	p := core.Position{Token: token}
	bad := fmt.Errorf("--to is %q: must be trim-horizon, latest, a time such as 2006-01-02T15:04:05Z, or SEQUENCE[:SUB]", text)
	if has {
		var err error
		if p.Sub, err = strconv.ParseUint(subText, 10, 63); err != nil {
			return core.Position{}, bad
		}
	}
	if back, err := core.ParsePosition(p.Token, p.Sub, time.Time{}); err != nil || back.Anchor != core.AfterToken {
		return core.Position{}, bad
	}
	if numbers && strings.Trim(token, "0123456789") != "" {
		return core.Position{}, bad
	}
	return p, nil
}

// storable is the place as the table can hold it: where that is no start, the source turns it into a token.
func storable(ctx context.Context, t *leasetable.Table, l *leasetable.Lease, to core.Position, stream string) (core.Position, error) {
	holder, ok := t.Store.(core.StartHolder)
	if !ok || holder.HoldsStart() || to.Anchor != core.Latest && to.Anchor != core.AtTime {
		return to, nil
	}
	lease := l.Core()
	source, err := t.Source(lease.Key.Stream, stream)
	if err != nil {
		return to, err
	}
	resolver, ok := source.(core.Resolver)
	if !ok {
		return to, fmt.Errorf("table %s holds no %s, and the source cannot turn it into a token", t.Name, to)
	}
	return resolver.Resolve(ctx, core.Shard{ID: lease.Key.Shard, Parents: lease.Parents}, to)
}

// rewinder decides whether a lease may begin again elsewhere.
type rewinder struct {
	report *leasetable.Report
	lease  *leasetable.Lease
	to     core.Position
}

// doubts are what speaks against it, each with its reason.
func (w *rewinder) doubts() []string {
	var out []string
	doubt := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	l := w.lease
	if l.Owner != "" && l.State != leasetable.Ended {
		doubt("%s owns it, and would store its own place over the new one; stop it first. By force the lease is taken from it, and it learns of that with its next renewal", l.Owner)
	} else if l.Owner != "" {
		doubt("%s owns it, as its last worker; by force the lease is taken from it", l.Owner)
	}
	if l.State == leasetable.Ended {
		var begun []string
		for _, other := range w.report.Leases {
			if other.Stream == l.Stream && (slices.Contains(other.Parents, l.Shard) || slices.Contains(l.Children, other.Shard)) && hasBegun(&other) {
				begun = append(begun, other.Shard)
			}
		}
		if len(begun) > 0 {
			doubt("it was read to its end, and its children have begun (%s): what is read again comes behind records of the same keys that are newer", strings.Join(begun, ", "))
		}
	}
	if w.skips() {
		doubt("this goes forward: what lies between %s and %s is not read by anybody", checkpoint(l), show(w.to))
	}
	if java := w.javaWorkers(); w.to.Anchor == core.AtTime && len(java) > 0 {
		doubt("Java workers use the table (%s), and one of them would begin at the time of its own settings, since no row tells it another; use a sequence number", strings.Join(java, ", "))
	}
	return out
}

// hasBegun: somebody reads it, or has.
func hasBegun(l *leasetable.Lease) bool {
	return l.Ready || l.Owner != "" && len(l.WaitsFor) == 0 || l.Checkpoint != core.FromHorizon.String()
}

// skips reports whether records may lie between the checkpoint and the new place.
func (w *rewinder) skips() bool {
	lease := w.lease.Core()
	from := lease.From()
	switch {
	case w.to.Anchor == core.Horizon || from.IsEnd():
		return false
	case from.Equal(w.to):
		return false
	case w.to.Anchor == core.Latest:
		return true
	case w.to.Anchor == core.AtTime:
		// Nothing tells when the record of a token arrived. A time that lies behind the start is one.
		return from.Anchor != core.AfterToken && (from.Anchor == core.Horizon || from.Time.Before(w.to.Time))
	case w.report.Service != "dynamodb":
		return false // iterators cannot be compared
	}
	return kinesis.New(aws.Config{}, "any").Compare(from, w.to) < 0
}

func (w *rewinder) javaWorkers() []string {
	var out []string
	for _, x := range w.report.Workers {
		if x.Kind == leasetable.Java {
			out = append(out, x.ID)
		}
	}
	return out
}

func show(p core.Position) string {
	out := p.String()
	if p.Sub > 0 {
		out += fmt.Sprintf(":%d", p.Sub)
	}
	if !p.Time.IsZero() {
		out += " " + instant(p.Time)
	}
	return out
}

// decide is the write for the row as it is now: the place, and nobody as the owner, in one. Under the counter no owner can have stored anything since.
func (w *rewinder) decide(now *core.Lease) (core.Write, error) {
	if string(now.Owner) != w.lease.Owner {
		return core.Write{}, fmt.Errorf("%w: %s owns it by now; nothing was changed", errChanged, nobody(now.Owner))
	}
	if w.lease.State != leasetable.Ended && now.Ended() {
		return core.Write{}, errors.New("it was read to its end meanwhile; nothing was changed")
	}
	out := core.Store(w.to, nil)
	if now.Owner != core.Nobody {
		free := core.Release()
		out.Set.Owner, out.Set.Next = free.Set.Owner, free.Set.Next
	}
	if !w.to.Time.IsZero() {
		out.Set.StartAt = new(w.to.Time)
	}
	return out, nil
}
