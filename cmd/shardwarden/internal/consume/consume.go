// Package consume joins an application as one worker and prints the records it gets.
package consume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/command"
	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/interrupt"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
)

const about = `shardwarden consume kinesis|tablestore: join an application as one worker and print the records of its share of the stream.`

const aboutAll = `Each record is one JSON object on stdout, with the keys stream shard sequence sub key arrived data, arrived in milliseconds since 1970. A record
is acknowledged once it was written, so after a kill -9 some may come again and none is lost. Logs go to stderr.

SIGINT or SIGTERM finishes what is being printed, stores the checkpoints, gives the leases up and exits with 0; a second one, half a second
later or more, ends it at once. A reader of stdout that goes away ends it in order too. Exit status 1: it could not go on; 2: the command line
makes no sense.`

// service is what is particular about a kind of stream: its flags, and how it is reached.
type service interface {
	name() string     // as the command line has it
	about() string    // what --help says of it
	examples() string // below the flags
	flags(*command.Flags)
	// connect makes the clients. It asks nothing of the stream yet.
	connect(ctx context.Context, start core.Position, log *slog.Logger) (core.Catalog, core.LeaseStore, error)
	// adjust sets what only this kind of stream or lease table has.
	adjust(*worker.Config)
	// sharing is the flag by which Java workers are let into the lease table.
	sharing() string
	// data is the form in which records hold their data.
	data() form
}

func services() []service { return []service{new(kinesisFlags), new(tablestoreFlags)} }

// options are what all services have in common.
type options struct {
	service
	worker, from, events    string
	lease, checkpoint, idle time.Duration
	max                     int64
	text                    bool
	start                   core.Position
}

// Run is the command.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	name := ""
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		name, args = args[0], args[1:]
	}
	all := services()
	i := slices.IndexFunc(all, func(s service) bool { return s.name() == name })
	if i < 0 {
		return which(name, args, all, stdout)
	}
	o := options{service: all[i]}
	if err := o.flags(stdout).Parse(args); err != nil {
		return err
	}
	ctx, stop := interrupt.Context(ctx)
	defer stop()
	signal.Ignore(syscall.SIGPIPE) // so that a reader who went away is an error of the write
	return o.consume(ctx, stdout, slog.New(slog.NewTextHandler(stderr, nil)))
}

// which answers a command line that names no service that there is.
func which(name string, args []string, all []service, stdout io.Writer) error {
	var names, helps []string
	for _, s := range all {
		names = append(names, s.name())
		helps = append(helps, "  shardwarden consume "+s.name()+" --help")
	}
	f := command.NewFlags("shardwarden consume "+strings.Join(names, "|"), about+"\n\n"+aboutAll, strings.Join(helps, "\n"), stdout)
	if slices.Contains(args, "--help") || slices.Contains(args, "-h") {
		return f.Parse([]string{"--help"})
	}
	if name == "" {
		return f.Bad("consume what? Say one of %s", strings.Join(names, ", "))
	}
	return f.Bad("%q cannot be consumed from here: it is one of %s", name, strings.Join(names, ", "))
}

func (o *options) command() string { return "shardwarden consume " + o.name() }

func (o *options) flags(stdout io.Writer) *command.Flags {
	f := command.NewFlags(o.command(), o.about()+"\n\n"+aboutAll, o.examples(), stdout)
	o.service.flags(f)
	f.StringVar(&o.worker, "worker-id", "", "name of this worker in the lease table (default: host, process and a random part)")
	f.StringVar(&o.from, "from", "trim-horizon", "where an application begins that has no leases yet: trim-horizon, latest, or a time as 2006-01-02T15:04:05Z")
	f.DurationVar(&o.lease, "lease-duration", 10*time.Second, "how long a worker is silent before others take its leases; the same for all of an application")
	f.DurationVar(&o.checkpoint, "checkpoint-interval", 5*time.Second, "how long a printed record may wait to be stored as done")
	f.Int64Var(&o.max, "max", 0, "print so many records, then stop in order (default: no limit)")
	f.DurationVar(&o.idle, "idle-exit", 0, "stop in order once no record came for so long (default: never)")
	f.StringVar(&o.events, "events", "", "append what happens to this file, one JSON object a line (docs/events.md)")
	f.BoolVar(&o.text, "text", false, "print data that is UTF-8 as one string, under the key text instead of data")
	f.Positive("lease-duration", &o.lease)
	f.Positive("checkpoint-interval", &o.checkpoint)
	f.Positive("idle-exit", &o.idle)
	f.Check(func() error {
		if f.Changed("max") && o.max < 1 {
			return fmt.Errorf("--max is %d: must be at least 1", o.max)
		}
		return nil
	})
	f.Check(func() (err error) { o.start, err = parseStart(o.from); return err })
	return f
}

