package dynamo

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardwarden/shardwarden/core"
)

// Attributes are the columns of a row by name.
type Attributes = map[string]types.AttributeValue

// kind tells the rows of a lease table apart.
type kind uint8

const (
	isOther       kind = iota // none of ours and none of the KCL's: skipped
	isLease                   // or meant as one
	isWorker                  // a worker that announced itself
	isCoordinator             // of the KCL's coordinator: leader lock, migration, stream
)

// kindOf goes by entityType, and without it as KCL 3.5 does by key and content: what has neither counter nor checkpoint is no lease.
func kindOf(row Attributes) kind {
	if entity, ok := row[attrEntity].(*types.AttributeValueMemberS); ok {
		switch {
		case entity.Value == entityLease:
			return isLease
		case entity.Value == entityWorker:
			return isWorker
		case coordinatorEntities[entity.Value]:
			return isCoordinator
		}
		return isOther
	}
	if key, ok := row[attrKey].(*types.AttributeValueMemberS); ok && coordinatorKeys[key.Value] {
		return isCoordinator
	}
	if row[attrCounter] == nil && row[attrCheckpoint] == nil {
		return isOther
	}
	return isLease
}

// decodeLease reads a lease row of any KCL and of ours. Key.Stream is what its key or its stamp says, empty where only others have
// written the row of a table of one stream. stamped: an ask counts only with its stamp. Columns it does not know are in Raw. An error is a
// *core.RowError.
func decodeLease(row Attributes, stamped bool) (core.Lease, error) {
	r := rowReader{row: row}
	key := r.text(attrKey)
	l := core.Lease{Key: r.keyOf()}
	// docs/reference/kcl.md 3.5: leaseOwner is the next owner as long as checkpointOwner names the current one. A KCL 2.x, which does not know
	// that, changes leaseOwner and leaves checkpointOwner behind: beside such workers only an ask with a stamp that fits is one.
	l.Owner = core.WorkerID(r.optional(attrOwner))
	asked := core.WorkerID(r.optional(attrAsked))
	if current := core.WorkerID(r.optional(attrCurrentOwner)); current != core.Nobody && (!stamped || l.Owner != core.Nobody && asked == l.Owner) {
		if l.Owner != current {
			l.Next = l.Owner
		}
		l.Owner = current
	}
	l.Counter = r.integer(attrCounter)
	l.Checkpoint = r.position(attrCheckpoint, attrSub)
	if row[attrPending] != nil {
		l.Pending = &core.Pending{At: r.position(attrPending, attrPendingSub), State: r.bytes(attrPendingState)}
	}
	if row[attrSwitches] != nil {
		l.Switches = r.integer(attrSwitches)
	}
	l.Parents, l.Children = r.shards(attrParents), r.shards(attrChildren)
	if row[attrRangeStart] != nil && row[attrRangeEnd] != nil {
		var err error
		if l.Range, err = parseRange(r.text(attrRangeStart), r.text(attrRangeEnd)); err != nil {
			r.fail("%w", err)
		}
	}
	if row[attrThroughput] != nil {
		l.Throughput = r.float(attrThroughput)
	}
	l.Run = core.BoundRun(r.optional(attrRun), l.Owner)
	l.Ready = r.flag(attrReady)
	// Whoever checkpoints without knowing our columns leaves the start behind.
	if at := r.optional(attrStartAt); at != "" && r.optional(attrStartFor) == l.Checkpoint.String() {
		l.StartAt = r.instant(attrStartAt, at)
	}
	for name, v := range row {
		if !leaseAttrs[name] {
			if l.Raw == nil {
				l.Raw = Attributes{}
			}
			l.Raw.(Attributes)[name] = v
		}
	}
	if r.err != nil {
		return l, &core.RowError{Key: l.Key, Row: key, Err: r.err}
	}
	return l, nil
}

