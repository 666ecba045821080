package ots

import (
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/shardwarden/shardwarden/core"
)

// decodeLease reads a lease row, Java's or ours. Columns it does not know are in Raw, of type [Columns]. An error is a *core.RowError.
func decodeLease(key core.LeaseKey, row Columns) (core.Lease, error) {
	r := rowReader{row: row}
	l := core.Lease{Key: key}
	if len(row) < 5 {
		r.fail("the row has %d columns of at least 5: an update that raced a deletion may leave such a row; the Java client overlooks it; delete it, and the lease is made anew", len(row))
	}
	l.Owner = core.WorkerID(r.text(colOwner))
	stealer := core.WorkerID(r.text(colStealer))
	if l.Owner != core.Nobody && stealer != l.Owner {
		l.Next = stealer
	}
	l.Counter = r.integer(colCounter)
	l.Checkpoint = r.checkpoint()
	l.Parents, l.Children = r.parents(), r.children()
	// A transfer leaves the stealer beside itself as the owner, until its first write (docs/reference/tablestore.md 3.8): a run that stands
	// there is of a former time.
	if run := r.optional(colRun); stealer == core.Nobody || stealer != l.Owner {
		l.Run = core.BoundRun(run, l.Owner)
	}
	l.Ready = r.flag(colReady)
	if r.has(colSwitches) {
		l.Switches = r.integer(colSwitches)
	}
	l.Throughput = r.throughput()
	if r.has(colRange) {
		l.Range = r.hashRange()
	}
	word := l.Checkpoint.String()
	if taken := r.bound(colTaken, word); taken != "" {
		l.Checkpoint = r.position(colTaken, word, r.count(colTaken, taken))
	}
	if at := r.bound(colStart, word); at != "" {
		l.StartAt = r.instant(colStart, at)
	}
	if text := r.bound(colPending, word); text != "" {
		taken, at, _ := strings.Cut(text, " ")
		l.Pending = &core.Pending{At: r.position(colPending, at, r.count(colPending, taken)), State: r.bytes(colPendingState)}
	}
	for name, v := range row {
		if !known(name) {
			if l.Raw == nil {
				l.Raw = Columns{}
			}
			l.Raw.(Columns)[name] = v
		}
	}
	if r.err != nil {
		return core.Lease{Key: key}, &core.RowError{Key: key, Row: string(key.Stream) + " " + kindLease + " " + string(key.Shard), Err: r.err}
	}
	return l, nil
}

// encodeLease is a row to create: the five columns of Java, and those of ours that hold something.
func encodeLease(l *core.Lease) (Columns, error) {
	if err := representable(l.Owner, l.Next); err != nil {
		return nil, err
	}
	w := rowWriter{row: Columns{}}
	word := w.position(colCheckpoint, &l.Checkpoint)
	w.row[colCounter] = l.Counter
	w.text(colOwner, string(l.Owner))
	w.text(colStealer, string(l.Next))
	w.text(colCheckpoint, word)
	w.parents(l.Parents)
	if l.Checkpoint.Sub > 0 {
		w.text(colTaken, bindTaken(word, l.Checkpoint.Sub))
	}
	if l.Run != "" {
		w.text(colRun, l.Run)
	}
	if l.Ready {
		w.row[colReady] = true
	}
	if !l.StartAt.IsZero() {
		w.text(colStart, bind(word, formatInstant(l.StartAt)))
	}
	if l.Pending != nil {
		w.pending(word, l.Pending)
	}
	for _, id := range l.Children {
		w.text(childColumn(id), string(id))
	}
	if l.Switches != 0 {
		w.row[colSwitches] = l.Switches
	}
	if l.Throughput != 0 {
		w.throughput(l.Throughput)
	}
	if l.Range != nil {
		w.text(colRange, formatRange(l.Range))
	}
	if more, ok := l.Raw.(Columns); ok {
		for name, v := range more {
			if !known(name) {
				w.row[name] = v
			}
		}
	}
	return w.row, w.err
}

// rowWriter makes columns and remembers the first value that can't be one.
type rowWriter struct {
	row Columns
	err error
}

func (w *rowWriter) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

func (w *rowWriter) text(name, s string) {
	if !utf8.ValidString(s) {
		w.fail(fmt.Errorf("%s %q is not UTF-8: a STRING column can't hold it: %w", name, clip(s), core.ErrInvalid))
	}
	w.row[name] = s
}

