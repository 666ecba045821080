package ots

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// Columns are the attribute columns of a row by name. A value is an int64, float64, bool, string or []byte.
type Columns map[string]any

// rowReader reads the columns of a row and remembers the first that does not hold what it should.
type rowReader struct {
	row Columns
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

func (r *rowReader) has(name string) bool { _, ok := r.row[name]; return ok }

// text is a string that must be there, and may be empty.
func (r *rowReader) text(name string) string {
	s, ok := r.row[name].(string)
	if !ok {
		r.expected(name, "STRING")
	}
	return s
}

func (r *rowReader) optional(name string) string {
	if !r.has(name) {
		return ""
	}
	return r.text(name)
}

func (r *rowReader) integer(name string) int64 {
	n, ok := r.row[name].(int64)
	if !ok {
		r.expected(name, "INTEGER")
	}
	return n
}

// flag is a boolean that may be absent.
func (r *rowReader) flag(name string) bool {
	b, ok := r.row[name].(bool)
	if !ok && r.has(name) {
		r.expected(name, "BOOLEAN")
	}
	return b
}

func (r *rowReader) bytes(name string) []byte {
	b, ok := r.row[name].([]byte)
	if !ok && r.has(name) {
		r.expected(name, "BINARY")
	}
	return b
}

func (r *rowReader) throughput() float64 {
	f, ok := r.row[colThroughput].(float64)
	if !ok && r.has(colThroughput) || math.IsNaN(f) || math.IsInf(f, 0) || f < 0 {
		r.expected(colThroughput, "a DOUBLE not below 0")
	}
	return f
}

// checkpoint is the position in the Java column, without what was taken inside it.
func (r *rowReader) checkpoint() core.Position {
	word := r.text(colCheckpoint)
	if word == "" {
		return core.FromHorizon // as the Java client reads it (docs/reference/tablestore.md 3.10, Initialize)
	}
	return r.position(colCheckpoint, word, 0)
}

// position reads a word or token. A status table holds no start but TRIM_HORIZON: Java takes every other word for an iterator.
func (r *rowReader) position(name, word string, taken uint64) core.Position {
	p, err := core.ParsePosition(word, taken, time.Time{})
	if err != nil {
		r.fail("%s: %w", name, err)
	} else if p.Anchor == core.Latest || p.Anchor == core.AtTime {
		r.fail("%s holds the word %s: expected TRIM_HORIZON, SHARD_END or a shard iterator, a status table holds no other start", name, word)
	}
	return p
}

// bound is the value of a column that belongs to a checkpoint; empty where it belongs to another, or is absent.
func (r *rowReader) bound(name, checkpoint string) string {
	if !r.has(name) {
		return ""
	}
	text := r.text(name)
	value, holds, ok := bound(checkpoint, text)
	if !ok && r.err == nil {
		r.expected(name, "the mark of a checkpoint, a blank and a value")
	}
	if !holds {
		return ""
	}
	return value
}

func (r *rowReader) count(name, text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		r.expected(name, "a number of records")
	}
	return n
}

func (r *rowReader) instant(name, text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if t = t.UTC(); err != nil || t.Year() < 1 || t.Year() > 9999 {
		r.expected(name, "an instant as in RFC 3339")
	}
	return t
}

// parents are ids, each with a line feed behind it.
func (r *rowReader) parents() []core.ShardID {
	var out []core.ShardID
	for id := range strings.SplitSeq(r.text(colParents), "\n") {
		if id != "" {
			out = append(out, core.ShardID(id))
		}
	}
	return out
}

func (r *rowReader) children() []core.ShardID {
	var out []core.ShardID
	for name := range r.row {
		if strings.HasPrefix(name, childPrefix) {
			id := core.ShardID(r.text(name))
			if name != childColumn(id) {
				r.expected(name, "the shard id that the column is named after")
			}
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// describe shows what a column holds, for errors.
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "missing"
	case string:
		return fmt.Sprintf("STRING %q", clip(v))
	case int64:
		return fmt.Sprintf("INTEGER %d", v)
	case float64:
		return fmt.Sprintf("DOUBLE %v", v)
	case bool:
		return fmt.Sprintf("BOOLEAN %v", v)
	case []byte:
		return fmt.Sprintf("BINARY of %d bytes", len(v))
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
