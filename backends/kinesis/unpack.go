package kinesis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/shardwarden/shardwarden/backends/kinesis/kpl"
	"github.com/shardwarden/shardwarden/core"
)

// Decoder decodes the records of a source before they are handed out; see [Decode].
type Decoder interface {
	// Decode decodes r in place, or leaves it alone. r points into its page; what is put there may do so too, but for Native, which
	// [core.Record.Clone] keeps. size is how much memory is taken beside the page, in bytes.
	//
	// With an error r is taken as it was before. One that is core.ErrThrottled, core.ErrUnavailable or core.ErrDenied says that what decoding
	// takes cannot be had now: the shard waits, what stands before r is handed out, and Decode is called again later. Any other error is
	// that of the record: Decode is not called again for it, user code does not see it, and the worker's OnError decides what becomes of
	// it. Many goroutines call Decode at the same time.
	Decode(ctx context.Context, r *core.Record) (size int, err error)
}

// mostDecoded is how much memory decoders may take for one page, in bytes: then the page is handed out short, and the rest is read again.
const mostDecoded = 32 << 20

// mostSpare is how many records there is room for between two pages.
const mostSpare = 1 << 14

// aggregateCounts is [kpl.Counts] while it is counted.
type aggregateCounts struct{ opened, records, outside, damaged atomic.Int64 }

// Aggregates says what became of the aggregated records that were read so far.
func (s *Source) Aggregates() kpl.Counts {
	c := &s.aggregates
	return kpl.Counts{Opened: c.opened.Load(), Records: c.records.Load(), Outside: c.outside.Load(), Damaged: c.damaged.Load()}
}

// unpacking makes of the records of one shard those that are handed out: containers are opened, decoders called. One goroutine uses it.
type unpacking struct {
	s      *Source
	shard  core.ShardID
	opener kpl.Opener
	spare  []core.Record
	warned bool
}

func newUnpacking(s *Source, shard core.Shard) unpacking {
	u := unpacking{s: s, shard: shard.ID}
	if !s.aggregated.AllKeys {
		u.opener.Range = shard.Range
	}
	return u
}

// page unpacks a page that has records. after, where it is not nil, is a place up to which they were handed out before. short says that records
// at the end of the page are missing, since they cannot be handed out yet: the page is to be read again behind its last one. An error comes
// where nothing is left, with the reason; then the page is of no use.
func (u *unpacking) page(ctx context.Context, p *page, after *core.Position) (short bool, err error) {
	records := p.Records
	end := core.Position{Token: records[len(records)-1].Sequence}
	if after != nil {
		first := slices.IndexFunc(records, func(r core.Record) bool { return compareNumbers(r.Sequence, after.Token) >= 0 })
		if first < 0 {
			first = len(records)
		}
		records = records[first:]
	}
	damaged := false
	if !u.s.aggregated.Off && slices.ContainsFunc(records, func(r core.Record) bool { return kpl.IsAggregate(r.Data) }) {
		records, end.Sub, damaged = u.open(ctx, p, records)
	}
	for after != nil && len(records) > 0 && compareNumbers(records[0].Sequence, after.Token) == 0 && taken(&records[0], after.Sub) {
		records = records[1:]
	}
	if damaged && u.s.aggregated.Strict {
		for i := range records {
			if d, ok := records[i].Native.(*kpl.Damaged); ok {
				p.cannotDecode(i, d)
			}
		}
	}
	n := len(records)
	if len(u.s.decoders) > 0 {
		n, err = u.decode(ctx, p, records)
		short = n < len(records)
	}
	p.Records = records[:n]
	switch {
	case short && n == 0:
		return true, err
	case short || after != nil && n == 0 && end.Equal(*after):
	case n == 0 || records[n-1].Sequence != end.Token || records[n-1].Sub != end.Sub:
		p.Next = end.Clone() // the last ones were left out: the shard has been read further than its records say
	}
	return short, nil
}

