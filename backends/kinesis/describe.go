package kinesis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/smithy-go/middleware"

	"github.com/shardwarden/shardwarden/core"
)

// statusEvery is how often a stream that is being created is looked at; DescribeStreamSummary allows an account 20 a second.
const statusEvery = time.Second

// Describe says what the stream is. Its id is "account:stream:creationEpochSeconds", as the KCL names streams, so a stream that was deleted
// and made again has another. It waits, as long as ctx lives, for a stream that is being created.
//
// The first time, it also tries each kind of call that reading takes, and returns a [core.ErrDenied] that names every permission that is
// missing; see [Unchecked].
func (s *Source) Describe(ctx context.Context) (core.StreamInfo, error) {
	if s.err != nil {
		return core.StreamInfo{}, s.err
	}
	for waited := false; ; waited = true {
		d, err := s.describe(ctx)
		if err != nil {
			if !s.unchecked && lacksPermission(err) {
				err = s.checkPermissions(ctx, d, err)
			}
			return core.StreamInfo{}, s.wrap("describe", "", err)
		}
		switch d.status {
		case types.StreamStatusCreating:
			if !waited {
				s.log.InfoContext(ctx, "stream is being created, waiting", "stream", s.name.stream)
			}
			if err := pause(ctx, statusEvery); err != nil {
				return core.StreamInfo{}, s.wrap("describe", "", err)
			}
			continue
		case types.StreamStatusDeleting:
			return core.StreamInfo{}, s.wrap("describe", "", fmt.Errorf("%w: the stream is being deleted", core.ErrNotFound))
		}
		if s.name.epoch != 0 && d.created.Unix() != s.name.epoch {
			return core.StreamInfo{}, s.wrap("describe", "", &epochError{s.name, d.id})
		}
		if !s.unchecked && !s.checked.Load() {
			if err := s.checkPermissions(ctx, d, nil); err != nil {
				return core.StreamInfo{}, s.wrap("describe", "", err)
			}
			s.checked.Store(true)
		}
		info := core.StreamInfo{ID: d.id, Name: s.name.stream, Retention: d.retention}
		s.id.Store(info.ID)
		return info, nil
	}
}

// Now is the service's time, from the Date header of its answer: whole seconds, cut off, so that a start resolved against it is never late.
func (s *Source) Now(ctx context.Context) (time.Time, error) {
	if s.err != nil {
		return time.Time{}, s.err
	}
	d, err := s.describe(ctx)
	if err != nil {
		return time.Time{}, s.wrap("ask the time of", "", err)
	}
	return d.now, nil
}

// description is what DescribeStreamSummary and DescribeStream both say.
type description struct {
	id        core.StreamID
	arn       string
	status    types.StreamStatus
	created   time.Time
	retention time.Duration
	now       time.Time
}

// describe asks with the call that costs the account least, and with the other where that is not allowed.
func (s *Source) describe(ctx context.Context) (description, error) {
	byName, byARN := s.name.forCall()
	sum, err := patiently(ctx, s, "DescribeStreamSummary", s.client.DescribeStreamSummary, &sdk.DescribeStreamSummaryInput{StreamName: byName, StreamARN: byARN})
	if err == nil {
		d := sum.StreamDescriptionSummary
		if d == nil {
			return description{}, fmt.Errorf("DescribeStreamSummary: %w: the answer has no description", core.ErrInvalid)
		}
		return newDescription(d.StreamARN, d.StreamCreationTimestamp, d.RetentionPeriodHours, d.StreamStatus, sum.ResultMetadata)
	}
	if !errors.Is(err, core.ErrDenied) || s.unsigned(err) {
		return description{}, err
	}
	full, err2 := patiently(ctx, s, "DescribeStream", s.client.DescribeStream, &sdk.DescribeStreamInput{StreamName: byName, StreamARN: byARN, Limit: aws.Int32(1)})
	if err2 != nil {
		if errors.Is(err2, core.ErrDenied) {
			return description{}, fmt.Errorf("%w; instead of it, %w", err, err2)
		}
		return description{}, err2
	}
	d := full.StreamDescription
	if d == nil {
		return description{}, fmt.Errorf("DescribeStream: %w: the answer has no description", core.ErrInvalid)
	}
	return newDescription(d.StreamARN, d.StreamCreationTimestamp, d.RetentionPeriodHours, d.StreamStatus, full.ResultMetadata)
}

// unsigned reports whether a call was denied for want of credentials; then no other call fares better.
func (s *Source) unsigned(err error) bool {
	_, ok := errors.AsType[*credentialsError](err)
	return ok
}

func newDescription(arn *string, created *time.Time, hours *int32, status types.StreamStatus, meta middleware.Metadata) (description, error) {
	if arn == nil || created == nil {
		return description{}, fmt.Errorf("describe: %w: the answer lacks the stream's ARN or time of creation", core.ErrInvalid)
	}
	n, err := parseARN(*arn)
	if err != nil {
		return description{}, fmt.Errorf("describe: %w: the answer's %w", core.ErrInvalid, err)
	}
	d := description{
		id:        core.StreamID(fmt.Sprintf("%s:%s:%d", n.account, n.stream, created.Unix())),
		arn:       *arn,
		status:    status,
		created:   *created,
		retention: time.Duration(aws.ToInt32(hours)) * time.Hour,
	}
	var ok bool
	if d.now, ok = awsmiddleware.GetServerTime(meta); !ok {
		d.now = time.Now()
	}
	return d, nil
}
