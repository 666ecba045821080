package kinesis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardwarden/shardwarden/core"
)

// iteratorLife is how long an iterator is used. The service lets one live for 5 minutes; a consumer that was slow gets a new one before that.
const iteratorLife = 4*time.Minute + 30*time.Second

// renewals is how many iterators in a row may be refused before that is an error.
const renewals = 3

// reader reads one shard: a loop around an iterator, a place that only delivered records move, and a pace.
type reader struct {
	s     *Source
	shard core.ShardID
	life  context.Context // ends with Close
	stop  context.CancelFunc
	calls callContext

	// at is where the first record not yet delivered is looked for, should a new iterator be needed.
	at core.Position
	// resumed: at is as Open was given it, a record that somebody else delivered, or lies inside a page that was delivered in part. The record
	// is read again and left out, as far as it was delivered; which shows whether the service still has it.
	resumed bool
	unpack  unpacking
	iter    string
	made    time.Time // when the service gave iter
	unsure  bool      // the last answer had no next iterator and named no children
	ended   bool
	pace    pace
	size    size
}

// Open begins to read a shard. It sends nothing: the first Next does, and reports what is wrong with the position.
//
// A position AfterToken lies behind the user record number Sub where the record of that sequence number is an aggregated one: it is opened
// again, and what stands in it behind the position is delivered. Where such records are not opened (see [Aggregated]) one with a Sub above 0
// is delivered again as a whole.
func (s *Source) Open(ctx context.Context, shard core.Shard, at core.Position) (core.ShardReader, error) {
	if s.err != nil {
		return nil, s.err
	}
	if err := checkPosition(at); err != nil {
		return nil, s.wrap("open", shard.ID, err)
	}
	r := &reader{
		s: s, shard: shard.ID, at: at.Clone(), resumed: at.Anchor == core.AfterToken,
		pace:   pace{caughtUp: s.pollEvery, behind: s.pollBehind},
		size:   size{page: s.pageBytes, most: s.maxRecords},
		unpack: newUnpacking(s, shard),
	}
	r.life, r.stop = context.WithCancel(context.WithoutCancel(ctx)) // a reader outlives the call that opened it
	if s.fan != nil {
		return &subscriber{reader: r}, nil
	}
	return r, nil
}

// Close ends a Next that waits.
func (r *reader) Close() error {
	r.stop()
	return nil
}

// callContext is the context of calls to Next: the caller's, and over when the reader is closed. Callers use one for many calls.
type callContext struct {
	from  <-chan struct{} // the caller's Done
	ctx   context.Context // nil: none yet
	leave func()
}

func (c *callContext) of(ctx, life context.Context) context.Context {
	if c.ctx == nil || c.from != ctx.Done() {
		if c.leave != nil {
			c.leave()
		}
		both, cancel := context.WithCancel(ctx)
		unlink := context.AfterFunc(life, cancel)
		c.from, c.ctx, c.leave = ctx.Done(), both, func() { unlink(); cancel() }
	}
	return c.ctx
}

// Next waits until the shard may be read, and reads it.
func (r *reader) Next(ctx context.Context) (*core.Page, error) {
	if r.life.Err() != nil {
		return nil, r.s.wrap("read", r.shard, errClosed)
	}
	p, err := r.patiently(r.calls.of(ctx, r.life))
	if err != nil {
		if ctx.Err() == nil && r.life.Err() != nil {
			err = errClosed
		}
		return nil, r.s.wrap("read", r.shard, err)
	}
	return p, nil
}

// patiently repeats what may pass: throttling and silence with growing pauses while patience lasts, iterators that ran out at once.
func (r *reader) patiently(ctx context.Context) (*core.Page, error) {
	var since time.Time // of the first failure in a row
	refused := 0
	for try := 0; ; {
		p, err := r.next(ctx)
		switch {
		case err == nil && p != nil:
			return p, nil
		case err == nil: // nothing to hand out yet; the pace bounds this
		case errors.Is(err, core.ErrExpired) && refused < renewals:
			refused++
			r.s.log.DebugContext(ctx, "iterator ran out, making another", "stream", r.s.name.stream, "shard", r.shard, "at", r.at.String())
		case passes(err):
			wait := backoff(try)
			try++
			if since.IsZero() {
				since = time.Now()
			}
			if time.Since(since)+wait > r.s.patience {
				return nil, err
			}
			r.s.log.DebugContext(ctx, "read failed, trying again", "stream", r.s.name.stream, "shard", r.shard, "wait", wait, "error", err)
			if err := pause(ctx, wait); err != nil {
				return nil, err
			}
		default:
			return nil, err
		}
	}
}

