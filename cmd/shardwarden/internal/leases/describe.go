package leases

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/command"
	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/leasetable"
)

const describeAbout = `shardwarden leases describe: everything that is known about one lease, and about its parents and children. Reads only.

KEY is the id of the shard; where several streams have such a shard, STREAM/SHARD as leases list has them, or the row's own key.`

const describeExamples = `  shardwarden leases describe shardId-000000000003 --app billing --lag
  shardwarden leases describe 111122223333:orders:1719000000/shardId-000000000003 --app ledger`

// described is the JSON form.
type described struct {
	Lease   *leasetable.Lease  `json:"lease"`
	Owner   *leasetable.Worker `json:"owner,omitempty"`
	Related []leasetable.Lease `json:"related,omitempty"` // its parents and children that have leases
	KCL     *leasetable.KCL    `json:"kcl,omitempty"`
}

func describe(ctx context.Context, args []string, std streams) error {
	var o reading
	var key string
	f := command.NewFlags("shardwarden leases describe", describeAbout, describeExamples, std.out)
	f.Operand("KEY", &key)
	o.declare(f)
	f.Check(needKey(&key))
	if err := f.Parse(args); err != nil {
		return err
	}
	r, _, err := o.report(ctx)
	if err != nil {
		return err
	}
	l, err := r.Find(key)
	if err != nil {
		return err
	}
	d := described{Lease: l, KCL: r.KCL}
	for i := range r.Workers {
		if r.Workers[i].ID == l.Owner && l.Owner != "" {
			d.Owner = &r.Workers[i]
		}
	}
	for _, other := range r.Leases {
		if other.Stream == l.Stream && (slices.Contains(l.Parents, other.Shard) || slices.Contains(l.Children, other.Shard) || slices.Contains(other.Parents, l.Shard)) {
			d.Related = append(d.Related, other)
		}
	}
	if o.json {
		return printJSON(std.out, d)
	}
	var p page
	p.lease(l)
	if len(d.Related) > 0 {
		p.line("")
		var rows [][]string
		for i := range d.Related {
			x := &d.Related[i]
			relation := "parent"
			if !slices.Contains(l.Parents, x.Shard) {
				relation = "child"
			}
			rows = append(rows, []string{relation, x.Shard, owner(x), state(x), checkpoint(x)})
		}
		p.table([]string{"RELATED", "SHARD", "OWNER", "STATE", "CHECKPOINT"}, rows)
	}
	return p.to(std.out)
}

func needKey(key *string) func() error {
	return func() error {
		if *key == "" {
			return errors.New("which lease? Say the id of its shard, as leases list shows it")
		}
		return nil
	}
}

// lease is one lease with all of its columns.
func (p *page) lease(l *leasetable.Lease) {
	for _, row := range leaseLines(l) {
		p.line("%-16s %s", row[0], row[1])
	}
}

// leaseLines are name and value of what a lease has.
func leaseLines(l *leasetable.Lease) [][2]string {
	at := l.Checkpoint
	if l.Sub > 0 {
		at += fmt.Sprintf(":%d", l.Sub)
	}
	all := [][2]string{
		{"shard", l.Shard}, {"stream", l.Stream}, {"state", state(l)}, {"owner", owner(l)}, {"seen", age(l.Silence, l.State == leasetable.Held)}, {"asked for by", l.Next},
		{"counter", fmt.Sprint(l.Counter)}, {"checkpoint", at}, {"start", instant(l.Start)}, {"pending", l.Pending}, {"behind", lag(l.Lag)},
		{"parents", strings.Join(l.Parents, " ")}, {"children", strings.Join(l.Children, " ")}, {"run", l.Run},
	}
	if l.Ready {
		all = append(all, [2]string{"ready", "yes: its parents no longer matter"})
	}
	if l.Switches > 0 {
		all = append(all, [2]string{"owner changes", fmt.Sprintf("%d since the last checkpoint", l.Switches)})
	}
	if l.Throughput >= 0.05 { // below, it would read as 0
		all = append(all, [2]string{"throughput", fmt.Sprintf("%.1f KB/s", l.Throughput)})
	}
	out := all[:0]
	for _, row := range all {
		if row[1] != "" {
			out = append(out, row)
		}
	}
	return out
}
