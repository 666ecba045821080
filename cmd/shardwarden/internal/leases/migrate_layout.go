package leases

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/shardwarden/shardwarden/leasestore/dynamo"
)

// target is what --to means for a table as it was found. The rules of 3.x come in two layouts: a table that has everything in it keeps it there.
func target(to string, found dynamo.LayoutKind) dynamo.LayoutKind {
	switch {
	case to == "kcl2":
		return dynamo.KCL2
	case to == "single-table" || found == dynamo.KCL3Single || found == dynamo.Native:
		return dynamo.KCL3Single
	}
	return dynamo.KCL3Tables
}

// toLayout shows the plan, always, and carries it out where that is asked for.
func (m *migrate) toLayout(ctx context.Context, std streams) error {
	cfg, err := m.Config(ctx)
	if err != nil {
		return err
	}
	store := dynamo.New(cfg, m.App, append(m.Dynamo(), dynamo.Table(m.Name()), dynamo.Layout(dynamo.Auto), dynamo.SideTables(m.Coordinator, m.Metrics))...)
	found, err := store.Inspect(ctx)
	if err != nil {
		return err
	}
	to := target(m.to, found.Layout)
	if to == dynamo.KCL2 && found.Layout != to { // planning alone may take long
		if _, err := fmt.Fprintf(std.out, "looking at table %s; where no worker may run, it is watched for half a minute\n", m.Name()); err != nil {
			return err
		}
	}
	plan, err := store.PlanMigration(ctx, to)
	if err != nil {
		return err
	}
	var p page
	p.line("table %s is %s; it is to become %s", m.Name(), plan.From, plan.To)
	for i, s := range plan.Steps {
		p.line("%2d. %s", i+1, s.Text)
	}
	if plan.Next != "" {
		p.line("then: %s", plan.Next)
	}
	if err := p.to(std.out); err != nil {
		return err
	}
	switch {
	case len(plan.Refused) > 0:
		return fmt.Errorf("it can't be done now:\n  %s", strings.Join(plan.Refused, "\n  "))
	case len(plan.Steps) == 0:
		_, err = fmt.Fprintln(std.out, "there is nothing to do")
		return err
	case !m.yes:
		_, err = fmt.Fprintln(std.out, "nothing was changed; say --yes to do it")
		return err
	}
	done := 0
	var failed error
	err = store.Migrate(ctx, plan, func(s dynamo.MigrationStep) {
		done++
		if _, err := fmt.Fprintf(std.out, "done: %s\n", s.Text); err != nil {
			failed = errors.Join(failed, err)
		}
	})
	if err != nil {
		return errors.Join(fmt.Errorf("%d of %d steps are done; what is done stays, and the same command goes on from there: %w", done, len(plan.Steps), err), failed)
	}
	return failed
}
