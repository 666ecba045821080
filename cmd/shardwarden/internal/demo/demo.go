// Package demo plays a whole application in one process and checks it from outside: producers, a fleet of workers, shards that split and
// merge, a worker whose network is cut, one that stops in order. The judge is a ledger at the boundary of the handlers; it trusts nobody's
// counters, and sabotage shows that it would notice.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/term"

	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/command"
	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/interrupt"
	"github.com/shardwarden/shardwarden/core/worker"
)

type options struct {
	backend                                   string
	shards, workers, records, kills, reshards int
	seed                                      uint64
	sabotage                                  string
	log                                       string
}

const about = `shardwarden demo: a stream, a fleet and a judge in one process.

Producers put keyed records into a stream while workers read it. Meanwhile shards are split and merged, a worker loses its network and does
not know it (its goroutines and its handler go on), another starts in its place, and one is stopped in order. At the end a ledger that stands
outside the engine says what was put, what came to a handler, and whether anything is missing, out of order, or came before its parents.

With --backend kinesis or tablestore the services are emulators on loopback, called through the real SDK; no other network is used. With
tablestore the records are changes of the rows of a table (put, updated, deleted), shards split and merge with its partitions, and at the end
a replica that was built from the changes alone must equal the table. The last line on stdout is a JSON object. Exit status 1 if anything is missing or violated. The seed fixes keys, sizes, which shards are split and merged and
which worker is cut off; how long things take is the machine's.`

const examples = `  shardwarden demo
  shardwarden demo --backend tablestore
  shardwarden demo --backend memory --shards 16 --workers 6 --reshards 9 --kills 2 --seed 7
  shardwarden demo --sabotage reorder        # spoils deliveries on purpose: see that the judge notices
  shardwarden demo | tail -1                 # the figures alone`

