package tablestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	sdk "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/shardwarden/shardwarden/core"
)

// reader reads one shard: a loop around a position that only answers move, and a pace.
type reader struct {
	s     *Source
	shard core.ShardID
	life  context.Context // ends with Close
	stop  context.CancelFunc

	// at is the place reached: a start, or an iterator and what was taken of the batch behind it.
	at core.Position
	// oldest: the iterator was made for the oldest record, and nothing has been read with it yet.
	oldest bool
	// since leaves out what an iterator made by time gives too early; 0: nothing. See [Source.seek].
	since int64
	// last is the record that was delivered last, if any. again: an iterator was made anew behind it, which may give it again.
	last   *Sequence
	again  bool
	idle   idle
	ending ending
	done   bool
	pace   pace
	size   size
}

// Open begins to read a shard. It sends nothing: the first Next does, and reports what is wrong with the position.
func (s *Source) Open(ctx context.Context, shard core.Shard, at core.Position) (core.ShardReader, error) {
	if s.err != nil {
		return nil, s.err
	}
	if err := checkPosition(at); err != nil {
		return nil, s.wrap("open", shard.ID, err)
	}
	r := &reader{
		s: s, shard: shard.ID, at: at.Clone(),
		pace: pace{busy: s.pollBusy, idle: s.pollEvery},
		size: size{page: s.pageBytes, most: s.maxRecords},
	}
	r.life, r.stop = context.WithCancel(context.WithoutCancel(ctx)) // a reader outlives the call that opened it
	return r, nil
}

// Close ends a Next that waits.
func (r *reader) Close() error {
	r.stop()
	return nil
}

var errClosed = fmt.Errorf("reader: %w", os.ErrClosed)

// Next waits until the shard may be read, and reads it.
func (r *reader) Next(ctx context.Context) (*core.Page, error) {
	if r.life.Err() != nil {
		return nil, r.s.wrap("read", r.shard, errClosed)
	}
	both, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.life, cancel)()
	p, err := r.patiently(both)
	if err != nil {
		if ctx.Err() == nil && r.life.Err() != nil {
			err = errClosed
		}
		return nil, r.s.wrap("read", r.shard, err)
	}
	return p, nil
}

// patiently repeats what may pass, while patience lasts.
func (r *reader) patiently(ctx context.Context) (*core.Page, error) {
	for t := r.s.tries(); ; {
		p, err := r.next(ctx, t)
		switch {
		case err == nil && p != nil:
			return p, nil
		case err == nil: // nothing to say yet; the pace bounds this
		case !passes(err):
			return nil, err
		default:
			if err := t.again(ctx, "GetStreamRecord", err); err != nil {
				return nil, err
			}
		}
	}
}

// next is one read. It returns no page and no error where there is nothing to say yet.
func (r *reader) next(ctx context.Context, t *tries) (*core.Page, error) {
	if r.done {
		return nil, fmt.Errorf("%w: the shard was read to its end", core.ErrInvalid)
	}
	if err := pause(ctx, time.Until(r.pace.next)); err != nil {
		return nil, err
	}
	if r.at.Anchor != core.AfterToken {
		if err := r.newIterator(ctx, t); err != nil {
			return nil, r.failed(ctx, err)
		}
	}
	if p := r.refresh(ctx); p != nil {
		return p, nil
	}
	limit := r.size.limit()
	if r.at.Sub > 0 { // read again what was taken of the batch, and leave it out
		limit = int(min(r.at.Sub, uint64(r.s.maxRecords)))
	}
	start, asked := time.Now(), r.s.clock.now()
	a, err := r.s.read(ctx, r.at.Token, limit)
	if err != nil {
		return nil, r.failed(ctx, err)
	}
	return r.page(ctx, a, start, asked, limit)
}