func parseStart(from string) (core.Position, error) {
	switch from {
	case "trim-horizon":
		return core.FromHorizon, nil
	case "latest":
		return core.FromLatest, nil
	}
	t, err := time.Parse(time.RFC3339, from)
	if err != nil {
		return core.Position{}, fmt.Errorf("--from is %q: must be trim-horizon, latest, or a time such as 2006-01-02T15:04:05Z", from)
	}
	return core.From(t), nil
}

// consume runs a worker until something ends it.
func (o *options) consume(ctx context.Context, stdout io.Writer, log *slog.Logger) (err error) {
	opts := []worker.Option{worker.WithLogger(log)}
	if o.events != "" {
		events, e := openEvents(o.events)
		if e != nil {
			return fmt.Errorf("--events: %w", e)
		}
		defer func() {
			if e := events.Close(); e != nil {
				err = errors.Join(err, fmt.Errorf("--events: %w", e))
			}
		}()
		opts = append(opts, worker.WithHooks(events))
	}
	defer context.AfterFunc(ctx, func() {
		log.Info("stopping in order; once more ends it at once", "signal", context.Cause(ctx))
	})()
	catalog, store, err := o.connect(ctx, o.start, log)
	if err != nil {
		return err
	}
	streams := &named{Catalog: catalog}
	work, end := context.WithCancelCause(ctx)
	defer end(nil)
	p := &printer{out: stdout, streams: streams, form: o.data(), max: o.max, end: end}
	if o.text {
		p.form = asText
	}
	opts = append(opts, worker.WithHooks(p, streams))
	config := worker.Config{
		ID: core.WorkerID(o.worker), Streams: streams, Store: store, Process: p.process,
		LeaseDuration: o.lease, CheckpointEvery: o.checkpoint, StallAfter: max(time.Minute, o.lease),
	}
	o.adjust(&config)
	w, err := worker.New(config, opts...)
	if err != nil {
		return &command.UsageError{Command: o.command(), Err: err}
	}
	// Asked before the worker does, so that no lease table is made for a stream that is not there.
	_, err = streams.Streams(ctx)
	if ctx.Err() != nil {
		return o.outcome(log, context.Cause(ctx), nil)
	}
	if err != nil {
		return err
	}
	var watching sync.WaitGroup
	if o.idle > 0 {
		watching.Go(func() { p.watch(work, o.idle) })
	}
	err = w.Run(work)
	why := context.Cause(work)
	end(nil)
	watching.Wait()
	return o.outcome(log, why, err)
}

// outcome says what the end of the worker means for the program: why it was asked to end, nil if it was not, and what it returned.
func (o *options) outcome(log *slog.Logger, why, err error) error {
	signal, asked := errors.AsType[interrupt.Signal](why)
	switch {
	case asked:
		log.Info("stopped in order", "why", signal.Error())
	case errors.Is(why, errEnough), errors.Is(why, errIdle), errors.Is(why, errReader):
		log.Info("stopped in order", "why", why.Error())
	case why != nil:
		return errors.Join(why, err)
	case errors.Is(err, core.ErrForeignWorker):
		return fmt.Errorf("%w; %s lets it share the table", err, o.sharing())
	}
	return err
}
