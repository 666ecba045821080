package kinesis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardwarden/shardwarden/core"
)

// subscriber reads one shard as it is pushed: a loop around subscriptions, of which each goes on where the one before it has come to. Its place
// is that of the polling reader within it, which goes on from there should the source turn to polling.
type subscriber struct {
	*reader
	sub *subscription // nil: none
	// from is the continuation of the last event that was taken, with records or without; empty: the place is where to begin. It is no
	// position of a record, and is never handed out.
	from  []byte
	got   bool      // an event has come, of the latest subscription
	again time.Time // not to subscribe before
	tries int       // subscriptions that failed, in a row
	taken int       // subscriptions that another one took over, in a row
}

// Next waits for the next event of the shard's subscription, and renews that where need be.
func (r *subscriber) Next(ctx context.Context) (*core.Page, error) {
	if r.s.fan.polling.Load() {
		r.drop()
		return r.reader.Next(ctx)
	}
	if r.life.Err() != nil {
		return nil, r.s.wrap("read", r.shard, errClosed)
	}
	p, err := r.patiently(ctx)
	if err == nil {
		return p, nil
	}
	switch {
	case ctx.Err() == nil && r.life.Err() != nil:
		err = errClosed
	case ctx.Err() == nil && r.s.pollInstead(ctx, err):
		return r.Next(ctx)
	}
	if ctx.Err() != nil || r.life.Err() != nil {
		r.drop()
	}
	return nil, r.s.wrap("read", r.shard, err)
}

// Close ends a Next that waits, and with it the subscription.
func (r *subscriber) Close() error { return r.reader.Close() }

// patiently repeats what may pass, while patience lasts.
func (r *subscriber) patiently(caller context.Context) (*core.Page, error) {
	ctx := r.calls.of(caller, r.life)
	var since time.Time // of the first failure in a row
	for {
		p, err := r.push(ctx, caller)
		switch {
		case err == nil && p != nil:
			return p, nil
		case err == nil: // nothing to hand out yet; the time between two subscriptions bounds this
		case cmp.Or(caller.Err(), r.life.Err()) != nil:
			return nil, cmp.Or(caller.Err(), r.life.Err())
		case passes(err):
			if since.IsZero() {
				since = time.Now()
			}
			if time.Since(since)+time.Until(r.again) > r.s.patience {
				return nil, err
			}
			r.s.log.DebugContext(ctx, "subscription failed, trying again", "stream", r.s.name.stream, "shard", r.shard, "wait", time.Until(r.again), "error", err)
		default:
			return nil, err
		}
	}
}

// push takes one event. It returns no page and no error where there is nothing to say yet.
func (r *subscriber) push(ctx, caller context.Context) (*core.Page, error) {
	if r.ended {
		return nil, fmt.Errorf("%w: the shard was read to its end", core.ErrInvalid)
	}
	if r.unsure {
		return r.end(ctx)
	}
	if r.sub != nil && !time.Now().Before(r.sub.renew) {
		r.drop()
	}
	if r.sub == nil {
		if err := pause(ctx, time.Until(r.again)); err != nil {
			return nil, err
		}
		if err := r.subscribe(ctx); err != nil {
			r.failed(ctx, err)
			return nil, err
		}
	}
	w := max(wire(r.s.pages.wire.Load()), wireJSON)
	p, err := r.sub.next(caller, w)
	if err != nil {
		r.drop()
		if err := cmp.Or(caller.Err(), r.life.Err()); err != nil { // ctx may hear of it later
			return nil, err
		}
		return nil, r.broken(ctx, err)
	}
	if p == nil {
		return nil, nil
	}
	r.s.pages.decoded[w].Add(1)
	r.got = true
	r.tries, r.taken = 0, 0
	continuation := p.next // a view, which is gone with the page
	r.from = append(r.from[:0], continuation...)
	if len(p.Records) > 0 {
		short, err := r.take(ctx, p)
		if short || err != nil {
			// What is left of the event has to come again.
			r.from = r.from[:0]
			r.drop()
			if err != nil {
				return nil, err
			}
			return &p.Page, nil
		}
	}
	if len(r.from) > 0 {
		return &p.Page, nil
	}
	r.drop()
	return r.last(ctx, p)
}