// next is one read. It returns no page and no error where there is nothing to say yet.
func (r *reader) next(ctx context.Context) (*core.Page, error) {
	if r.ended {
		return nil, fmt.Errorf("%w: the shard was read to its end", core.ErrInvalid)
	}
	if err := pause(ctx, time.Until(r.pace.next)); err != nil {
		return nil, err
	}
	if r.unsure {
		return r.end(ctx)
	}
	fresh := r.iter == "" || time.Since(r.made) > iteratorLife
	if fresh {
		if err := r.newIterator(ctx); err != nil {
			return nil, err
		}
	}
	limit, start := r.size.limit(), time.Now()
	_, byARN := r.s.name.forCall()
	p, err := r.s.getRecords(ctx, request{iterator: r.iter, arn: byARN, limit: limit})
	if err != nil {
		r.pace.after(start, 0, false)
		if errors.Is(err, core.ErrExpired) || (errors.Is(err, core.ErrInvalid) && !fresh) { // the KCL takes both for an iterator that ran out
			r.iter = ""
			if !errors.Is(err, core.ErrExpired) {
				err = fmt.Errorf("%w: %w", core.ErrExpired, err)
			}
		}
		return nil, err
	}

	read := len(p.Records)
	r.size.saw(read, p.read)
	// Caught up: the service says so, or says nothing; and it gave less than it was asked for.
	r.pace.after(start, p.read, p.Lag <= 0 && read < int(limit))
	if read > 0 {
		if short, err := r.take(ctx, p); short {
			return &p.Page, nil
		} else if err != nil {
			return nil, err
		}
	}
	r.iter, r.made = strings.Clone(p.next), start
	if r.iter != "" {
		return &p.Page, nil
	}
	return r.last(ctx, p)
}

// last is a page without a next iterator: the shard has ended, if children say so (F36 in docs/reference/field-cases.md: an open shard can answer like that).
func (r *reader) last(ctx context.Context, p *page) (*core.Page, error) {
	for i := range p.children {
		child, err := newChild(&p.children[i])
		if err != nil { // as the KCL: such an answer is none
			r.s.log.WarnContext(ctx, "end of shard names a child that makes no sense", "stream", r.s.name.stream, "shard", r.shard, "error", err)
			p.Children = nil
			break
		}
		p.Children = append(p.Children, child)
	}
	p.End = len(p.Children) > 0
	r.ended, r.unsure = p.End, !p.End
	if r.unsure && len(p.Records) == 0 {
		if p.Release != nil {
			p.Release()
		}
		return nil, nil
	}
	return &p.Page, nil
}

// take unpacks the records of a page and moves the reader's place behind them. Where it returns short, only part of the page may be delivered, and
// its rest is read again; where it fails, all of it is.
func (r *reader) take(ctx context.Context, p *page) (short bool, err error) {
	last := strings.Clone(p.Records[len(p.Records)-1].Sequence)
	var after *core.Position
	found := true
	if r.resumed {
		after = &r.at
		found = slices.ContainsFunc(p.Records, func(in core.Record) bool { return compareNumbers(in.Sequence, r.at.Token) == 0 })
	}
	short, err = r.unpack.page(ctx, p, after)
	if err != nil {
		if p.Release != nil {
			p.Release()
		}
		return false, err
	}
	if !found {
		r.s.log.WarnContext(ctx, "the record at the checkpoint is no longer kept by the service: records between it and the first one read may have been lost",
			"stream", r.s.name.stream, "shard", r.shard, "checkpoint", r.at.Token, "read", len(p.Records))
	}
	r.at, r.resumed = core.Position{Token: last}, short
	if short {
		end := &p.Records[len(p.Records)-1]
		r.at = core.Position{Token: strings.Clone(end.Sequence), Sub: end.Sub}
		r.iter = ""
		p.Lag = -1 // that of the page, of which more is to come
	}
	return short, nil
}

// newIterator asks for an iterator at the place that has been reached.
func (r *reader) newIterator(ctx context.Context) error {
	byName, byARN := r.s.name.forCall()
	in := sdk.GetShardIteratorInput{StreamName: byName, StreamARN: byARN, ShardId: aws.String(string(r.shard))}
	switch {
	case r.at.Anchor == core.Horizon:
		in.ShardIteratorType = types.ShardIteratorTypeTrimHorizon
	case r.at.Anchor == core.AtTime, r.at.Anchor == core.Latest && !r.at.Time.IsZero():
		in.ShardIteratorType, in.Timestamp = types.ShardIteratorTypeAtTimestamp, aws.Time(r.at.Time)
	case r.at.Anchor == core.Latest:
		in.ShardIteratorType = types.ShardIteratorTypeLatest
	case r.resumed:
		in.ShardIteratorType, in.StartingSequenceNumber = types.ShardIteratorTypeAtSequenceNumber, aws.String(r.at.Token)
	default:
		in.ShardIteratorType, in.StartingSequenceNumber = types.ShardIteratorTypeAfterSequenceNumber, aws.String(r.at.Token)
	}
	start := time.Now()
	out, err := once(ctx, r.s, "GetShardIterator", r.s.client.GetShardIterator, &in)
	if err != nil {
		r.iter = ""
		r.pace.after(start, 0, false) // iterators are limited to 5 a second and shard, too
		switch {
		case in.Timestamp != nil && tooEarly(*in.Timestamp, err):
			return fmt.Errorf("%w: the start %s may lie in the future of the service's clock: %w", core.ErrUnavailable, in.Timestamp.UTC().Format(time.RFC3339Nano), err)
		case errors.Is(err, core.ErrInvalid) && in.StartingSequenceNumber != nil:
			return fmt.Errorf("position %s is not of this shard (was the stream deleted and made again?): %w", r.at.Token, err)
		}
		return err
	}
	if r.iter = aws.ToString(out.ShardIterator); r.iter == "" {
		return fmt.Errorf("GetShardIterator: %w: the answer has no iterator", core.ErrUnavailable)
	}
	r.made = start
	if in.ShardIteratorType == types.ShardIteratorTypeLatest {
		// Should this iterator be lost before a record was delivered, "latest" must not mean later than it did now.
		r.at.Time = start
		if t, ok := awsmiddleware.GetServerTime(out.ResultMetadata); ok {
			r.at.Time = t
		}
	}
	return nil
}
