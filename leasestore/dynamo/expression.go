package dynamo

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardwarden/shardwarden/core"
)

// expression gathers a condition and an update; names and values are those it uses, no more (the service refuses idle ones).
type expression struct {
	names            map[string]string
	values           map[string]types.AttributeValue
	conditions       []string
	set, remove, add []string
}

func newExpression() *expression {
	return &expression{names: map[string]string{}, values: map[string]types.AttributeValue{}}
}

// name and value make placeholders: some names are reserved words, and no text of a row belongs into an expression.
func (e *expression) name(attr string) string {
	e.names["#"+attr] = attr
	return "#" + attr
}

func (e *expression) value(v types.AttributeValue) string {
	p := ":" + strconv.Itoa(len(e.values))
	e.values[p] = v
	return p
}

func (e *expression) require(format string, args ...any) {
	e.conditions = append(e.conditions, fmt.Sprintf(format, args...))
}

func (e *expression) requireEqual(attr string, v types.AttributeValue) {
	e.require("%s = %s", e.name(attr), e.value(v))
}

func (e *expression) put(attr string, v types.AttributeValue) {
	e.set = append(e.set, e.name(attr)+" = "+e.value(v))
}

func (e *expression) drop(attrs ...string) {
	for _, a := range attrs {
		e.remove = append(e.remove, e.name(a))
	}
}

func (e *expression) plus(attr string, v types.AttributeValue) {
	e.add = append(e.add, e.name(attr)+" "+e.value(v))
}

// condition is nil where nothing is required.
func (e *expression) condition() *string {
	if len(e.conditions) == 0 {
		return nil
	}
	return new(strings.Join(e.conditions, " AND "))
}

