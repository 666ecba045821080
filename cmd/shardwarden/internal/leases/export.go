package leases

import (
	"bufio"
	"context"
	"encoding/json"

	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/command"
	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/leasetable"
)

const exportAbout = `shardwarden leases export: every row of the lease table, and of the KCL's side tables where there are any, whole. Reads only.

One JSON object a line: {"table": …, "attributes": {name: {type: value}}}. Rows that nobody knows and rows that can't be read are in it too. Keep it before you
change anything, or compare two of them. Rows come in no order: sort the lines.`

const exportExamples = `  shardwarden leases export --app billing | sort > before.jsonl
  shardwarden leases export --app billing | jq -c 'select(.attributes.leaseOwner.S == "worker-7")'`

func export(ctx context.Context, args []string, std streams) error {
	var o leasetable.Flags
	f := command.NewFlags("shardwarden leases export", exportAbout, exportExamples, std.out)
	o.Declare(f)
	if err := f.Parse(args); err != nil {
		return err
	}
	t, err := o.Open(ctx)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(std.out)
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	for row, err := range t.Rows(ctx) {
		if err != nil {
			_ = out.Flush() // what came before the error may help
			return err
		}
		if err := e.Encode(row); err != nil {
			return err
		}
	}
	return out.Flush()
}
