package otsclient

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/aliyun/aliyun-tablestore-go-sdk/common"
	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/shardwarden/shardwarden/core"
)

// Op is a call of the service.
type Op struct {
	Name  string // as the service names it: "GetRow"
	Table string // what it is about, for errors
	// Attempts is how often it is sent at most, where it was throttled or not answered. 0 and 1: once, which is a must for conditional writes
	// (docs/design.md section 3, rule 3).
	Attempts int
	Timeout  time.Duration // of each attempt; 0: the client's
	// Body gets the answer as it came, before the SDK does, and returns what the SDK shall see instead. It may keep what it got. nil: nothing
	// looks at it.
	Body func([]byte) ([]byte, error)
}

// Call makes one call. f is given a client of the SDK for this call alone, whose requests end with ctx. An error is an *Error or, where f made
// none but failed by itself, f's.
func Call[Out any](ctx context.Context, c *Client, op Op, f func(*tablestore.TableStoreClient) (Out, error)) (Out, error) {
	pause := 50 * time.Millisecond
	for n := 1; ; n++ {
		out, err := once(ctx, c, op, f)
		if err == nil || n >= op.Attempts || !passing(err) || ctx.Err() != nil {
			return out, err
		}
		if !wait(ctx, pause/2+rand.N(pause/2)) {
			return out, err
		}
		pause = min(2*pause, time.Second)
	}
}

// wait pauses; false when ctx ended first.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// passing reports whether trying again may help.
func passing(err error) bool {
	return errors.Is(err, core.ErrThrottled) || errors.Is(err, core.ErrUnavailable)
}

// once makes one attempt.
func once[Out any](ctx context.Context, c *Client, op Op, f func(*tablestore.TableStoreClient) (Out, error)) (Out, error) {
	var none Out
	if c.bad != nil {
		return none, &Error{Call: op.Name, Table: op.Table, Instance: c.config.Instance, Kind: core.ErrInvalid, Err: c.bad}
	}
	keys, err := c.credentials()
	if err != nil {
		return none, c.failed(ctx, op, false, err)
	}
	timeout := op.Timeout
	if timeout == 0 {
		timeout = c.config.Timeout
	}
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if bounded.Err() != nil {
		return none, c.failed(ctx, op, false, context.Cause(bounded))
	}
	l := c.idle.Get().(*line)
	l.keys.now, l.wire.ctx, l.wire.body, l.wire.sent = keys, bounded, op.Body, false
	out, err := guarded(func() (Out, error) { return f(l.sdk) })
	sent := l.wire.sent
	l.wire.ctx, l.wire.body = nil, nil
	c.idle.Put(l)
	if err != nil {
		if sent && ctx.Err() == nil && bounded.Err() != nil && !answered(err) {
			err = &lateError{timeout, err}
		}
		return none, c.failed(ctx, op, sent, err)
	}
	return out, nil
}

// credentials asks the provider, which is the user's code.
func (c *Client) credentials() (common.Credentials, error) {
	keys, err := guarded(func() (common.Credentials, error) { return c.config.Credentials.GetCredentials(), nil })
	if err != nil {
		return nil, fmt.Errorf("%w: the provider failed: %w", errNoCredentials, err)
	}
	if keys == nil || keys.GetAccessKeyID() == "" || keys.GetAccessKeySecret() == "" {
		return nil, errNoCredentials
	}
	return keys, nil
}

// panicError is a panic of the SDK: it takes fields of an answer for given, and values of wrong types for right.
type panicError struct{ value any }

func (e *panicError) Error() string { return fmt.Sprintf("the SDK cannot read it: %v", e.value) }

func guarded[Out any](f func() (Out, error)) (out Out, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{v}
		}
	}()
	return f()
}

// lateError is an attempt that was ended by its time limit.
type lateError struct {
	after time.Duration
	err   error
}

func (e *lateError) Error() string { return fmt.Sprintf("no answer within %v", e.after) }
func (e *lateError) Unwrap() error { return e.err }