// position is the word or token of a place, which must be one that is read back as the same.
func (w *rowWriter) position(name string, p *core.Position) string {
	word := p.String()
	switch back, err := core.ParsePosition(word, p.Sub, time.Time{}); {
	case err != nil:
		w.fail(fmt.Errorf("%s: %w: %w", name, err, core.ErrInvalid))
	case p.Anchor == core.Latest || p.Anchor == core.AtTime:
		w.fail(fmt.Errorf("%s %s can't be stored: a status table holds no start but TRIM_HORIZON, since Java workers would take the word for an iterator; the source must resolve it (core.Resolver): %w", name, word, core.ErrInvalid))
	case back.Anchor != p.Anchor:
		w.fail(fmt.Errorf("%s: token %q can't be stored: in a lease row the word means something else: %w", name, clip(p.Token), core.ErrInvalid))
	}
	return word
}

func (w *rowWriter) pending(checkpoint string, p *core.Pending) {
	w.text(colPending, bind(checkpoint, strconv.FormatUint(p.At.Sub, 10)+" "+w.position(colPending, &p.At)))
	if len(p.State) > 0 {
		w.row[colPendingState] = p.State
	}
}

func (w *rowWriter) parents(ids []core.ShardID) {
	var b strings.Builder
	for _, id := range ids {
		if id == "" || strings.Contains(string(id), "\n") {
			w.fail(fmt.Errorf("parent %q can't be stored in %s, which ends each id by a line feed: %w", id, colParents, core.ErrInvalid))
		}
		b.WriteString(string(id))
		b.WriteByte('\n')
	}
	w.text(colParents, b.String())
}

func (w *rowWriter) throughput(f float64) {
	if math.IsNaN(f) || math.IsInf(f, 0) || f < 0 {
		w.fail(fmt.Errorf("throughput is %v KB/s: %w", f, core.ErrInvalid))
	}
	w.row[colThroughput] = f
}

func bindTaken(checkpoint string, n uint64) string {
	return bind(checkpoint, strconv.FormatUint(n, 10))
}

func formatInstant(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func formatRange(r *core.HashRange) string {
	return hex.EncodeToString(r.Start[:]) + "-" + hex.EncodeToString(r.End[:])
}

func (r *rowReader) hashRange() *core.HashRange {
	var out core.HashRange
	start, end, _ := strings.Cut(r.text(colRange), "-")
	for _, x := range []struct {
		text string
		to   []byte
	}{{start, out.Start[:]}, {end, out.End[:]}} {
		b, err := hex.DecodeString(x.text)
		if copy(x.to, b) != 16 || len(b) != 16 || err != nil {
			r.expected(colRange, "two numbers of 32 hex digits and a dash between")
			return nil
		}
	}
	if string(out.Start[:]) > string(out.End[:]) {
		r.expected(colRange, "a range whose start is not above its end")
	}
	return &out
}

// representable refuses what no row says: that nobody's lease is asked for, or an owner's by itself.
func representable(owner, next core.WorkerID) error {
	switch {
	case next == core.Nobody:
	case owner == core.Nobody:
		return fmt.Errorf("lease without an owner and %q as the next: a free lease is taken, not asked for: %w", next, core.ErrInvalid)
	case owner == next:
		return fmt.Errorf("lease of %q with itself as the next owner: %w", owner, core.ErrInvalid)
	}
	return nil
}

// checkKey refuses what can't be a key: the service takes up to 1,024 bytes a key column.
func checkKey(k core.LeaseKey) error {
	const most = 1024
	for _, c := range []struct{ name, value string }{{keyStream, string(k.Stream)}, {keyValue, string(k.Shard)}} {
		if c.value == "" || len(c.value) > most || !utf8.ValidString(c.value) {
			return fmt.Errorf("lease %q: %s %q can't be a key: expected 1 to %d bytes of UTF-8: %w", clip(k.String()), c.name, clip(c.value), most, core.ErrInvalid)
		}
	}
	return nil
}

// detached is l with memory of its own.
func detached(l core.Lease) core.Lease {
	if l.Range != nil {
		l.Range = new(*l.Range)
	}
	if l.Pending != nil {
		l.Pending = &core.Pending{At: l.Pending.At.Clone(), State: append([]byte(nil), l.Pending.State...)}
	}
	if raw, ok := l.Raw.(Columns); ok {
		l.Raw = maps.Clone(raw)
	}
	return l
}

var errNoRow = errors.New("no row") // of a lease, as opposed to a table
