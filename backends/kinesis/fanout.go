package kinesis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/smithy-go"

	"github.com/shardwarden/shardwarden/core"
)

// FanOut has the service push the records (enhanced fan-out) to a consumer of the stream, given by its name or its ARN, instead of being
// polled: each consumer has 2 MB a second of each shard for itself, and records come within a tenth of a second. It costs extra.
//
// A name that the stream has no consumer of is registered; an ARN must exist. The consumer is never removed, so a restart costs nothing.
// Each application needs a consumer of its own: a shard is pushed to one subscription of a consumer at a time, and two applications that
// share one take the shards from each other.
//
// Without [OrPoll] a stream that cannot be pushed is an error; nothing is polled instead.
func FanOut(consumer string) Option {
	return func(s *settings) {
		s.fan = &fanOut{consumer: consumer, fanOutSettings: s.fan.settings(), turn: make(chan struct{}, 1)}
	}
}

// OrPoll lets a source with [FanOut] poll where fan-out cannot be had: it is not permitted, the stream has no room for another consumer, the
// consumer is gone, or the service (an emulator) does not know it. The source then polls until its end, and says so in the log once. What
// passes by itself, a throttled or lost subscription, is no reason.
func OrPoll() Option {
	return func(s *settings) {
		if s.fan == nil {
			s.fan = &fanOut{turn: make(chan struct{}, 1)}
		}
		s.fan.orPoll = true
	}
}

type fanOutSettings struct{ orPoll bool }

// fanOut is the consumer that a source is pushed to.
type fanOut struct {
	fanOutSettings
	consumer string // name or ARN, as the user gave it

	polling atomic.Bool            // it could not be had
	arn     atomic.Pointer[string] // once the consumer is known to be active
	turn    chan struct{}          // of the one that finds that out
	told    atomic.Int64           // unix seconds of the last warning that somebody takes over
}

func (f *fanOut) settings() fanOutSettings {
	if f == nil {
		return fanOutSettings{}
	}
	return f.fanOutSettings
}

func (f *fanOut) byARN() bool { return strings.HasPrefix(f.consumer, "arn:") }

// name is the consumer's, for messages.
func (f *fanOut) name() string {
	_, name, ok := strings.Cut(f.consumer, "/consumer/")
	if !ok {
		return f.consumer
	}
	name, _, _ = strings.Cut(name, ":")
	return name
}

var consumerSuffix = regexp.MustCompile(`^[a-zA-Z0-9_.-]+:\d+$`)

// check says what is wrong with the consumer of a stream.
func (f *fanOut) check(n name) error {
	switch {
	case f.consumer == "" && f.orPoll:
		return errors.New("OrPoll goes with FanOut, which is not given")
	case f.consumer == "":
		return errors.New("FanOut needs the name of a consumer, one for each application, or its ARN")
	case !f.byARN():
		if len(f.consumer) > 128 || !streamName.MatchString(f.consumer) {
			return fmt.Errorf("FanOut: %q is no name of a consumer: 1 to 128 letters, digits, '_', '.' and '-'", f.consumer)
		}
		return nil
	}
	of, rest, ok := strings.Cut(f.consumer, "/consumer/")
	if !ok || !consumerSuffix.MatchString(rest) {
		return fmt.Errorf("FanOut: %s is not the ARN of a consumer: arn:aws:kinesis:REGION:ACCOUNT:stream/STREAM/consumer/NAME:TIME", f.consumer)
	}
	stream, err := parseARN(of)
	switch {
	case err != nil:
		return fmt.Errorf("FanOut: consumer %s: %w", f.consumer, err)
	case stream.stream != n.stream || n.account != "" && stream.account != n.account:
		return fmt.Errorf("FanOut: consumer %s is one of another stream than %s", f.consumer, n.resource())
	case stream.region != n.region:
		return fmt.Errorf("FanOut: consumer %s is in region %s, calls go to %s", f.consumer, stream.region, n.region)
	}
	return nil
}

