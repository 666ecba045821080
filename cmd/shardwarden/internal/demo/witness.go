package demo

import (
	"context"
	"fmt"
	"time"

	sdk "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"
)

// witness finds out which shard each change went to, and under which sequence: Tablestore's answers to writes do not say it. It reads the stream
// through the bare SDK, beside the engine and its source. One goroutine at a time uses it.
type witness struct {
	client *sdk.TableStoreClient
	stream sdk.StreamId
	at     map[sdk.ShardId]*sdk.ShardIterator // nil: read to its end
	seen   map[recordID]placed                // not asked for yet
}

// witnessPatience is how long a change may take from its write to where it can be read.
const witnessPatience = 10 * time.Second

// find waits for changes, and forgets them.
func (w *witness) find(ctx context.Context, ids []recordID) ([]placed, error) {
	for start := time.Now(); ; {
		if err := w.read(); err != nil {
			return nil, err
		}
		if missing := w.missing(ids); missing == nil {
			break
		} else if time.Since(start) > witnessPatience {
			return nil, fmt.Errorf("%v was written %v ago, and no shard of the stream has it", missing, witnessPatience)
		}
		if err := w.list(); err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	out := make([]placed, len(ids))
	for i, id := range ids {
		out[i] = w.seen[id]
		delete(w.seen, id)
	}
	return out, nil
}

func (w *witness) missing(ids []recordID) *recordID {
	for _, id := range ids {
		if _, ok := w.seen[id]; !ok {
			return &id
		}
	}
	return nil
}

// list takes up shards that are new.
func (w *witness) list() error {
	all, err := listShards(w.client, w.stream)
	if err != nil {
		return err
	}
	for _, s := range all {
		if _, known := w.at[*s.SelfShard]; known {
			continue
		}
		it, err := w.client.GetShardIterator(&sdk.GetShardIteratorRequest{StreamId: &w.stream, ShardId: s.SelfShard})
		if err != nil {
			return fmt.Errorf("get an iterator of shard %s: %w", *s.SelfShard, err)
		}
		w.at[*s.SelfShard] = it.ShardIterator
	}
	return nil
}

// read takes in what is new in each shard.
func (w *witness) read() error {
	for shard, it := range w.at {
		if it == nil {
			continue
		}
		got, err := w.client.GetStreamRecord(&sdk.GetStreamRecordRequest{ShardIterator: it})
		if err != nil {
			return fmt.Errorf("read shard %s: %w", shard, err)
		}
		w.at[shard] = got.NextShardIterator
		for _, r := range got.Records {
			id, ok := idIn(r)
			if !ok {
				return fmt.Errorf("shard %s holds a change that no producer wrote: %s", shard, r)
			}
			// As the vendor's own consumers write it (docs/reference/tablestore.md 1.4).
			w.seen[id] = placed{string(shard), fmt.Sprintf("%08x:%016x:%08x", r.Info.Epoch, r.Info.Timestamp, r.Info.RowIndex)}
		}
	}
	return nil
}

// idIn reads off a record of the SDK which change it is.
func idIn(r *sdk.StreamRecord) (recordID, bool) {
	keys := r.PrimaryKey.PrimaryKeys
	if len(keys) != 2 {
		return recordID{}, false
	}
	name, _ := keys[1].Value.(string)
	key, ok := keyNumber(name)
	for plus, columns := range [][]*sdk.RecordColumn{r.Columns, r.OriginColumns} {
		for _, c := range columns {
			if n, is := c.Value.(int64); is && *c.Name == columnNumber {
				return recordID{key, int32(n) + int32(plus)}, ok
			}
		}
	}
	return recordID{}, false
}

func listShards(client *sdk.TableStoreClient, stream sdk.StreamId) ([]*sdk.StreamShard, error) {
	var out []*sdk.StreamShard
	for in := (sdk.DescribeStreamRequest{StreamId: &stream}); ; {
		page, err := client.DescribeStream(&in)
		if err != nil {
			return nil, fmt.Errorf("list shards: %w", err)
		}
		out = append(out, page.Shards...)
		if page.NextShardId == nil {
			return out, nil
		}
		in.InclusiveStartShardId = page.NextShardId
	}
}