func (e *expression) update() *string {
	var parts []string
	for _, p := range []struct {
		verb  string
		terms []string
	}{{"SET ", e.set}, {"REMOVE ", e.remove}, {"ADD ", e.add}} {
		if len(p.terms) > 0 {
			parts = append(parts, p.verb+strings.Join(p.terms, ", "))
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return new(strings.Join(parts, " "))
}

func (e *expression) placeholders() map[string]types.AttributeValue {
	if len(e.values) == 0 {
		return nil
	}
	return e.values
}

func (e *expression) attributeNames() map[string]string {
	if len(e.names) == 0 {
		return nil
	}
	return e.names
}

// same requires what m names to be as in seen. The forms are those of docs/reference/kcl.md 1.4, with the states that decodeLease reads as
// one taken together; stamped as there.
func (e *expression) same(seen *core.Lease, m core.Same, stamped bool) {
	if m&core.SameCounter != 0 {
		e.requireEqual(attrCounter, number(seen.Counter))
	}
	if m&core.SameNext != 0 {
		if stamped {
			e.sameOwnersStamped(seen, m&core.SameOwner != 0)
		} else {
			e.sameOwners(seen, m&core.SameOwner != 0)
		}
	}
	if m&core.SameCheckpoint != 0 {
		e.requireEqual(attrCheckpoint, text(seen.Checkpoint.String()))
		sub := e.name(attrSub)
		if seen.Checkpoint.Sub == 0 {
			e.require("(%s = %s OR attribute_not_exists(%s))", sub, e.value(number(0)), sub)
		} else {
			e.requireEqual(attrSub, number(int64(seen.Checkpoint.Sub)))
		}
	}
	if m&core.NotEnded != 0 {
		e.require("%s <> %s", e.name(attrCheckpoint), e.value(text(core.AtShardEnd.String())))
	}
	if m&core.Ended != 0 {
		e.requireEqual(attrCheckpoint, text(core.AtShardEnd.String()))
	}
}

func (e *expression) sameOwners(seen *core.Lease, withOwner bool) {
	first, current := e.name(attrOwner), e.name(attrCurrentOwner)
	if seen.Next != core.Nobody {
		e.requireEqual(attrOwner, text(string(seen.Next)))
		if withOwner {
			e.requireEqual(attrCurrentOwner, text(string(seen.Owner)))
		} else {
			e.require("attribute_exists(%s) AND %s <> %s", current, current, first)
		}
		return
	}
	if withOwner && seen.Owner == core.Nobody {
		e.require("attribute_not_exists(%s) AND attribute_not_exists(%s)", first, current)
		return
	}
	// No next owner: as a rule there is no checkpointOwner. One that stands alone or beside itself is what KCL 2.x, which does not know
	// the column, makes of a row in hand-over.
	e.require("(attribute_not_exists(%[1]s) OR attribute_not_exists(%[2]s) OR %[1]s = %[2]s)", current, first)
	if withOwner {
		me := e.value(text(string(seen.Owner)))
		e.require("(%s = %s OR %s = %s)", first, me, current, me)
	}
}

// sameOwnersStamped is sameOwners where a checkpointOwner counts only while the stamp of the ask names leaseOwner.
func (e *expression) sameOwnersStamped(seen *core.Lease, withOwner bool) {
	first := e.name(attrOwner)
	if seen.Next == core.Nobody && withOwner {
		if seen.Owner == core.Nobody {
			e.require("attribute_not_exists(%s)", first)
			return
		}
		e.requireEqual(attrOwner, text(string(seen.Owner)))
	}
	current, asked := e.name(attrCurrentOwner), e.name(attrAsked)
	if seen.Next == core.Nobody {
		e.require("(attribute_not_exists(%[1]s) OR attribute_not_exists(%[2]s) OR %[1]s = %[2]s OR attribute_not_exists(%[3]s) OR %[3]s <> %[2]s)", current, first, asked)
		return
	}
	e.requireEqual(attrOwner, text(string(seen.Next)))
	e.require("%s = %s", asked, first)
	if withOwner {
		e.requireEqual(attrCurrentOwner, text(string(seen.Owner)))
	} else {
		e.require("attribute_exists(%s) AND %s <> %s", current, current, first)
	}
}

// apply makes set's changes. stream is written with a run (see attrStream).
func (e *expression) apply(seen *core.Lease, m core.Same, set *core.Set, stream core.StreamID) error {
	if set.Bump {
		if m&core.SameCounter != 0 {
			e.put(attrCounter, number(seen.Counter+1))
		} else {
			e.plus(attrCounter, number(1))
		}
	}
	if err := e.applyOwners(seen, set); err != nil {
		return err
	}
	if err := e.applyCheckpoint(set); err != nil {
		return err
	}
	if set.Ready {
		e.put(attrReady, &types.AttributeValueMemberBOOL{Value: true})
	}
	switch {
	case set.Run != "":
		e.put(attrRun, text(set.Run))
		if stream != "" {
			e.put(attrStream, text(string(stream)))
		}
	case set.Owner != nil && *set.Owner != seen.Owner && m&(core.SameCounter|core.SameOwner) != 0:
		e.drop(attrRun) // or the former owner's would count again, if the lease ever came back to it without its doing
	}
	switch set.Switches {
	case core.SwitchAdd:
		e.plus(attrSwitches, number(1))
	case core.SwitchZero:
		e.put(attrSwitches, number(0))
	}
	if len(set.Children) > 0 {
		e.plus(attrChildren, shardSet(set.Children))
	}
	if set.Range != nil {
		e.put(attrRangeStart, text(formatHashKey(set.Range.Start)))
		e.put(attrRangeEnd, text(formatHashKey(set.Range.End)))
	}
	if set.Throughput != nil {
		v, err := throughput(*set.Throughput)
		if err != nil {
			return err
		}
		e.put(attrThroughput, v)
	}
	return nil
}

// pinned is the mask of an update: where it names only one of owner and next, the other must be as seen, since the two share a column.
func pinned(m core.Same, set *core.Set) core.Same {
	if (set.Owner == nil) != (set.Next == nil) {
		return m | core.SameOwner | core.SameNext
	}
	return m
}

func (e *expression) applyOwners(seen *core.Lease, set *core.Set) error {
	if set.Owner == nil && set.Next == nil {
		return nil
	}
	owner, next := seen.Owner, seen.Next
	if set.Owner != nil {
		owner = *set.Owner
	}
	if set.Next != nil {
		next = *set.Next
	}
	first, current, err := owners(owner, next)
	if err != nil {
		return err
	}
	for _, c := range []struct {
		attr string
		id   core.WorkerID
	}{{attrOwner, first}, {attrCurrentOwner, current}} {
		if c.id == core.Nobody {
			e.drop(c.attr)
		} else {
			e.put(c.attr, text(string(c.id)))
		}
	}
	if current == core.Nobody {
		e.drop(attrAsked)
	} else {
		e.put(attrAsked, text(string(first)))
	}
	return nil
}

func (e *expression) applyCheckpoint(set *core.Set) error {
	if p := set.Checkpoint; p != nil {
		if err := storable(p); err != nil {
			return err
		}
		e.put(attrCheckpoint, text(p.String()))
		e.put(attrSub, number(int64(p.Sub)))
	}
	switch {
	case set.StartAt != nil && !set.StartAt.IsZero():
		e.put(attrStartAt, text(formatInstant(*set.StartAt)))
		if p := set.Checkpoint; p != nil {
			e.put(attrStartFor, text(p.String()))
		} else { // whatever checkpoint the row has when the write is applied
			e.set = append(e.set, e.name(attrStartFor)+" = "+e.name(attrCheckpoint))
		}
	case set.StartAt != nil || set.Checkpoint != nil:
		e.drop(attrStartAt, attrStartFor)
	}
	var pending *core.Pending
	switch {
	case set.Pending != nil:
		pending = *set.Pending
	case set.Checkpoint == nil:
		return nil
	}
	if pending == nil {
		e.drop(attrPending, attrPendingSub, attrPendingState)
		return nil
	}
	if err := storable(&pending.At); err != nil {
		return fmt.Errorf("pending: %w", err)
	}
	e.put(attrPending, text(pending.At.String()))
	e.put(attrPendingSub, number(int64(pending.At.Sub)))
	if len(pending.State) > 0 {
		e.put(attrPendingState, &types.AttributeValueMemberB{Value: pending.State})
	} else {
		e.drop(attrPendingState)
	}
	return nil
}
