// Shardwarden is the program beside the library: it shows the whole at work (demo), consumes a stream from the command line (consume),
// works on lease tables (leases), looks for what is wrong with a fleet (doctor), and serves the emulators (emulator).
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/command"
	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/consume"
	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/demo"
	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/doctor"
	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/emulate"
	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/leases"
)

const help = `Shardwarden lets a fleet of workers share the shards of a stream: each record at least once, in order per key, parents before children.

Usage: shardwarden COMMAND [flags]

  demo                           play a whole application in one process, and check it
  consume kinesis|tablestore     join an application as one worker; one JSON object per record on stdout
  leases list|describe|watch|export
                                 what is in a lease table: who has which shard, how far they are
  leases release|rewind|move     change single leases by hand
  leases migrate                 turn a lease table into one of another layout
  doctor kinesis                 look for what does not fit in a fleet on Kinesis and DynamoDB, and say what to do
  emulator kinesis|dynamodb|tablestore|all
                                 serve the emulators to any SDK
  version                        say which version this is
  help                           this

shardwarden COMMAND --help says more, with examples.
`

type runner func(ctx context.Context, args []string, stdout, stderr io.Writer) error

var commands = map[string]runner{
	"demo":    demo.Run,
	"consume": consume.Run,
	"leases": func(ctx context.Context, args []string, stdout, stderr io.Writer) error {
		return leases.Run(ctx, args, os.Stdin, stdout, stderr)
	},
	"doctor":   doctor.Run,
	"emulator": emulate.Run,
	"version":  version,
}

func main() {
	os.Exit(command.Report(os.Stderr, run(context.Background(), os.Args[1:], os.Stdout, os.Stderr)))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		fmt.Fprint(stderr, help)
		return &command.ExitError{Status: command.Misuse}
	}
	switch args[0] {
	case "help", "--help", "-h":
		if len(args) > 1 {
			return run(ctx, append(args[1:], "--help"), stdout, stderr)
		}
		fmt.Fprint(stdout, help)
		return nil
	case "--version":
		return version(ctx, nil, stdout, stderr)
	}
	c, ok := commands[args[0]]
	if !ok {
		return &command.UsageError{Command: "shardwarden", Err: fmt.Errorf("there is no command %q: it is one of demo, consume, leases, doctor, emulator, version, help", args[0])}
	}
	return c(ctx, args[1:], stdout, stderr)
}

func version(_ context.Context, args []string, stdout, _ io.Writer) error {
	if err := command.NewFlags("shardwarden version", "shardwarden version: version and commit the program was built from.", "", stdout).Parse(args); err != nil {
		return err
	}
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return fmt.Errorf("this program was built without build information")
	}
	commit, changed := "", ""
	for _, s := range b.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = " " + s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = " with changes"
		}
	}
	fmt.Fprintf(stdout, "shardwarden %s%s%s, %s\n", b.Main.Version, commit, changed, b.GoVersion)
	return nil
}
