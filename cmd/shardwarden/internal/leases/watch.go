package leases

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/command"
	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/interrupt"
	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/leasetable"
)

const watchAbout = `shardwarden leases watch: what list shows, as it changes, until it is interrupted. Reads only: each look reads the whole table.

On a terminal the list is drawn anew. Elsewhere each change is a line: the time, what it is about, what happened. Checkpoints are changes only with --checkpoints, since
they move all the time. With --json each look is one object a line, as of list.`

const watchExamples = `  shardwarden leases watch --app billing
  shardwarden leases watch --app billing --lag --every 10s
  shardwarden leases watch --app billing --checkpoints | tee deploy.log`

// watching is the command.
type watching struct {
	leasetable.Flags
	every, silent           time.Duration
	once, checkpoints, json bool
	lag                     bool
	quiet                   map[string]bool // workers that were said to be silent
}

func watch(ctx context.Context, args []string, std streams) error {
	var o watching
	f := command.NewFlags("shardwarden leases watch", watchAbout, watchExamples, std.out)
	o.Flags.Declare(f)
	f.StringVar(&o.Stream, "stream", "", "ask this stream (Tablestore: table) how far each shard is behind, at each look")
	f.BoolVar(&o.lag, "lag", false, "the same of the stream that the rows name")
	f.DurationVar(&o.every, "every", 2*time.Second, "time between two looks")
	f.DurationVar(&o.silent, "silent-after", 15*time.Second, "a worker that shows no sign of life for so long is said to be silent; one without leases, four times as long")
	f.BoolVar(&o.checkpoints, "checkpoints", false, "checkpoints that move are changes too")
	f.BoolVar(&o.once, "once", false, "end after the second look, with what it shows or what has changed")
	f.BoolVar(&o.json, "json", false, "print each look as one JSON object on a line")
	f.Check(func() error {
		if o.every <= 0 || o.silent <= 0 {
			return fmt.Errorf("--every is %v and --silent-after %v: both must be above zero", o.every, o.silent)
		}
		return nil
	})
	if err := f.Parse(args); err != nil {
		return err
	}
	t, err := o.Open(ctx)
	if err != nil {
		return err
	}
	err = o.run(ctx, t, std.out, std.draws)
	if _, asked := errors.AsType[interrupt.Signal](err); asked {
		return nil
	}
	return err
}

// run looks again and again. A look that fails is said, and the next one follows.
func (o *watching) run(ctx context.Context, t *leasetable.Table, out io.Writer, draw bool) error {
	var seen leasetable.Observer
	var before *leasetable.Report
	for looks := 0; ; {
		r, err := t.Read(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			if looks == 0 || o.once {
				return err
			}
			if _, err := fmt.Fprintf(out, "%s the table could not be read: %v\n", time.Now().Format(time.TimeOnly), err); err != nil {
				return err
			}
		} else {
			seen.See(r, time.Now())
			now := t.Report(r, &seen)
			if o.lag || o.Stream != "" {
				t.Lags(ctx, now, o.Stream)
			}
			if err := o.show(out, draw, before, now, looks); err != nil {
				return err
			}
			before, looks = now, looks+1
		}
		if o.once && looks == 2 {
			return nil
		}
		if err := leasetable.Pause(ctx, o.every); err != nil {
			return err
		}
	}
}

func (o *watching) show(out io.Writer, draw bool, before, now *leasetable.Report, looks int) error {
	switch {
	case o.once && looks == 0:
		return nil
	case o.json:
		return json.NewEncoder(out).Encode(now)
	case draw || before == nil || o.once && looks == 1:
		var p page
		if draw && !o.once {
			p.WriteString("\x1b[H\x1b[2J") // home, clear
		}
		p.report(now)
		return p.to(out)
	}
	var p page
	for _, line := range o.changes(before, now) {
		p.line("%s %s", now.Time.Local().Format(time.TimeOnly), line)
	}
	return p.to(out)
}

