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

// rowReader reads the columns of a row and remembers the first that does not hold what it should.
type rowReader struct {
	row Attributes
	err error
}

func (r *rowReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

func (r *rowReader) expected(name, what string) {
	r.fail("%s is %s: expected %s", name, describe(r.row[name]), what)
}

// text is a string that must be there.
func (r *rowReader) text(name string) string {
	if s, ok := r.row[name].(*types.AttributeValueMemberS); ok && s.Value != "" {
		return s.Value
	}
	r.expected(name, "a non-empty string (S)")
	return ""
}

// optional is a string that may be absent and is never empty: nobody writes empty ones, and a condition could not match them.
func (r *rowReader) optional(name string) string {
	if r.row[name] == nil {
		return ""
	}
	return r.text(name)
}

func (r *rowReader) integer(name string) int64 {
	if n, ok := r.row[name].(*types.AttributeValueMemberN); ok {
		if i, err := strconv.ParseInt(n.Value, 10, 64); err == nil {
			return i
		}
	}
	r.expected(name, "a whole number (N) of 64 bits")
	return 0
}

func (r *rowReader) float(name string) float64 {
	if n, ok := r.row[name].(*types.AttributeValueMemberN); ok {
		if f, err := strconv.ParseFloat(n.Value, 64); err == nil && !math.IsNaN(f) && !math.IsInf(f, 0) && f >= 0 {
			return f
		}
	}
	r.expected(name, "a number (N) not below 0")
	return 0
}

func (r *rowReader) bytes(name string) []byte {
	if r.row[name] == nil {
		return nil
	}
	if b, ok := r.row[name].(*types.AttributeValueMemberB); ok {
		return b.Value
	}
	r.expected(name, "binary (B)")
	return nil
}

// flag is true or absent.
func (r *rowReader) flag(name string) bool {
	if r.row[name] == nil {
		return false
	}
	if b, ok := r.row[name].(*types.AttributeValueMemberBOOL); ok {
		return b.Value
	}
	r.expected(name, "BOOL")
	return false
}

func (r *rowReader) shards(name string) []core.ShardID {
	if r.row[name] == nil {
		return nil
	}
	set, ok := r.row[name].(*types.AttributeValueMemberSS)
	if !ok || slices.Contains(set.Value, "") {
		r.expected(name, "a set of shard ids (SS)")
		return nil
	}
	out := make([]core.ShardID, len(set.Value))
	for i, id := range set.Value {
		out[i] = core.ShardID(id)
	}
	slices.Sort(out)
	return out
}

// position is a checkpoint and its sub-sequence number; KCL 1.x rows may lack the latter.
func (r *rowReader) position(name, subName string) core.Position {
	word := r.text(name)
	var sub int64
	if r.row[subName] != nil {
		sub = r.integer(subName)
	}
	if sub < 0 {
		r.expected(subName, "a number not below 0")
	}
	if r.err != nil {
		return core.Position{}
	}
	p, err := core.ParsePosition(word, uint64(sub), time.Time{})
	if err != nil {
		r.fail("%s: %w", name, err)
	}
	return p
}

func (r *rowReader) instant(name, s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if t = t.UTC(); err != nil || t.Year() < 1 || t.Year() > 9999 {
		r.expected(name, "an instant as in RFC 3339")
	}
	return t
}

// describe shows what a column holds, for errors.
func describe(v types.AttributeValue) string {
	switch v := v.(type) {
	case nil:
		return "missing"
	case *types.AttributeValueMemberS:
		return fmt.Sprintf("S %q", clip(v.Value))
	case *types.AttributeValueMemberN:
		return "N " + clip(v.Value)
	case *types.AttributeValueMemberB:
		return fmt.Sprintf("B of %d bytes", len(v.Value))
	case *types.AttributeValueMemberBOOL:
		return fmt.Sprintf("BOOL %v", v.Value)
	case *types.AttributeValueMemberSS:
		return fmt.Sprintf("SS %q", clip(fmt.Sprint(v.Value)))
	case *types.AttributeValueMemberNULL:
		return "NULL"
	}
	return fmt.Sprintf("of type %T", v)
}

// clip keeps a hostile row from filling the log.
func clip(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