// Run is the command.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o options
	f := command.NewFlags("shardwarden demo", about, examples, stdout)
	f.StringVar(&o.backend, "backend", "kinesis", "kinesis (emulators of Kinesis and DynamoDB on loopback), tablestore (the same for Tablestore) or memory (no network at all)")
	f.IntVar(&o.shards, "shards", 4, "shards to begin with")
	f.IntVar(&o.workers, "workers", 3, "workers to begin with")
	f.IntVar(&o.records, "records", 20000, "records to put")
	f.IntVar(&o.kills, "kills", 1, "workers to cut off from the network; another starts for each")
	f.IntVar(&o.reshards, "reshards", 3, "shards to split or merge: two splits, then a merge, and again")
	f.Uint64Var(&o.seed, "seed", 1, "what is left to chance is decided by this number")
	f.StringVar(&o.sabotage, "sabotage", "", "spoil deliveries on purpose: skip, repeat, reorder or early-child")
	f.StringVar(&o.log, "log", "", "write what the workers log to this file")
	f.AtLeast("shards", &o.shards, 1)
	f.AtLeast("workers", &o.workers, 1)
	f.AtLeast("records", &o.records, 1)
	f.AtLeast("kills", &o.kills, 0)
	f.AtLeast("reshards", &o.reshards, 0)
	f.Check(func() error {
		if stages[o.backend] == nil {
			return fmt.Errorf("--backend is %q: must be kinesis, tablestore or memory", o.backend)
		}
		return nil
	})
	f.Check(func() error { _, err := newSpoiler(o.sabotage, 0); return err })
	f.Check(func() error {
		if o.sabotage == earlyChild && o.reshards == 0 {
			return fmt.Errorf("--sabotage %s with --reshards 0: without a split there is no child to be early", earlyChild)
		}
		return nil
	})
	if err := f.Parse(args); err != nil {
		return err
	}
	logger := slog.New(slog.DiscardHandler)
	if o.log != "" {
		file, err := os.Create(o.log)
		if err != nil {
			return fmt.Errorf("--log: %w", err)
		}
		defer file.Close()
		logger = slog.New(slog.NewTextHandler(file, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	ctx, stop := interrupt.Context(ctx)
	defer stop()
	s, err := play(ctx, o, stdout, logger)
	if signal, ok := errors.AsType[interrupt.Signal](context.Cause(ctx)); ok {
		return &command.ExitError{Status: signal.Status(), Err: fmt.Errorf("the demo was stopped by a signal (%w) and proved nothing", signal)}
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, s.words())
	fmt.Fprintln(stdout, s.json())
	if s.bad() {
		return &command.ExitError{Status: command.Failed}
	}
	return nil
}

// stages are the backends to play on.
var stages = map[string]func(context.Context, options) (stage, error){
	"kinesis":    func(ctx context.Context, o options) (stage, error) { return newCloud(ctx, o.shards, o.seed) },
	"tablestore": func(_ context.Context, o options) (stage, error) { return newInstance(o.shards, o.seed) },
	"memory":     func(_ context.Context, o options) (stage, error) { return newRoom(o.shards), nil },
}

// quietLimit is how long nothing new may come before the demo stops waiting for the rest.
const quietLimit = 8 * leaseDuration

func play(ctx context.Context, o options, stdout io.Writer, logger *slog.Logger) (summary, error) {
	s, err := stages[o.backend](ctx, o)
	if err != nil {
		return summary{}, err
	}
	return playOn(ctx, s, o, stdout, logger)
}

// playOn plays on a stage, and closes it.
func playOn(ctx context.Context, stage stage, o options, stdout io.Writer, logger *slog.Logger) (out summary, err error) {
	defer func() { err = errors.Join(err, stage.close()) }()
	spoiler, err := newSpoiler(o.sabotage, o.seed)
	if err != nil {
		return out, err
	}
	keys := min(max(1, o.records/20), 1000)
	b := &boundary{stage: stage, ledger: newLedger(keys), spoiler: spoiler, seed: o.seed, keys: keys, records: o.records}
	rows, keeps := stage.(keeper)
	if keeps {
		b.replica = newReplica()
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	c := &crew{boundary: b, log: logger, fail: fail}
	d := &director{boundary: b, crew: c, dice: rand.New(rand.NewPCG(o.seed, 0))}
	screen := newDisplay(stdout, terminal(stdout), func() frame { return d.frame(o) })
	d.say = func(format string, args ...any) { screen.say(b.ledger.elapsed(), fmt.Sprintf(format, args...)) }
	go screen.run()
	err = d.perform(ctx, o)
	d.say("stopping everything")
	err = errors.Join(err, c.disband())
	screen.close()
	if err != nil {
		return out, err
	}
	all, err := stage.shards(ctx)
	if err != nil {
		return out, err
	}
	b.ledger.family(all)
	out = summarize(o, b.ledger.close(), d.played, spoiler, b.ledger.elapsed())
	if keeps {
		table, err := rows.rows(ctx)
		if err != nil {
			return out, err
		}
		out.replica = new(b.replica.compare(table))
	}
	return out, nil
}

// perform lets records flow, plays the scenes, and returns when all has arrived, or when nothing new comes.
func (d *director) perform(ctx context.Context, o options) error {
	for range o.workers {
		if _, err := d.crew.start(ctx); err != nil {
			return err
		}
	}
	scenes := d.scenes(o.reshards, o.kills)
	group, inner := errgroup.WithContext(ctx)
	for p := range producers {
		group.Go(func() error { return d.produce(inner, d.stage, p, pace(len(scenes))) })
	}
	group.Go(func() error { return d.direct(inner, scenes) })
	if err := group.Wait(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx) // what ended the rest
		}
		return err
	}
	d.say("all records are in, and all that was planned has happened")
	for {
		wait, cancel := context.WithTimeout(ctx, quietLimit)
		before := d.ledger.now().arrived
		err := d.ledger.until(wait, func(l live) bool { return l.arrived == l.produced || l.arrived > before })
		cancel()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if l := d.ledger.now(); err != nil || l.arrived == l.produced {
			break
		}
	}
	for epoch, held := range d.spoiler.rest() {
		d.deliver(epoch, held) // late, though nothing of its key came after it
	}
	return nil
}

// terminal says how large the terminal is that w writes to; nil if it is none.
func terminal(w io.Writer) func() (int, int) {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	return func() (int, int) {
		columns, rows, err := term.GetSize(int(file.Fd()))
		if err != nil {
			return 100, 40
		}
		return columns, rows
	}
}

// frame is the present state, for the display: owners and checkpoints as the workers see them, records as the ledger does.
func (d *director) frame(o options) frame {
	l := d.ledger.now()
	f := frame{
		title:   fmt.Sprintf("shardwarden demo: %s, %d shards, %d workers, seed %d, leases of %v", o.backend, o.shards, o.workers, o.seed, leaseDuration),
		elapsed: d.ledger.elapsed(), total: o.records, put: l.produced, handled: l.arrived, more: max(0, l.delivered-l.arrived),
	}
	lines := map[string]*shardLine{}
	var order []string
	for _, m := range d.crew.all() {
		w := workerLine{name: m.name, state: d.crew.stateOf(m)}
		if w.state == running {
			for _, s := range m.worker.Status().Shards {
				id := string(s.Key.Shard)
				mine := string(s.Owner) == m.name
				if mine && s.State != worker.Ended {
					w.shards++
				}
				line, ok := lines[id]
				if ok && !mine {
					continue // its owner knows better
				}
				if !ok {
					line = &shardLine{}
					lines[id] = line
					order = append(order, id)
				}
				*line = shardLine{node: node{id: id}, state: string(s.State), owner: string(s.Owner), lag: -time.Second, checkpoint: s.Checkpoint.String()}
				if mine {
					line.lag = s.Lag
				}
				for _, p := range s.Parents {
					line.parents = append(line.parents, string(p))
				}
				line.put, line.got = d.ledger.of(id)
			}
		}
		f.workers = append(f.workers, w)
	}
	for _, id := range order {
		f.shards = append(f.shards, *lines[id])
	}
	if len(order) == 0 {
		f.shards = d.shown // nobody is left to ask
	}
	d.shown = f.shards
	return f
}