// page takes in an answer.
func (r *reader) page(ctx context.Context, a *answer, start, asked time.Time, limit int) (*core.Page, error) {
	n, iterator, taken := len(a.changes), r.at.Token, r.at.Sub
	r.size.saw(n, a.bytes)
	skip := r.skip(a)
	p := newPage(a, iterator, skip)
	r.oldest = false
	if n > skip {
		r.last = new(a.changes[n-1].Sequence)
	}
	if a.next == "" {
		return r.end(ctx, p, iterator, n, skip, start)
	}
	r.ending = ending{}
	r.at = core.Position{Token: a.next}
	if uint64(n) < taken {
		r.at.Sub = taken - uint64(n)
	}
	none := n == 0 && !a.more
	switch {
	case n > skip:
		p.Next = r.at
		p.Lag = max(0, r.s.clock.now().Sub(time.UnixMicro(r.last.Timestamp)))
	case none && r.at.Sub == 0:
		p.Lag = 0
	}
	if r.idle.saw(none, iterator != a.next, asked) && r.at.Sub == 0 {
		p.Next = r.at
	}
	// A page may be short of the limit because it is full of bytes, by the service's measure, which is not documented: then time tells.
	more := a.more || taken > 0 || n >= limit || a.bytes >= r.s.pageBytes/2 || p.Lag > time.Second
	r.pace.after(start, n > 0, more && !none)
	return p, nil
}

// skip says how many changes at the head of an answer are not to be delivered.
func (r *reader) skip(a *answer) int {
	skip := int(min(r.at.Sub, uint64(len(a.changes))))
	for skip < len(a.changes) && (r.since > 0 || r.again) {
		if c := &a.changes[skip]; c.Sequence.Timestamp >= r.since && (!r.again || r.last.before(c.Sequence)) {
			r.since, r.again = 0, false
			break
		}
		skip++
	}
	return skip
}

func (s Sequence) before(t Sequence) bool {
	if s.Epoch != t.Epoch {
		return s.Epoch < t.Epoch
	}
	if s.Timestamp != t.Timestamp {
		return s.Timestamp < t.Timestamp
	}
	return s.Row < t.Row
}

// newIterator asks for an iterator at the start.
func (r *reader) newIterator(ctx context.Context, t *tries) error {
	id, err := r.s.id(ctx, t)
	if err != nil {
		return err
	}
	var since *time.Time
	if r.at.Anchor != core.Horizon {
		if r.at.Time.IsZero() { // from now on, whenever the first record comes
			if r.at.Time, err = r.s.Now(ctx); err != nil {
				return err
			}
		}
		since = new(r.at.Time)
	}
	it, err := r.s.iterator(ctx, t, id, r.shard, since)
	if err != nil {
		return err
	}
	r.at, r.oldest = core.Position{Token: it}, since == nil
	if since != nil {
		r.since = since.UnixMicro()
	}
	return nil
}

// iterator asks for one at the first record that arrived at t or later, nil: at the oldest record. By time the answer may come in steps: the call
// is repeated with the token it gave, and only the last iterator counts (docs/reference/tablestore.md 1.4).
func (s *Source) iterator(ctx context.Context, tries *tries, id core.StreamID, shard core.ShardID, t *time.Time) (string, error) {
	in := sdk.GetShardIteratorRequest{StreamId: streamID(id), ShardId: (*sdk.ShardId)(&shard)}
	if t != nil {
		in.Timestamp = new(t.UnixMicro())
	}
	for {
		out, err := patiently(ctx, tries, "GetShardIterator", func(c *sdk.TableStoreClient) (*sdk.GetShardIteratorResponse, error) { return c.GetShardIterator(&in) })
		switch {
		case err != nil && t != nil && errors.Is(err, core.ErrInvalid) && t.After(s.clock.now().Add(-clockDifference)):
			return "", fmt.Errorf("%w: the start %s may lie in the future of the service's clock: %w", core.ErrUnavailable, t.UTC().Format(time.RFC3339Nano), err)
		case err != nil:
			return "", err
		case out.Token != nil && *out.Token != "":
			if in.Token != nil && *in.Token == *out.Token {
				return "", fmt.Errorf("GetShardIterator: %w: the answer tells to go on where it was asked", core.ErrUnavailable)
			}
			in.Token = out.Token
			continue
		case out.ShardIterator == nil || *out.ShardIterator == "":
			return "", fmt.Errorf("GetShardIterator: %w: the answer has no iterator", core.ErrUnavailable)
		}
		return string(*out.ShardIterator), nil
	}
}

// clockDifference is by how much our idea of the service's clock may be ahead of it.
const clockDifference = time.Minute
