package leases

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/command"
	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/leasetable"
	"github.com/shardwarden/shardwarden/core"
)

// act is what the commands that change leases have in common.
type act struct {
	leasetable.Flags
	observe    time.Duration
	yes, force bool
	key        string
}

func (a *act) declare(f *command.Flags) {
	a.Flags.Declare(f)
	f.DurationVar(&a.observe, "observe", defaultObserve, "how long to watch whether owners live, before asking")
	f.BoolVar(&a.yes, "yes", false, "do it without asking")
	f.Check(func() error {
		if a.observe < 0 {
			return errors.New("--observe must not be below 0")
		}
		return nil
	})
}

// look reads the table, for as long as it takes to see who lives.
func (a *act) look(ctx context.Context) (*leasetable.Report, *leasetable.Table, error) {
	t, err := a.Open(ctx)
	if err != nil {
		return nil, nil, err
	}
	var seen leasetable.Observer
	r, err := t.Watch(ctx, &seen, a.observe, time.Second)
	if err != nil {
		return nil, nil, err
	}
	return t.Report(r, &seen), t, nil
}

// find looks, and finds the lease that the command is about.
func (a *act) find(ctx context.Context) (*leasetable.Report, *leasetable.Table, *leasetable.Lease, error) {
	r, t, err := a.look(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	l, err := r.Find(a.key)
	return r, t, l, err
}

// confirm asks whether to go on. Where there is nobody to ask that is a misuse: nothing is changed by accident.
func (a *act) confirm(std streams, question string) error {
	if a.yes {
		return nil
	}
	if !std.asks {
		return &command.ExitError{Status: command.Misuse, Err: errors.New("nothing was changed: there is no terminal to ask on; say --yes to do it")}
	}
	if _, err := fmt.Fprintf(std.out, "%s [y/N] ", question); err != nil {
		return err
	}
	answer, err := bufio.NewReader(std.in).ReadString('\n')
	if err != nil && answer == "" {
		return &command.ExitError{Status: command.Failed, Err: errors.New("nothing was changed: there was no answer")}
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return &command.ExitError{Status: command.Failed, Err: errors.New("nothing was changed")}
}

// tries is how often a write is begun anew because the lease changed in between: its owner renews it every few seconds.
const tries = 5

// errChanged: the command is about a row that has become another since it was shown.
var errChanged = errors.New("the lease is no longer as it was shown")

// write makes one conditional write of a lease. decide sees the row as it is now and says what to write; an error of it ends the attempt. A write whose answer got lost may
// have gone through; the row that is read then tells.
func write(ctx context.Context, t *leasetable.Table, key core.LeaseKey, decide func(*core.Lease) (core.Write, error)) (before, after core.Lease, err error) {
	for range tries {
		before, err = t.Store.Get(ctx, key)
		if err != nil {
			return before, after, err
		}
		var w core.Write
		if w, err = decide(&before); err != nil {
			return before, after, err
		}
		if after, err = t.Store.Update(ctx, before, w.Same, w.Set); err == nil || !errors.Is(err, core.ErrConflict) {
			break
		}
	}
	switch {
	case errors.Is(err, core.ErrConflict):
		return before, after, fmt.Errorf("nothing was changed: the lease changed %d times while it was to be written: %w", tries, err)
	case errors.Is(err, core.ErrUnavailable), errors.Is(err, core.ErrThrottled):
		return before, after, fmt.Errorf("whether it was done is not known; leases describe shows it: %w", err)
	}
	return before, after, err
}

// changed says what became of a lease.
func (p *page) changed(before, after *core.Lease) {
	p.line("%s", before.Key.Shard)
	rows := [][]string{}
	for _, c := range []struct{ name, old, new string }{
		{"owner", nobody(before.Owner), nobody(after.Owner)},
		{"asked for by", nobody(before.Next), nobody(after.Next)},
		{"checkpoint", place(before), place(after)},
		{"counter", fmt.Sprint(before.Counter), fmt.Sprint(after.Counter)},
	} {
		if c.old != c.new {
			rows = append(rows, []string{"  " + c.name, c.old, c.new})
		}
	}
	p.table([]string{"", "before", "after"}, rows)
}

func nobody(id core.WorkerID) string {
	if id == core.Nobody {
		return "nobody"
	}
	return string(id)
}

// place is a checkpoint with all that belongs to it.
func place(l *core.Lease) string {
	out := l.Checkpoint.String()
	if l.Checkpoint.Sub > 0 {
		out += fmt.Sprintf(":%d", l.Checkpoint.Sub)
	}
	if !l.StartAt.IsZero() {
		out += " " + instant(l.StartAt)
	}
	if l.Pending != nil {
		out += ", prepared: " + l.Pending.At.String()
	}
	return out
}

// lives says in words whether the owner of a lease was seen to live.
func lives(l *leasetable.Lease) string {
	switch {
	case l.Owner == "":
		return "nobody owns it"
	case l.Silence == nil || l.Silence.AtLeast && l.Silence.Seconds == 0:
		return fmt.Sprintf("%s owns it; whether it lives was not watched", l.Owner)
	case l.Silence.AtLeast:
		return fmt.Sprintf("%s owns it, and was silent for the %s it was watched", l.Owner, short(l.Silence.Seconds))
	}
	return fmt.Sprintf("%s owns it, and lives", l.Owner)
}
