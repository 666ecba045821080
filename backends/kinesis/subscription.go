package kinesis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Times of a subscription.
const (
	// silence is how long a live subscription may say nothing: it sends an event at least each 5 seconds or so.
	silence = 35 * time.Second
	// The service ends a subscription after 5 minutes. It is renewed before that, at a time of its own within this span, so that those that
	// began together do not go on together.
	renewFrom = 3*time.Minute + 30*time.Second
	renewTo   = 4*time.Minute + 45*time.Second
	// subscribeEvery is for how long after a good call another one for the same shard is refused (API reference of SubscribeToShard).
	subscribeEvery = 5 * time.Second
)

var (
	errSilent      = fmt.Errorf("nothing came for %v: the connection may be half open", silence)
	errInterrupted = errors.New("the call that waited was given up")
)

// subscription is a running SubscribeToShard. Nothing of it runs by itself: what is not read waits in the connection, and makes the service
// wait.
type subscription struct {
	*frames
	body  io.Closer
	ctx   context.Context // its end ends the connection
	end   context.CancelCauseFunc
	watch *time.Timer
	began time.Time
	renew time.Time

	waiting atomic.Bool     // a caller is within next
	caller  <-chan struct{} // Done of the caller that can interrupt it
	unlink  func() bool
}

// subscribe makes the call. The subscription lives as long as life, and must be ended.
func (s *Source) subscribe(ctx, life context.Context, in *sdk.SubscribeToShardInput) (*subscription, time.Time, error) {
	sub := &subscription{}
	sub.ctx, sub.end = context.WithCancelCause(life)
	// The request's context is that of the subscription, which outlives this call: time-out and caller end it only until there is an answer.
	late := fmt.Errorf("no answer within %v: %w", s.timeout, context.DeadlineExceeded)
	sub.watch = time.AfterFunc(s.timeout, func() { sub.end(late) })
	gone := context.AfterFunc(ctx, func() { sub.end(context.Cause(ctx)) })
	var body io.ReadCloser
	out, err := s.client.SubscribeToShard(sub.ctx, in, func(o *sdk.Options) {
		o.HTTPClient = s.pushes
		o.Protocol = pushing{o.Protocol, &body}
	})
	sub.watch.Stop()
	gone()
	if err == nil && sub.ctx.Err() != nil { // it came too late
		err = context.Cause(sub.ctx)
	}
	if err != nil {
		if cause := context.Cause(sub.ctx); errors.Is(cause, context.DeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		sub.end(err)
		if body != nil {
			_ = body.Close()
		}
		return nil, time.Time{}, s.failed(ctx, "SubscribeToShard", err)
	}
	_ = out.GetStream().Close() // the SDK's reader, which has nothing to read
	sub.frames, sub.body = newFrames(body), body
	sub.began = time.Now()
	sub.renew = sub.began.Add(renewFrom + rand.N(renewTo-renewFrom))
	sub.watch = time.AfterFunc(silence, func() { sub.end(errSilent) })
	sub.watch.Stop()
	at, ok := awsmiddleware.GetServerTime(out.ResultMetadata)
	if !ok {
		at = sub.began
	}
	return sub, at, nil
}

// next reads a frame, for as long as ctx lives. An error ends the subscription.
func (sub *subscription) next(ctx context.Context, w wire) (*page, error) {
	if sub.caller != ctx.Done() || sub.unlink == nil {
		if sub.unlink != nil {
			sub.unlink()
		}
		sub.caller = ctx.Done()
		// A caller uses one context for many calls; it only matters while one of them waits.
		sub.unlink = context.AfterFunc(ctx, func() {
			if sub.waiting.Load() {
				sub.end(errInterrupted)
			}
		})
	}
	sub.waiting.Store(true)
	defer sub.waiting.Store(false)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	sub.watch.Reset(silence)
	defer sub.watch.Stop()
	p, err := sub.frames.next(sub.ctx, w)
	if err == nil {
		return p, nil
	}
	if cause := context.Cause(sub.ctx); cause != nil {
		err = cause
	}
	return nil, err
}

// stop ends the connection.
func (sub *subscription) stop() {
	sub.end(context.Canceled)
	sub.watch.Stop()
	if sub.unlink != nil {
		sub.unlink()
	}
	_ = sub.body.Close() // nothing is left that it could spoil
}

// pushing is Options.Protocol for one SubscribeToShard: of a good answer the body is taken, and the SDK is left with nothing to read. Errors are
// the stock protocol's.
type pushing struct {
	smithyhttp.ClientProtocol // the client's own
	body                      *io.ReadCloser
}

// DeserializeResponse implements [smithyhttp.ClientProtocol].
func (p pushing) DeserializeResponse(ctx context.Context, schema *smithy.OperationSchema, types *smithy.TypeRegistry, resp *smithyhttp.Response, out smithy.Deserializable) error {
	if resp.StatusCode < 200 || resp.StatusCode >= 300 {
		return p.ClientProtocol.DeserializeResponse(ctx, schema, types, resp, out)
	}
	*p.body = resp.Body
	resp.Body = http.NoBody
	return nil
}

// HasInitialEventMessage implements [smithyhttp.ClientProtocol]: the frame is passed over like any that has no records, since some emulators
// leave it out.
func (pushing) HasInitialEventMessage() bool { return false }

// DeserializeEventMessage implements [smithyhttp.ClientProtocol].
func (pushing) DeserializeEventMessage(*smithy.Schema, *smithy.TypeRegistry, io.Reader) (smithy.Deserializable, error) {
	return nil, io.EOF
}

// startAt is a position as SubscribeToShard wants it.
func startAt(kind types.ShardIteratorType, number string, at *time.Time) *types.StartingPosition {
	p := &types.StartingPosition{Type: kind, Timestamp: at}
	if number != "" {
		p.SequenceNumber = &number
	}
	return p
}
