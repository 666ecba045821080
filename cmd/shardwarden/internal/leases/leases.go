// Package leases shows lease tables, and changes single leases of them by hand.
package leases

import (
	"context"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/command"
	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/interrupt"
)

const about = `shardwarden leases: what is in a lease table, of DynamoDB or Tablestore, whoever wrote it; and changes to it by hand.

  list       who has which shard, and how far they are
  describe   everything about one lease
  watch      the same as it changes
  export     every row, whole, as JSON
  release    take a lease from its owner, for anybody to take
  rewind     begin a shard again at another place
  move       have a lease handed to a worker
  migrate    turn the table into one of another layout

The first four only read. The others ask before they do anything, and say what they changed.`

const examples = `  shardwarden leases list --app billing
  shardwarden leases list --app billing --stream orders --json      # with how far behind each shard is
  shardwarden leases describe shardId-000000000003 --app billing
  shardwarden leases list --instance shop --status-table orders_status --endpoint https://shop.cn-hangzhou.ots.aliyuncs.com`

// streams are the standard ones.
type streams struct {
	in    io.Reader
	out   io.Writer
	asks  bool // there is somebody at in who can be asked
	draws bool // out is a screen
}

// sub is a subcommand.
type sub struct {
	name string
	run  func(ctx context.Context, args []string, std streams) error
}

func subs() []sub {
	return []sub{
		{"list", list}, {"describe", describe}, {"watch", watch}, {"export", export},
		{"release", release}, {"rewind", rewind}, {"move", move}, {"migrate", migrateTable},
	}
}

// Run is the command.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, _ io.Writer) error {
	var names []string
	for _, s := range subs() {
		names = append(names, s.name)
	}
	f := command.NewFlags("shardwarden leases "+strings.Join(names, "|"), about, examples, stdout)
	if len(args) == 0 {
		return f.Bad("leases what? Say one of %s", strings.Join(names, ", "))
	}
	i := slices.Index(names, args[0])
	if i < 0 {
		if err := f.Parse(args); err != nil && (args[0] == "--help" || args[0] == "-h") {
			return err
		}
		return f.Bad("leases %q: say one of %s", args[0], strings.Join(names, ", "))
	}
	ctx, stop := interrupt.Context(ctx)
	defer stop()
	return subs()[i].run(ctx, args[1:], streams{in: stdin, out: stdout, asks: isTerminal(stdin), draws: isTerminal(stdout)})
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
