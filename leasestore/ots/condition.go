package ots

import (
	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/shardwarden/shardwarden/core"
)

// A column condition, as a tree: the service takes AND and OR of two (docs/reference/tablestore.md 1.7).
type condition = tablestore.ColumnFilter

// compare holds where the column is there and compares so.
func compare(name string, how tablestore.ComparatorType, v any) condition {
	c := tablestore.NewSingleColumnCondition(name, how, v)
	c.FilterIfMissing, c.LatestVersionOnly = true, true
	return c
}

func equal(name string, v any) condition { return compare(name, tablestore.CT_EQUAL, v) }

// missingOr holds where the column is missing too.
func missingOr(name string, how tablestore.ComparatorType, v any) condition {
	c := compare(name, how, v).(*tablestore.SingleColumnCondition)
	c.FilterIfMissing = false
	return c
}

func join(op tablestore.LogicalOperator, all []condition) condition {
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	c := tablestore.NewCompositeColumnCondition(op)
	c.AddFilter(all[0])
	c.AddFilter(join(op, all[1:]))
	return c
}

func and(all ...condition) condition { return join(tablestore.LO_AND, all) }
func or(all ...condition) condition  { return join(tablestore.LO_OR, all) }

// conditions are what m names, to be as in seen. askStrictly: that nobody is the next means an empty LeaseStealer, as Java demands before it
// steals; else a stealer who is the owner means it too.
func conditions(seen *core.Lease, m core.Same, askStrictly bool) []condition {
	var all []condition
	if m&core.SameCounter != 0 {
		all = append(all, equal(colCounter, seen.Counter))
	}
	if m&core.SameOwner != 0 {
		all = append(all, equal(colOwner, string(seen.Owner)))
	}
	if m&core.SameNext != 0 {
		all = append(all, sameNext(seen, askStrictly))
	}
	if m&core.SameCheckpoint != 0 {
		all = append(all, sameCheckpoint(&seen.Checkpoint)...)
	}
	if m&core.NotEnded != 0 {
		all = append(all, compare(colCheckpoint, tablestore.CT_NOT_EQUAL, core.AtShardEnd.String()))
	}
	if m&core.Ended != 0 {
		all = append(all, equal(colCheckpoint, core.AtShardEnd.String()))
	}
	return all
}

// sameNext covers the states of a row that decodeLease reads as one next owner; but a row that was handed to another owner than the one seen is
// not taken for one without a next owner, since the service compares no two columns.
func sameNext(seen *core.Lease, strictly bool) condition {
	if seen.Next != core.Nobody {
		return and(equal(colStealer, string(seen.Next)), compare(colOwner, tablestore.CT_NOT_EQUAL, ""), compare(colOwner, tablestore.CT_NOT_EQUAL, string(seen.Next)))
	}
	none := missingOr(colStealer, tablestore.CT_EQUAL, "")
	if strictly {
		return none
	}
	if seen.Owner == core.Nobody {
		return or(none, equal(colOwner, ""))
	}
	owner := string(seen.Owner)
	return or(none, and(equal(colStealer, owner), equal(colOwner, owner)))
}

// sameCheckpoint compares the token and what was taken inside it. Nothing was taken where sw_taken is missing or has the mark of another
// checkpoint, so is not one of the texts that begin with this one's: blanks sort right before exclamation marks.
func sameCheckpoint(p *core.Position) []condition {
	word := p.String()
	at := equal(colCheckpoint, word)
	if p.Anchor == core.Horizon {
		at = or(at, equal(colCheckpoint, "")) // as rowReader.checkpoint
	}
	if p.Sub > 0 {
		return []condition{at, equal(colTaken, bindTaken(word, p.Sub))}
	}
	mark := digest(word)
	return []condition{at, or(missingOr(colTaken, tablestore.CT_LESS_THAN, mark+" "), missingOr(colTaken, tablestore.CT_GREATER_EQUAL, mark+"!"))}
}