// subscribe begins a subscription at the place that has been reached.
func (r *subscriber) subscribe(ctx context.Context) error {
	arn, err := r.s.consumerARN(ctx)
	if err != nil {
		return err
	}
	p := r.starting()
	sub, now, err := r.s.subscribe(ctx, r.life, &sdk.SubscribeToShardInput{ConsumerARN: &arn, ShardId: aws.String(string(r.shard)), StartingPosition: p})
	switch {
	case err == nil:
	case p.Timestamp != nil && tooEarly(*p.Timestamp, err):
		return fmt.Errorf("%w: the start %s may lie in the future of the service's clock: %w", core.ErrUnavailable, p.Timestamp.UTC().Format(time.RFC3339Nano), err)
	case errors.Is(err, core.ErrInvalid) && p.SequenceNumber != nil:
		return fmt.Errorf("position %s is not of this shard (was the stream deleted and made again?): %w", *p.SequenceNumber, err)
	case errors.Is(err, core.ErrNotFound):
		return r.s.missing(ctx, arn, err)
	default:
		return err
	}
	if p.Type == types.ShardIteratorTypeLatest {
		// Should this subscription be lost before its first event, "latest" must not mean later than it did now.
		r.at.Time = now
	}
	r.sub, r.got = sub, false
	return nil
}

// starting is where the next subscription begins.
func (r *subscriber) starting() *types.StartingPosition {
	switch {
	case len(r.from) > 0:
		return startAt(types.ShardIteratorTypeAfterSequenceNumber, string(r.from), nil)
	case r.at.Anchor == core.Horizon:
		return startAt(types.ShardIteratorTypeTrimHorizon, "", nil)
	case r.at.Anchor == core.AtTime, r.at.Anchor == core.Latest && !r.at.Time.IsZero():
		return startAt(types.ShardIteratorTypeAtTimestamp, "", aws.Time(r.at.Time))
	case r.at.Anchor == core.Latest:
		return startAt(types.ShardIteratorTypeLatest, "", nil)
	case r.resumed:
		return startAt(types.ShardIteratorTypeAtSequenceNumber, r.at.Token, nil)
	}
	return startAt(types.ShardIteratorTypeAfterSequenceNumber, r.at.Token, nil)
}

// drop ends the subscription, if there is one. Another may begin as soon as the service allows it.
func (r *subscriber) drop() {
	if r.sub == nil {
		return
	}
	if next := r.sub.began.Add(subscribeEvery); next.After(r.again) {
		r.again = next
	}
	r.sub.stop()
	r.sub = nil
}

// later puts the next subscription off.
func (r *subscriber) later(wait time.Duration) {
	if next := time.Now().Add(wait); next.After(r.again) {
		r.again = next
	}
}

// Waits after a refusal because the consumer has another subscription to the shard: at least a second, at random, so that a new owner reads
// within the 5 seconds that the former one's subscription is safe and a second or so; and growing, where that does not help.
const (
	inUseLeast = time.Second
	inUseFirst = 5 // waits that do not grow
)

// failed notes that a subscription could not be made.
func (r *subscriber) failed(ctx context.Context, err error) {
	r.tries++
	if codeOf(err) != "ResourceInUseException" {
		r.later(backoff(r.tries - 1))
		return
	}
	if r.tries > inUseFirst {
		r.s.fan.tell(ctx, r.s, r.shard, err)
	}
	bound := inUseLeast << min(max(r.tries-inUseFirst, 0), 5)
	r.later(inUseLeast + rand.N(bound))
}

// broken says what it means that a subscription has ended. One that was lost because nobody read from it, while a handler was busy, counts like
// any other: the next event forgets it.
func (r *subscriber) broken(ctx context.Context, err error) error {
	code := codeOf(err)
	switch {
	case errors.Is(err, errInterrupted), errors.Is(err, io.EOF) && r.got:
		return nil // the service ends each after five minutes
	case code == "ResourceInUseException":
		// Another one took over: a new owner of the shard, then this reader is closed any moment; or another application. Not to take it
		// back at once.
		r.taken++
		r.s.fan.tell(ctx, r.s, r.shard, err)
		r.later(subscribeEvery + rand.N(subscribeEvery<<min(r.taken-1, 4)))
		return r.s.failed(ctx, "SubscribeToShard", err)
	}
	r.tries++
	r.later(backoff(r.tries - 1))
	var unreadable *pageError
	switch {
	case errors.As(err, &unreadable):
		from := wire(r.s.pages.wire.Load())
		if from < wireStock {
			r.s.fallBack(ctx, from, err)
		}
		return fmt.Errorf("SubscribeToShard: %w: %w", core.ErrUnavailable, err)
	case errors.Is(err, io.EOF):
		return fmt.Errorf("SubscribeToShard: %w: the subscription ended before its first event", core.ErrUnavailable)
	case code == "ResourceNotFoundException":
		// The next subscription finds out what it is that is gone.
		return fmt.Errorf("SubscribeToShard: %w: %s", core.ErrUnavailable, err.Error())
	case errors.Is(err, errSilent):
		r.s.log.WarnContext(ctx, "subscription is silent, making another", "stream", r.s.name.stream, "shard", r.shard, "silence", silence)
	}
	return r.s.failed(ctx, "SubscribeToShard", err)
}
