package leases

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/command"
	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/leasetable"
	"github.com/shardwarden/shardwarden/core"
)

const moveAbout = `shardwarden leases move: have a lease handed to a worker, without a record twice.

The owner is asked to hand it over, as a worker or the leader would ask: it finishes its batch, stores its checkpoint and makes the other the owner. Watch it with leases watch. A free lease is
given to the worker at once. A fleet that finds its shares uneven afterwards moves a lease back, so move one that evens them out, or stop the fleet's other reasons first.

A Java worker of the KCL 2.x hears no request, and takes up no lease that it is given: there, --force takes the lease from it for one of ours under the lease's counter, and what it
had not stored comes again.`

const moveExamples = `  shardwarden leases move shardId-000000000003 --to host-7:4711 --app billing`

func move(ctx context.Context, args []string, std streams) error {
	var a act
	var to string
	f := command.NewFlags("shardwarden leases move", moveAbout, moveExamples, std.out)
	f.Operand("KEY", &a.key)
	a.declare(f)
	f.StringVar(&to, "to", "", "id of the worker that shall have it (required)")
	f.BoolVar(&a.force, "force", false, "take it from a worker that hears no request; give it to one that was not seen to live")
	f.Require("to")
	f.Check(needKey(&a.key))
	if err := f.Parse(args); err != nil {
		return err
	}
	r, t, l, err := a.find(ctx)
	if err != nil {
		return err
	}
	m := mover{report: r, lease: l, to: to, force: a.force}
	how, err := m.plan()
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(std.out, "%s at %s: %s\n%s\n", l.Name(), checkpoint(l), lives(l), how); err != nil || how == alreadyThere {
		return err
	}
	if err := a.confirm(std, "Move it?"); err != nil {
		return err
	}
	before, after, err := write(ctx, t, l.Core().Key, m.decide)
	if err != nil {
		return err
	}
	var p page
	p.changed(&before, &after)
	return p.to(std.out)
}

// mover decides how a lease gets to a worker.
type mover struct {
	report *leasetable.Report
	lease  *leasetable.Lease
	to     string
	force  bool
}

const alreadyThere = "it is there already; nothing was changed"

// plan says in words what would be done, or why it is not.
func (m *mover) plan() (string, error) {
	l := m.lease
	target := slices.IndexFunc(m.report.Workers, func(w leasetable.Worker) bool { return w.ID == m.to })
	kcl2 := m.report.KCL != nil && m.report.KCL.Regime == "kcl2"
	switch {
	case l.State == leasetable.Ended:
		return "", fmt.Errorf("shard %s was read to its end: there is nothing to move", l.Shard)
	case l.Owner == m.to && l.Next == "":
		return alreadyThere, nil
	case l.Owner == m.to:
		return fmt.Sprintf("it stays with %s: the request of %s is taken back", m.to, l.Next), nil
	case target < 0 && !m.force:
		return "", fmt.Errorf("no worker %s is to be seen in table %s (%s): a lease given to one that is not there would wait until it expires; --force does it all the same", m.to, m.report.Table, m.names())
	}
	if target >= 0 {
		w := m.report.Workers[target]
		switch {
		case kcl2 && w.Kind == leasetable.Java:
			return "", fmt.Errorf("worker %s is a Java worker of the KCL 2.x, which takes leases and picks up none that it is given: release the lease instead, and the fleet's takers decide", m.to)
		case !w.Lives(m.report.Time) && !m.force:
			return "", fmt.Errorf("worker %s was silent for the %s it was watched: it may be gone, and the lease would wait until it expires; watch longer (--observe), or --force", m.to, short(m.report.Watched))
		}
	}
	switch {
	case l.Owner == "":
		return fmt.Sprintf("it is given to %s at once", m.to), nil
	case m.deaf() && !m.force:
		return "", fmt.Errorf("its owner %s is a Java worker of the KCL 2.x, which hears no request: leases release frees it for anybody; --force takes it for %s at once, and what %s had not stored comes again", l.Owner, m.to, l.Owner)
	case m.deaf():
		return fmt.Sprintf("it is taken from %s for %s; what %s had not stored comes again", l.Owner, m.to, l.Owner), nil
	case l.Next != "" && l.Next != m.to:
		return fmt.Sprintf("%s is asked to hand it to %s instead of %s, who asked before", l.Owner, m.to, l.Next), nil
	}
	return fmt.Sprintf("%s is asked to hand it to %s", l.Owner, m.to), nil
}

// deaf: the owner would never look at a request.
func (m *mover) deaf() bool {
	return m.report.KCL != nil && m.report.KCL.Regime == "kcl2" && m.lease.Kind == leasetable.Java
}

func (m *mover) names() string {
	var ids []string
	for _, w := range m.report.Workers {
		ids = append(ids, w.ID)
	}
	if len(ids) == 0 {
		return "none is"
	}
	return strings.Join(ids, ", ") + " are"
}

// decide is the write for the row as it is now.
func (m *mover) decide(now *core.Lease) (core.Write, error) {
	switch {
	case now.Ended():
		return core.Write{}, errors.New("the shard was read to its end meanwhile; nothing was changed")
	case string(now.Owner) != m.lease.Owner:
		return core.Write{}, fmt.Errorf("%w: %s owns it by now; nothing was changed", errChanged, nobody(now.Owner))
	case string(now.Owner) == m.to:
		return core.Unask(), nil
	case now.Owner == core.Nobody || m.deaf():
		return core.Assign(now, core.WorkerID(m.to)), nil
	}
	return core.AskFor(core.WorkerID(m.to)), nil
}