// taken reports whether a position with a number of the last user record covers a record. Without one, or where the container is handed out
// as it is by now, only the whole record counts.
func taken(r *core.Record, sub uint64) bool {
	if _, user := r.Native.(*kpl.UserRecord); user {
		return r.Sub <= sub
	}
	return sub == 0
}

// cannotDecode notes that record i makes no sense.
func (p *page) cannotDecode(i int, why error) {
	if p.Undecoded == nil {
		p.Undecoded = map[int]error{}
	}
	p.Undecoded[i] = why
}

// open opens the containers among the records of a page. last is the number of the last user record of the last one. One that cannot be opened
// stays, with the reason as its Native.
func (u *unpacking) open(ctx context.Context, p *page, in []core.Record) (out []core.Record, last uint64, damaged bool) {
	out = u.spare[:0]
	counts := &u.s.aggregates
	for i := range in {
		if !kpl.IsAggregate(in[i].Data) {
			out, last = append(out, in[i]), 0
			continue
		}
		before := len(out)
		var outside int
		var err error
		if out, outside, err = u.opener.Open(out, &in[i]); err != nil {
			if n := counts.damaged.Add(1); n&(n-1) == 0 && !u.s.aggregated.Strict { // else the worker tells of each
				u.s.log.WarnContext(ctx, "aggregated record cannot be opened and is handed out as it is", "stream", u.s.name.stream, "shard", u.shard, "so_far", n, "error", err)
			}
			container := in[i]
			container.Native = err
			out, last, damaged = append(out, container), 0, true
			continue
		}
		n := len(out) - before
		counts.opened.Add(1)
		counts.records.Add(int64(n))
		if outside > 0 {
			counts.outside.Add(int64(outside))
			u.warn(ctx, &in[i], outside)
		}
		last = uint64(max(n+outside, 1) - 1)
	}
	// The page keeps the new slice, and the former one serves the next page.
	old := p.records
	if old == nil {
		old = p.Records
	}
	clear(old)
	if more := (cap(out) - cap(old)) * recordBytes; more > 0 {
		p.more(more)
	}
	p.records, u.spare = out, old[:0]
	if cap(old) > mostSpare {
		u.spare = nil
	}
	return out, last, damaged
}

// warn says once for a shard that records are left out.
func (u *unpacking) warn(ctx context.Context, container *core.Record, outside int) {
	if u.warned {
		return
	}
	u.warned = true
	u.s.log.WarnContext(ctx, "user records of an aggregated record are left out, since their hash keys belong to other shards: the KPL sends such records again; where another producer wrote them they are lost (see kpl.Config.AllKeys)",
		"stream", u.s.name.stream, "shard", u.shard, "sequence", container.Sequence, "left_out", outside)
}

// decode calls the decoders for records of a page. It returns how many may be handed out, and why not the next, if not for memory's sake.
func (u *unpacking) decode(ctx context.Context, p *page, records []core.Record) (done int, err error) {
	taken := 0
	defer func() { p.more(taken) }()
	for i := range records {
		if p.Undecoded[i] != nil {
			continue
		}
		before := records[i]
		for _, d := range u.s.decoders {
			size, err := d.Decode(ctx, &records[i])
			if err == nil {
				taken += size
				continue
			}
			records[i] = before
			err = fmt.Errorf("decode: %w", err)
			switch {
			case ctx.Err() != nil:
				return i, ctx.Err()
			case passes(err) || errors.Is(err, core.ErrDenied):
				return i, err
			}
			p.cannotDecode(i, err)
			break
		}
		if taken > mostDecoded {
			return i + 1, nil
		}
	}
	return len(records), nil
}

// more notes memory that a page takes beside what it took when it was read, as far as it is to be had.
func (p *page) more(bytes int) {
	p.Bytes += bytes
	if p.held != nil {
		p.held.more(bytes)
	}
}