// encodeLease is a row to create, in a table of one stream, as the KCL makes it, with our columns beside; entity says whether the table is one whose rows carry
// their type.
func encodeLease(l *core.Lease, stream core.StreamID, entity bool) (Attributes, error) {
	if err := checkKey(l.Key); err != nil {
		return nil, err
	}
	if err := storable(&l.Checkpoint); err != nil {
		return nil, err
	}
	row := Attributes{
		attrKey:        text(string(l.Key.Shard)),
		attrCounter:    number(l.Counter),
		attrCheckpoint: text(l.Checkpoint.String()),
		attrSub:        number(int64(l.Checkpoint.Sub)),
		attrSwitches:   number(l.Switches),
	}
	put := func(name string, v types.AttributeValue, present bool) {
		if present {
			row[name] = v
		}
	}
	put(attrEntity, text(entityLease), entity)
	put(attrStream, text(string(stream)), stream != "")
	owner, current, err := owners(l.Owner, l.Next)
	if err != nil {
		return nil, err
	}
	put(attrOwner, text(string(owner)), owner != core.Nobody)
	put(attrCurrentOwner, text(string(current)), current != core.Nobody)
	put(attrAsked, text(string(l.Next)), current != core.Nobody)
	if p := l.Pending; p != nil {
		if err := storable(&p.At); err != nil {
			return nil, fmt.Errorf("pending: %w", err)
		}
		row[attrPending], row[attrPendingSub] = text(p.At.String()), number(int64(p.At.Sub))
		put(attrPendingState, &types.AttributeValueMemberB{Value: p.State}, len(p.State) > 0)
	}
	put(attrParents, shardSet(l.Parents), len(l.Parents) > 0)
	put(attrChildren, shardSet(l.Children), len(l.Children) > 0)
	if l.Range != nil {
		row[attrRangeStart], row[attrRangeEnd] = text(formatHashKey(l.Range.Start)), text(formatHashKey(l.Range.End))
	}
	if l.Throughput != 0 {
		if row[attrThroughput], err = throughput(l.Throughput); err != nil {
			return nil, err
		}
	}
	put(attrRun, text(l.Run), l.Run != "")
	put(attrReady, &types.AttributeValueMemberBOOL{Value: true}, l.Ready)
	startAt := l.StartAt
	if startAt.IsZero() {
		startAt = l.Checkpoint.Time
	}
	if !startAt.IsZero() {
		row[attrStartAt], row[attrStartFor] = text(formatInstant(startAt)), row[attrCheckpoint]
	}
	if more, ok := l.Raw.(Attributes); ok {
		for name, v := range more {
			put(name, v, !leaseAttrs[name])
		}
	}
	return row, nil
}

// owners turns the owner and the next one into leaseOwner and checkpointOwner; empty: absent.
func owners(owner, next core.WorkerID) (leaseOwner, checkpointOwner core.WorkerID, err error) {
	switch {
	case next == core.Nobody:
		return owner, core.Nobody, nil
	case owner == core.Nobody:
		return "", "", fmt.Errorf("lease without an owner and %q as the next: a free lease is taken, not asked for: %w", next, core.ErrInvalid)
	case owner == next:
		return "", "", fmt.Errorf("lease of %q with itself as the next owner: %w", owner, core.ErrInvalid)
	}
	return next, owner, nil
}

// storable refuses positions that would be read back as others.
func storable(p *core.Position) error {
	back, err := core.ParsePosition(p.String(), p.Sub, time.Time{})
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", err, core.ErrInvalid)
	case back.Anchor != p.Anchor:
		return fmt.Errorf("token %q can't be stored: in a lease row the word means something else: %w", p.Token, core.ErrInvalid)
	case p.Sub > math.MaxInt64:
		return fmt.Errorf("sub-sequence number %d is above %d, the most that a row can hold: %w", p.Sub, math.MaxInt64, core.ErrInvalid)
	}
	return nil
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

func throughput(f float64) (types.AttributeValue, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) || f < 0 {
		return nil, fmt.Errorf("throughput is %v KB/s: %w", f, core.ErrInvalid)
	}
	return &types.AttributeValueMemberN{Value: formatThroughput(f)}, nil
}

// shardSet is a string set: sorted, and without the doubles that the service refuses.
func shardSet(ids []core.ShardID) types.AttributeValue {
	set := make([]string, len(ids))
	for i, id := range ids {
		set[i] = string(id)
	}
	slices.Sort(set)
	return &types.AttributeValueMemberSS{Value: slices.Compact(set)}
}

func formatInstant(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