// consumerEvery is how often a consumer that is being created is looked at; DescribeStreamConsumer allows an account 20 a second. consumerWait
// is for how long: it takes the service some seconds.
const (
	consumerEvery = time.Second
	consumerWait  = time.Minute
)

// Reasons why a source cannot be pushed to, other than a lack of permission.
var (
	errNoConsumer = errors.New("no such consumer")
	errNoRoom     = errors.New("the stream has no room for another consumer")
)

// consumerARN is the ARN of the active consumer. The first caller finds it out, and registers it where that is to be done; others wait for it.
func (s *Source) consumerARN(ctx context.Context) (string, error) {
	if arn := s.fan.arn.Load(); arn != nil {
		return *arn, nil
	}
	select {
	case s.fan.turn <- struct{}{}:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	defer func() { <-s.fan.turn }()
	if arn := s.fan.arn.Load(); arn != nil {
		return *arn, nil
	}
	arn, err := s.findConsumer(ctx)
	if err != nil {
		return "", err
	}
	s.fan.arn.Store(&arn)
	return arn, nil
}

// findConsumer looks the consumer up, registers it if need be, and waits until it is active.
func (s *Source) findConsumer(ctx context.Context) (string, error) {
	in := sdk.DescribeStreamConsumerInput{ConsumerARN: &s.fan.consumer}
	if !s.fan.byARN() {
		d, err := s.describe(ctx)
		if err != nil {
			return "", err
		}
		in = sdk.DescribeStreamConsumerInput{StreamARN: &d.arn, ConsumerName: &s.fan.consumer}
	}
	start := time.Now()
	for {
		out, err := patiently(ctx, s, "DescribeStreamConsumer", s.client.DescribeStreamConsumer, &in)
		status := types.ConsumerStatus("UNREGISTERED")
		switch {
		case errors.Is(err, core.ErrNotFound):
			if err := s.lacksConsumer(ctx, in, time.Since(start), err); err != nil {
				return "", err
			}
		case errors.Is(err, core.ErrDenied) && s.fan.byARN() && !s.unsigned(err):
			return s.fan.consumer, nil // all that is needed is permission to subscribe
		case err != nil:
			return "", err
		case out.ConsumerDescription == nil || out.ConsumerDescription.ConsumerARN == nil:
			return "", fmt.Errorf("DescribeStreamConsumer: %w: the answer lacks the consumer's ARN", core.ErrInvalid)
		default:
			status = out.ConsumerDescription.ConsumerStatus
		}
		if status == types.ConsumerStatusActive {
			return *out.ConsumerDescription.ConsumerARN, nil
		}
		if time.Since(start) > consumerWait {
			return "", fmt.Errorf("%w: consumer %s of stream %s is still %s after %v", core.ErrUnavailable, s.fan.name(), s.name.stream, status, consumerWait)
		}
		if err := pause(ctx, consumerEvery); err != nil {
			return "", err
		}
	}
}

// lacksConsumer does what there is to do about a consumer that was not found: registers it, or says that it is gone. why is the answer. What may
// pass is no error until patience has run out.
func (s *Source) lacksConsumer(ctx context.Context, in sdk.DescribeStreamConsumerInput, waited time.Duration, why error) error {
	if s.fan.byARN() {
		if _, err := s.describe(ctx); err != nil && !errors.Is(err, core.ErrDenied) {
			return err // the stream itself, most likely
		}
		// Not ErrNotFound, which would mean the shard.
		return fmt.Errorf("%w: %w: %s (was it deregistered?): register it again and give its new ARN, or give FanOut a name: %s", core.ErrInvalid, errNoConsumer, s.fan.consumer, why.Error())
	}
	s.log.InfoContext(ctx, "registering a consumer for fan-out", "stream", s.name.stream, "consumer", s.fan.consumer)
	_, err := once(ctx, s, "RegisterStreamConsumer", s.client.RegisterStreamConsumer, &sdk.RegisterStreamConsumerInput{StreamARN: in.StreamARN, ConsumerName: in.ConsumerName})
	switch {
	case err == nil || codeOf(err) == "ResourceInUseException":
		return nil // by us, or by another worker just now
	case passes(err) && waited < s.patience:
		return nil
	case codeOf(err) == "LimitExceededException":
		return fmt.Errorf("%w (%s): %w", errNoRoom, s.consumers(ctx, *in.StreamARN), err)
	}
	return err
}

func codeOf(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	return ""
}

// resourceOf is what a policy has to name for a call.
func (s *Source) resourceOf(call string) string {
	switch call {
	case "DescribeStreamConsumer", "SubscribeToShard":
		return s.name.resource() + " and " + s.name.resource() + "/consumer/" + s.fan.name() + ":*"
	}
	return s.name.resource()
}

// consumers names those that a stream has, as well as can be found out.
func (s *Source) consumers(ctx context.Context, arn string) string {
	out, err := once(ctx, s, "ListStreamConsumers", s.client.ListStreamConsumers, &sdk.ListStreamConsumersInput{StreamARN: &arn})
	if err != nil {
		return "its consumers cannot be listed: " + err.Error()
	}
	var names []string
	for _, c := range out.Consumers {
		names = append(names, aws.ToString(c.ConsumerName))
	}
	return fmt.Sprintf("it has %d: %s; deregister one that nobody needs, or share its name with an application that has ended", len(names), strings.Join(names, ", "))
}

// missing says what it was that SubscribeToShard did not find, when it said that something was not found: an error that is core.ErrNotFound is
// taken for the end of the shard, and so must not mean the consumer.
func (s *Source) missing(ctx context.Context, arn string, why error) error {
	_, err := patiently(ctx, s, "DescribeStreamConsumer", s.client.DescribeStreamConsumer, &sdk.DescribeStreamConsumerInput{ConsumerARN: &arn})
	switch {
	case err == nil:
		return why
	case !errors.Is(err, core.ErrNotFound):
		return fmt.Errorf("%w: shard, stream or consumer is not there, and which of them cannot be found out: %s: %w", core.ErrUnavailable, why.Error(), err)
	}
	if known := s.fan.arn.Load(); known != nil && *known == arn {
		s.fan.arn.CompareAndSwap(known, nil)
	}
	if _, err := s.describe(ctx); err != nil {
		return err
	}
	s.log.WarnContext(ctx, "the consumer for fan-out is gone", "stream", s.name.stream, "consumer", s.fan.consumer)
	return fmt.Errorf("%w: consumer %s is no longer there: %s", core.ErrUnavailable, s.fan.name(), why.Error())
}

// pollInstead turns to polling, if that was asked for and err is a reason.
func (s *Source) pollInstead(ctx context.Context, err error) bool {
	reason := errors.Is(err, core.ErrDenied) || errors.Is(err, errNoConsumer) || errors.Is(err, errNoRoom) || codeOf(err) == "UnknownOperationException"
	if !s.fan.orPoll || !reason {
		return false
	}
	if s.fan.polling.CompareAndSwap(false, true) {
		s.log.WarnContext(ctx, "fan-out cannot be had, polling instead", "stream", s.name.stream, "consumer", s.fan.consumer, "error", err)
	}
	return true
}

// tell logs, at most once a minute for all shards, that another subscription of the same consumer is in the way.
func (f *fanOut) tell(ctx context.Context, s *Source, shard core.ShardID, err error) {
	now := time.Now().Unix()
	if last := f.told.Load(); now-last >= 60 && f.told.CompareAndSwap(last, now) {
		s.log.WarnContext(ctx, "another subscription of the same consumer has the shard: if this goes on, two applications share the consumer, and each needs its own",
			"stream", s.name.stream, "shard", shard, "consumer", cmp.Or(f.name(), f.consumer), "error", err)
	}
}
