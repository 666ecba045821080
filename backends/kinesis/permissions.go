package kinesis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/hashicorp/go-multierror"

	"github.com/shardwarden/shardwarden/core"
)

// checkTime bounds the check of permissions: what is not answered by then is found out by reading.
const checkTime = 5 * time.Second

// What the check asks for where it must not, or cannot, ask for the real thing. A subscription to a shard takes that from whoever reads it, so the
// check names one that no stream has: the service looks at permissions before it looks for the shard.
const (
	noShard    = "shardId-999999999999"
	noIterator = "AAAAAAAAAAE="
)

// checkPermissions tries each kind of call that reading takes, and returns an error that names every permission that is missing; nil where none
// is known to be. d is what the stream was described as, and denied why it could not be. Other troubles than missing permissions are for
// reading to find.
func (s *Source) checkPermissions(ctx context.Context, d description, denied error) error {
	bounded, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	c := permissions{s: s, ctx: bounded, arn: d.arn}
	if s.name.arn != "" {
		c.arn = s.name.arn
	}
	c.note(denied)
	shard := c.listing(denied != nil)
	listed := len(c.missing)
	if s.fan != nil {
		c.pushing()
	}
	if pushed := len(c.missing); s.fan == nil || s.fan.orPoll && pushed > listed {
		c.polling(shard)
		if s.fan != nil && len(c.missing) == pushed { // one way is enough
			c.missing, c.untried = c.missing[:listed], nil
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return c.err()
}

// permissions is a check under way.
type permissions struct {
	s       *Source
	ctx     context.Context
	arn     string // of the stream, as far as it is known
	missing []error
	untried []string // actions that could not be tried because of what is missing
}

// note keeps err if it is a lack of permission, and reports whether it is.
func (c *permissions) note(err error) bool {
	if !lacksPermission(err) {
		return false
	}
	c.missing = append(c.missing, err)
	return true
}

// err is nil where nothing is missing.
func (c *permissions) err() error {
	err := multierror.Append(nil, c.missing...).ErrorOrNil()
	if err != nil && len(c.untried) > 0 {
		return fmt.Errorf("%w\nbecause of that these could not be tried, and may be missing too: %s", err, strings.Join(c.untried, ", "))
	}
	return err
}

// lacksPermission reports whether a call was refused because a policy lacks something. Where the credentials themselves are not accepted no other
// call fares better, so there is nothing to gather.
func lacksPermission(err error) bool {
	switch codeOf(err) {
	case "AccessDeniedException", "AccessDenied", "NotAuthorized", "KMSAccessDeniedException":
		return errors.Is(err, core.ErrDenied)
	}
	return false
}

// listing tries the two calls that list shards, of which one is enough, and gives one of the shards: any, so that the workers of a fleet that
// start together do not all read the same. described says that the second of the two is known to be denied.
func (c *permissions) listing(described bool) (shard string) {
	byName, byARN := c.s.name.forCall()
	var shards []types.Shard
	out, err := once(c.ctx, c.s, "ListShards", c.s.client.ListShards, &sdk.ListShardsInput{StreamName: byName, StreamARN: byARN})
	switch {
	case err == nil:
		shards = out.Shards
	case !lacksPermission(err):
	case described:
		c.note(err)
	default:
		out, err2 := once(c.ctx, c.s, "DescribeStream", c.s.client.DescribeStream, &sdk.DescribeStreamInput{StreamName: byName, StreamARN: byARN})
		if lacksPermission(err2) {
			c.note(fmt.Errorf("%w; instead of it, %w", err, err2))
		}
		if err2 == nil && out.StreamDescription != nil {
			shards = out.StreamDescription.Shards
		}
	}
	if len(shards) == 0 {
		return noShard
	}
	return aws.ToString(shards[rand.IntN(len(shards))].ShardId)
}

// polling tries what polls: one record at most of one shard.
func (c *permissions) polling(shard string) {
	byName, byARN := c.s.name.forCall()
	iterator := noIterator
	out, err := once(c.ctx, c.s, "GetShardIterator", c.s.client.GetShardIterator, &sdk.GetShardIteratorInput{
		StreamName: byName, StreamARN: byARN, ShardId: &shard, ShardIteratorType: types.ShardIteratorTypeTrimHorizon,
	})
	denied := c.note(err)
	if err == nil && out.ShardIterator != nil {
		iterator = *out.ShardIterator
	}
	in := sdk.GetRecordsInput{ShardIterator: &iterator, StreamARN: byARN, Limit: aws.Int32(1)}
	if in.StreamARN == nil && c.arn != "" {
		in.StreamARN = &c.arn
	}
	_, err = once(c.ctx, c.s, "GetRecords", c.s.client.GetRecords, &in)
	if !c.note(err) && denied {
		c.untried = append(c.untried, "kinesis:GetRecords") // it may have been refused for the iterator before anybody looked at permissions
	}
}

// pushing tries what fan-out takes. A consumer that is missing is registered, as it would be by reading: there is no other way to find out.
func (c *permissions) pushing() {
	consumer := c.s.fan.consumer
	if !c.s.fan.byARN() {
		if c.arn == "" {
			c.untried = append(c.untried, "kinesis:DescribeStreamConsumer", "kinesis:RegisterStreamConsumer", "kinesis:SubscribeToShard")
			return
		}
		consumer = c.arn + "/consumer/" + c.s.fan.consumer + ":0" // policies name no time
		out, err := once(c.ctx, c.s, "DescribeStreamConsumer", c.s.client.DescribeStreamConsumer, &sdk.DescribeStreamConsumerInput{StreamARN: &c.arn, ConsumerName: &c.s.fan.consumer})
		switch {
		case c.note(err):
			c.untried = append(c.untried, "kinesis:RegisterStreamConsumer")
		case errors.Is(err, core.ErrNotFound):
			_, err := once(c.ctx, c.s, "RegisterStreamConsumer", c.s.client.RegisterStreamConsumer, &sdk.RegisterStreamConsumerInput{StreamARN: &c.arn, ConsumerName: &c.s.fan.consumer})
			c.note(err)
		case err == nil && out.ConsumerDescription != nil && out.ConsumerDescription.ConsumerARN != nil:
			consumer = *out.ConsumerDescription.ConsumerARN
		}
	}
	sub, _, err := c.s.subscribe(c.ctx, c.ctx, &sdk.SubscribeToShardInput{
		ConsumerARN: &consumer, ShardId: aws.String(noShard), StartingPosition: startAt(types.ShardIteratorTypeLatest, "", nil),
	})
	if err == nil {
		sub.stop()
	}
	c.note(err)
}
