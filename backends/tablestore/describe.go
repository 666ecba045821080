package tablestore

import (
	"context"
	"fmt"
	"time"

	sdk "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/shardwarden/shardwarden/core"
)

// statusEvery is how often a stream that is being enabled is looked at.
const statusEvery = time.Second

// Describe says what the table's stream is. Its id is the service's, so a stream that was switched off and on has another. It waits, as long as
// ctx lives, for a stream that is being enabled.
func (s *Source) Describe(ctx context.Context) (core.StreamInfo, error) {
	if s.err != nil {
		return core.StreamInfo{}, s.err
	}
	info, err := s.describe(ctx, s.tries())
	return info, s.wrap("describe", "", err)
}

func (s *Source) describe(ctx context.Context, t *tries) (core.StreamInfo, error) {
	info, err := s.current(ctx, t)
	if err != nil {
		return info, err
	}
	if s.bound != "" && info.ID != s.bound {
		s.retire(ctx, info.ID)
		info.ID = s.bound
		return info, nil
	}
	for {
		one := int32(1)
		out, err := patiently(ctx, t, "DescribeStream", func(c *sdk.TableStoreClient) (*sdk.DescribeStreamResponse, error) {
			return c.DescribeStream(&sdk.DescribeStreamRequest{StreamId: streamID(info.ID), ShardLimit: &one})
		})
		if err != nil {
			return core.StreamInfo{}, err
		}
		if out.Status == sdk.SS_Active {
			s.known.Store(&info)
			return info, nil
		}
		if err := pause(ctx, statusEvery); err != nil {
			return core.StreamInfo{}, err
		}
	}
}

// current asks which stream the table has.
func (s *Source) current(ctx context.Context, t *tries) (core.StreamInfo, error) {
	out, err := patiently(ctx, t, "DescribeTable", func(c *sdk.TableStoreClient) (*sdk.DescribeTableResponse, error) {
		return c.DescribeTable(&sdk.DescribeTableRequest{TableName: s.table})
	})
	if err != nil {
		return core.StreamInfo{}, err
	}
	d := out.StreamDetails
	if d == nil || !d.EnableStream || d.StreamId == nil || *d.StreamId == "" {
		return core.StreamInfo{}, fmt.Errorf("%w: table %s has no stream: enable it, in the console or by UpdateTable with StreamSpecification{EnableStream: true, ExpirationTime: 24}, where 24 is how many hours changes are kept", core.ErrNotFound, s.table)
	}
	return core.StreamInfo{
		ID: core.StreamID(*d.StreamId), Name: s.table, Retention: time.Duration(d.ExpirationTime) * time.Hour,
		Lacks: core.SourceLacks{HashRanges: true, ChildrenAtEnd: true},
	}, nil
}

// retire notes that the table has another stream than the one this source is about. That is for ever: ids are not used twice.
func (s *Source) retire(ctx context.Context, now core.StreamID) {
	if !s.retired.Swap(true) {
		s.log.WarnContext(ctx, "the stream was switched off and on: the former one has ended", "table", s.table, "former", s.bound, "now", now)
	}
}

// id is the stream that calls are about.
func (s *Source) id(ctx context.Context, t *tries) (core.StreamID, error) {
	if s.bound != "" {
		return s.bound, nil
	}
	if i := s.known.Load(); i != nil {
		return i.ID, nil
	}
	info, err := s.describe(ctx, t)
	return info.ID, err
}

// retention is how long records stay; 0 where that is not known.
func (s *Source) retention() time.Duration {
	if i := s.known.Load(); i != nil {
		return i.Retention
	}
	return 0
}

// Now is the service's time, which it tells with every answer; the local time where it does not.
func (s *Source) Now(ctx context.Context) (time.Time, error) {
	if s.err != nil {
		return time.Time{}, s.err
	}
	if _, err := s.current(ctx, s.tries()); err != nil {
		return time.Time{}, s.wrap("ask the time of", "", err)
	}
	return s.clock.now(), nil
}

func streamID(id core.StreamID) *sdk.StreamId { return (*sdk.StreamId)(&id) }
