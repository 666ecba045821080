// Consume a stream of one's own: a directory of append-only files (package linedir beside this says what they look like).
//
//	go run ./examples/customsource              a directory is made, filled, followed and removed again
//	go run ./examples/customsource -dir DIR     follows DIR until it is interrupted
//
// Lines come out as they go in, each behind the name of its file. The lease table is in memory here, so another run begins at the beginning; a
// table that lasts is another value of Store.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
	"github.com/shardwarden/shardwarden/examples/customsource/linedir"
	"github.com/shardwarden/shardwarden/leasestore/memory"
)

func main() {
	dir := flag.String("dir", "", "directory to follow")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case flag.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q: name the directory with -dir", flag.Arg(0))
	case *dir == "":
		err = demo(ctx, os.Stdout)
	default:
		err = consume(ctx, *dir, func(shard core.ShardID, r *core.Record) error {
			_, err := fmt.Fprintf(os.Stdout, "%s\t%s\t%s\n", shard, r.Key, r.Data)
			return err
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "customsource:", err)
		stop()
		os.Exit(1)
	}
}

// consume follows a directory until ctx ends.
func consume(ctx context.Context, dir string, handle func(core.ShardID, *core.Record) error) error {
	w, err := worker.New(worker.Config{
		Streams: worker.One(linedir.Source{Dir: dir}, core.FromHorizon),
		Store:   memory.New(),
		Process: func(_ context.Context, b *core.Batch) error {
			for i := range b.Records {
				if err := handle(b.Shard, &b.Records[i]); err != nil {
					return err
				}
			}
			return nil
		},
	}, worker.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))))
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// demo rotates a file while it is followed.
func demo(ctx context.Context, out io.Writer) error {
	dir, err := os.MkdirTemp("", "linedir-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, f := range []struct{ name, text string }{
		{"monday.log", "alice\ttea\nbob\tmilk\nalice\tbread"}, // the last line is not complete: its writer goes on below
		{"tuesday.log", "alice\tjam\nbob\thoney\n"},
	} {
		if err := os.WriteFile(filepath.Join(dir, f.name), []byte(f.text), 0o644); err != nil {
			return err
		}
	}
	ctx, done := context.WithCancel(ctx)
	defer done()
	var handled atomic.Int64
	return consume(ctx, dir, func(shard core.ShardID, r *core.Record) error {
		if _, err := fmt.Fprintf(out, "%s: %s orders %s\n", shard, r.Key, r.Data); err != nil {
			return err
		}
		switch handled.Add(1) {
		case 4: // all that is complete was read: go on with the line, and rotate
			if err := finish(dir); err != nil {
				return err
			}
		case 6:
			done()
		}
		return nil
	})
}

// finish completes the file of Monday, ends it, and lets it go on in Wednesday's.
func finish(dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, "monday.log"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteString(" and butter\n"); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "wednesday.log"), []byte("alice\tcheese\n"), 0o644); err != nil {
		return err
	}
	draft := filepath.Join(dir, "draft")
	if err := os.WriteFile(draft, []byte("wednesday\n"), 0o644); err != nil {
		return err
	}
	return os.Rename(draft, filepath.Join(dir, "monday.closed"))
}
