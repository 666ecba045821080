package ots

import (
	"fmt"
	"slices"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/shardwarden/shardwarden/core"
)

// change is an update of a lease row: what must hold, and what is written.
type change struct {
	rowWriter
	conditions []condition
	drop       []string
	add        map[string]int64
}

// newChange makes the update that same and set mean. docs/reference/tablestore.md 3.5 has Java's, which these are where Java knows the write.
func newChange(seen *core.Lease, same core.Same, set *core.Set) (*change, error) {
	c := &change{rowWriter: rowWriter{row: Columns{}}, add: map[string]int64{}}
	asks := set.Owner == nil && set.Next != nil && *set.Next != core.Nobody
	c.conditions = conditions(seen, pinned(same, set), asks)
	if set.Bump {
		if same&core.SameCounter != 0 {
			c.row[colCounter] = seen.Counter + 1
		} else {
			c.add[colCounter] = 1
		}
	}
	c.owners(seen, same, set)
	c.checkpoint(seen, set)
	if set.Ready {
		c.row[colReady] = true
	}
	switch set.Switches {
	case core.SwitchAdd:
		c.add[colSwitches] = 1
	case core.SwitchZero:
		c.row[colSwitches] = int64(0)
	}
	for _, id := range set.Children {
		c.text(childColumn(id), string(id))
	}
	if set.Range != nil {
		c.text(colRange, formatRange(set.Range))
	}
	if set.Throughput != nil {
		c.throughput(*set.Throughput)
	}
	if c.err != nil {
		return nil, fmt.Errorf("lease %s: %w", seen.Key, c.err)
	}
	return c, nil
}

// pinned is the mask of an update. What it writes beside a value that it does not name must be sure of that value: a new owner or run beside
// who is next, a start or a prepared checkpoint beside the checkpoint they belong to.
func pinned(m core.Same, set *core.Set) core.Same {
	if set.Next == nil && (set.Owner != nil || set.Run != "") {
		m |= core.SameNext
	}
	if set.Checkpoint == nil && (set.StartAt != nil && !set.StartAt.IsZero() || set.Pending != nil && *set.Pending != nil) {
		m |= core.SameCheckpoint
	}
	return m
}

// owners writes owner, stealer and run.
func (c *change) owners(seen *core.Lease, same core.Same, set *core.Set) {
	owner, next := seen.Owner, seen.Next
	if set.Owner != nil {
		owner = *set.Owner
		c.text(colOwner, string(owner))
	}
	if set.Next != nil {
		next = *set.Next
	}
	if set.Owner != nil || set.Next != nil {
		if err := representable(owner, next); err != nil {
			c.fail(err)
		}
	}
	accepts := core.RunWorker(set.Run) == owner && set.Run != ""
	switch {
	case set.Owner != nil && set.Next != nil && owner != seen.Owner && owner != core.Nobody && next == core.Nobody && !accepts:
		// Given to somebody: the state in which a Java worker takes what it was handed.
		c.text(colStealer, string(owner))
	case set.Owner != nil || set.Next != nil:
		c.text(colStealer, string(next))
	case accepts && seen.Next == core.Nobody:
		c.text(colStealer, "") // the new owner's first write; it may still stand there from the hand-over
	}
	switch {
	case set.Run != "":
		c.text(colRun, set.Run)
	case set.Owner != nil && *set.Owner != seen.Owner && same&(core.SameCounter|core.SameOwner) != 0:
		c.drop = append(c.drop, colRun) // or the former owner's would count again, if the lease ever came back to it without its doing
	}
}

// checkpoint writes it, with what belongs to it.
func (c *change) checkpoint(seen *core.Lease, set *core.Set) {
	word := seen.Checkpoint.String() // pinned, where it is needed
	if p := set.Checkpoint; p != nil {
		word = c.position(colCheckpoint, p)
		c.text(colCheckpoint, word)
		if p.Sub > 0 {
			c.text(colTaken, bindTaken(word, p.Sub))
		} else {
			c.drop = append(c.drop, colTaken)
		}
	}
	switch {
	case set.StartAt != nil && !set.StartAt.IsZero():
		c.text(colStart, bind(word, formatInstant(*set.StartAt)))
	case set.StartAt != nil || set.Checkpoint != nil:
		c.drop = append(c.drop, colStart)
	}
	if set.Pending == nil && set.Checkpoint == nil {
		return
	}
	if set.Pending != nil && *set.Pending != nil {
		c.pending(word, *set.Pending)
	} else {
		c.drop = append(c.drop, colPending)
	}
	if _, ok := c.row[colPendingState]; !ok {
		c.drop = append(c.drop, colPendingState)
	}
}

// request is the change as the SDK takes it. The row must exist: else an update would bring a deleted lease back as a stub.
func (c *change) request(table string, key *tablestore.PrimaryKey) *tablestore.UpdateRowChange {
	u := &tablestore.UpdateRowChange{TableName: table, PrimaryKey: key}
	for _, name := range sortedNames(c.row) {
		u.PutColumn(name, c.row[name])
	}
	slices.Sort(c.drop)
	for _, name := range c.drop {
		u.DeleteColumn(name)
	}
	for _, name := range sortedNames(c.add) {
		u.IncrementColumn(name, c.add[name])
	}
	u.SetCondition(tablestore.RowExistenceExpectation_EXPECT_EXIST)
	if f := and(c.conditions...); f != nil {
		u.SetColumnCondition(f)
	}
	return u
}