// changes are what differs between two looks, in words.
func (o *watching) changes(before, now *leasetable.Report) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	was := map[string]*leasetable.Lease{}
	for i := range before.Leases {
		was[before.Leases[i].Name()] = &before.Leases[i]
	}
	for i := range now.Leases {
		l := &now.Leases[i]
		old := was[l.Name()]
		delete(was, l.Name())
		if old == nil {
			say("%s is new, at %s%s", l.Name(), checkpoint(l), ownedBy(l))
			continue
		}
		o.leaseChanges(say, old, l)
	}
	for i := range before.Leases {
		if l := &before.Leases[i]; was[l.Name()] != nil {
			say("%s is gone; it was at %s%s", l.Name(), checkpoint(l), ownedBy(l))
		}
	}
	o.workerChanges(say, before, now)
	fleetChanges(say, before.KCL, now.KCL)
	return out
}

func ownedBy(l *leasetable.Lease) string {
	if l.Owner == "" {
		return ", of nobody"
	}
	return ", of " + l.Owner
}

func (o *watching) leaseChanges(say func(string, ...any), old, l *leasetable.Lease) {
	name := l.Name()
	switch {
	case old.Owner == l.Owner && old.Run != l.Run && l.Run != "" && old.Run != "":
		say("%s was acquired anew by %s", name, l.Owner)
	case old.Owner == l.Owner:
	case l.Owner == "":
		say("%s was released by %s", name, old.Owner)
	case old.Owner == "":
		say("%s was taken by %s", name, l.Owner)
	case old.Next == l.Owner:
		say("%s was handed over from %s to %s", name, old.Owner, l.Owner)
	default:
		say("%s went from %s to %s", name, old.Owner, l.Owner)
	}
	switch {
	case old.Next == l.Next:
	case l.Next != "":
		say("%s of %s is asked for by %s", name, l.Owner, l.Next)
	case old.Owner == l.Owner:
		say("%s is no longer asked for by %s", name, old.Next)
	}
	switch {
	case l.State == leasetable.Ended && old.State != leasetable.Ended:
		say("%s was read to its end", name)
	case old.State == leasetable.Ended && l.State != leasetable.Ended:
		say("%s, which had ended, is at %s again", name, checkpoint(l))
	case o.checkpoints && (old.Checkpoint != l.Checkpoint || old.Sub != l.Sub):
		say("%s is at %s", name, checkpoint(l))
	}
	if len(old.WaitsFor) > 0 && len(l.WaitsFor) == 0 {
		say("%s no longer waits for its parents", name)
	}
}

func (o *watching) workerChanges(say func(string, ...any), before, now *leasetable.Report) {
	was := map[string]leasetable.Worker{}
	for _, w := range before.Workers {
		was[w.ID] = w
	}
	mute := func(w leasetable.Worker) bool {
		patience := o.silent
		if w.Leases == 0 {
			patience *= 4 // its row is written each 30 s
		}
		return w.Silence != nil && w.Silence.Seconds >= patience.Seconds()
	}
	if o.quiet == nil {
		o.quiet = map[string]bool{}
	}
	for _, w := range now.Workers {
		old, known := was[w.ID]
		delete(was, w.ID)
		quiet := o.quiet[w.ID] || mute(old)
		switch {
		case !known:
			say("worker %s is new", w.ID)
		case mute(w):
			if !quiet {
				say("worker %s is silent for %s", w.ID, short(w.Silence.Seconds))
			}
			o.quiet[w.ID] = true
		case quiet && w.Silence != nil && old.Silence != nil && w.Silence.Seconds < old.Silence.Seconds: // one whose leases were taken is given more time, and is no more alive for that
			say("worker %s shows signs of life again", w.ID)
			delete(o.quiet, w.ID)
		}
	}
	for _, w := range before.Workers {
		if _, gone := was[w.ID]; gone {
			delete(o.quiet, w.ID)
			say("worker %s is gone", w.ID)
		}
	}
}

func fleetChanges(say func(string, ...any), before, now *leasetable.KCL) {
	if before == nil || now == nil {
		return
	}
	leader := func(k *leasetable.KCL) string {
		if k.Leader == nil {
			return "nobody"
		}
		return k.Leader.Owner
	}
	for _, c := range []struct{ what, old, new string }{
		{"layout", before.Layout, now.Layout},
		{"regime", before.Regime, now.Regime},
		{"leader", leader(before), leader(now)},
		{"client version", before.ClientVersion, now.ClientVersion},
		{"migration of tables", before.TableMigration, now.TableMigration},
		{"index of owners", before.Index, now.Index},
	} {
		if c.old != c.new {
			say("%s: %s instead of %s", c.what, dash(c.new), dash(c.old))
		}
	}
}

func dash(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
