package kclsim

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

type item = map[string]types.AttributeValue

// lease is a row, as Java has it in memory.
type lease struct {
	key                    string
	owner, checkpointOwner string // "": absent
	counter                int64
	checkpoint             string
	switches               int64
	parents, children      []string
	start, end             string
}

// actualOwner is who may renew: the former owner while a hand-over is under way.
func (l *lease) actualOwner() string {
	if l.checkpointOwner != "" {
		return l.checkpointOwner
	}
	return l.owner
}

const (
	trimHorizon = "TRIM_HORIZON"
	atTimestamp = "AT_TIMESTAMP"
	shardEnd    = "SHARD_END"
)

var errNoCounter = errors.New("no leaseCounter (a NullPointerException in Java)")

// readLease reads a row as fromDynamoRecord does: what it would throw on is an error.
func readLease(row item) (lease, error) {
	var l lease
	var bad error
	fail := func(name string, err error) {
		if bad == nil {
			bad = fmt.Errorf("%s: %w", name, err)
		}
	}
	text := func(name string) string {
		switch v := row[name].(type) {
		case nil:
		case *types.AttributeValueMemberS:
			if v.Value == "" {
				fail(name, errors.New("an empty string"))
			}
			return v.Value
		default:
			fail(name, fmt.Errorf("a %T, want a string", v))
		}
		return ""
	}
	number := func(name string, must bool) int64 {
		switch v := row[name].(type) {
		case nil:
			if must {
				fail(name, errNoCounter)
			}
		case *types.AttributeValueMemberN:
			n, err := strconv.ParseInt(v.Value, 10, 64)
			if err != nil {
				fail(name, err)
			}
			return n
		default:
			fail(name, fmt.Errorf("a %T, want a number", v))
		}
		return 0
	}
	set := func(name string) []string {
		switch v := row[name].(type) {
		case nil:
		case *types.AttributeValueMemberSS:
			return v.Value
		default:
			fail(name, fmt.Errorf("a %T, want a set of strings", v))
		}
		return nil
	}
	l.key = text("leaseKey")
	l.counter = number("leaseCounter", true)
	l.owner, l.checkpointOwner = text("leaseOwner"), text("checkpointOwner")
	l.checkpoint = text("checkpoint")
	if err := checkNumber(l.checkpoint); err != nil {
		fail("checkpoint", err)
	}
	number("checkpointSubSequenceNumber", false)
	l.switches = number("ownerSwitchesSinceCheckpoint", false)
	l.parents, l.children = set("parentShardId"), set("childShardIds")
	l.start, l.end = text("startingHashKey"), text("endingHashKey")
	if (l.start == "") != (l.end == "") {
		fail("startingHashKey", errors.New("one end of the range without the other"))
	} else if l.start != "" && hash(l.start).Cmp(hash(l.end)) >= 0 {
		fail("startingHashKey", fmt.Errorf("%s is not below endingHashKey %s", l.start, l.end))
	}
	return l, bad
}

// checkNumber: a sentinel or a decimal number (ExtendedSequenceNumber).
func checkNumber(s string) error {
	if slices.Contains([]string{trimHorizon, "LATEST", atTimestamp, shardEnd}, s) {
		return nil
	}
	if _, ok := new(big.Int).SetString(s, 10); !ok {
		return fmt.Errorf("%q is neither a sequence number nor a sentinel", s)
	}
	return nil
}

// hash reads a decimal hash key; -1 where it is none.
func hash(s string) *big.Int {
	n, ok := new(big.Int).SetString(s, 10)
	if !ok {
		return big.NewInt(-1)
	}
	return n
}

// after reports whether sequence number a comes after b, which may be a sentinel of a beginning.
func after(a, b string) bool {
	y, ok := new(big.Int).SetString(b, 10)
	return !ok || hash(a).Cmp(y) > 0
}

// newRow is a lease at its creation (1.4, "create if absent").
func newRow(l lease, typed bool) item {
	row := item{
		"leaseKey": str(l.key), "checkpoint": str(l.checkpoint), "checkpointSubSequenceNumber": num(0), "leaseCounter": num(0),
		"ownerSwitchesSinceCheckpoint": num(0),
	}
	if len(l.parents) > 0 {
		row["parentShardId"] = &types.AttributeValueMemberSS{Value: l.parents}
	}
	if l.start != "" {
		row["startingHashKey"], row["endingHashKey"] = str(l.start), str(l.end)
	}
	if typed {
		row["entityType"] = str("LEASE")
	}
	return row
}

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
func num(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

func textOf(row item, name string) string {
	if v, ok := row[name].(*types.AttributeValueMemberS); ok {
		return v.Value
	}
	return ""
}

func intOf(row item, name string) (int64, bool) {
	v, ok := row[name].(*types.AttributeValueMemberN)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(v.Value, 10, 64)
	return n, err == nil
}
