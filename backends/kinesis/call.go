package kinesis

import (
	"context"
	"math/rand/v2"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
)

// once sends one request, bounded in time, and gives what goes wrong a kind.
func once[In, Out any](ctx context.Context, s *Source, call string, f func(context.Context, *In, ...func(*sdk.Options)) (*Out, error), in *In) (*Out, error) {
	bounded, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	out, err := f(bounded, in)
	if err != nil {
		return nil, s.failed(ctx, call, err)
	}
	return out, nil
}

// patiently repeats a request while that may help and the source's patience lasts.
func patiently[In, Out any](ctx context.Context, s *Source, call string, f func(context.Context, *In, ...func(*sdk.Options)) (*Out, error), in *In) (*Out, error) {
	start := time.Now()
	for try := 0; ; try++ {
		out, err := once(ctx, s, call, f, in)
		if err == nil || !passes(err) {
			return out, err
		}
		wait := backoff(try)
		if time.Since(start)+wait > s.patience {
			return nil, err
		}
		s.log.WarnContext(ctx, "kinesis call failed, trying again", "stream", s.name.stream, "call", call, "wait", wait, "error", err)
		if err := pause(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// backoff is the pause after a failure, the try-th in a row, from 0: at random up to a bound that doubles, so that those who were throttled
// together do not come back together; never below what the service allows a shard anyway.
func backoff(try int) time.Duration {
	bound := min(250*time.Millisecond<<min(try, 10), 5*time.Second)
	return fastestPoll + rand.N(bound)
}

// pause waits, or returns the error of ctx.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
