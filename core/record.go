package core

import (
	"bytes"
	"context"
	"strings"
	"time"
)

// Record is one record of a stream. Its memory, strings included, belongs to the page it came in and is valid until the handler returns:
// [Record.Clone] what is kept longer.
type Record struct {
	Data     []byte
	Key      string // what orders records: those of one key come in order
	Sequence string // the service's number of the record, for people and sinks
	Sub      uint64 // place inside an aggregated record, from 0
	Arrived  int64  // when the service received it, Unix milliseconds; 0 unknown
	Native   any    // the adapter's own view of the record, nil where it has none
}

// Clone returns a record that owns its memory. Native is copied as it is: its adapter says what that means.
func (r Record) Clone() Record {
	r.Data = bytes.Clone(r.Data)
	r.Key = strings.Clone(r.Key)
	r.Sequence = strings.Clone(r.Sequence)
	return r
}

// Batch is what a handler gets: records of one shard in order. Everything it points to is valid until the handler returns; positions may
// be kept.
type Batch struct {
	Stream   StreamID
	Shard    ShardID
	Records  []Record
	Lag      time.Duration // behind the end of the shard; negative: unknown
	End      bool          // nothing comes after this batch
	Children []Shard       // with End: the shards that go on
	// Fence is the number of this ownership of the shard: it grows from owner to owner, across processes, so a sink that remembers the
	// highest it has seen can refuse a worker that was thought dead. It starts again when a lease row is deleted and made anew.
	Fence uint64

	session Session
	page    *Page
	first   int   // index in page of Records[0]
	picked  []int // index in page of each record, where they are not in a row
}

// NewBatch makes the batch of a whole page. Engines use it, and tests of handlers; user code gets batches and makes none.
func NewBatch(s Session, p *Page) *Batch {
	k := s.Key()
	return &Batch{Stream: k.Stream, Shard: k.Shard, Records: p.Records, Lag: p.Lag, End: p.End, Children: p.Children, Fence: s.Fence(), session: s, page: p}
}

// Part is the batch of records i to j (j not included) of b, for handlers that split their work. Only a part that holds the last record
// carries End.
func (b *Batch) Part(i, j int) *Batch {
	c := *b
	c.Records = b.Records[i:j:j]
	if b.picked != nil {
		c.picked = b.picked[i:j:j]
	} else {
		c.first = b.first + i
	}
	if j < len(b.Records) {
		c.End, c.Children = false, nil
	}
	return &c
}

// Pick is the batch of the records of b at the indexes, for engines that handle keys side by side. It is never the End.
func (b *Batch) Pick(indexes []int) *Batch {
	c := *b
	c.Records, c.picked, c.End, c.Children = make([]Record, len(indexes)), make([]int, len(indexes)), false, nil
	for n, i := range indexes {
		c.Records[n], c.picked[n] = b.Records[i], b.at(i)
	}
	return &c
}

// at is the place in the page of record i.
func (b *Batch) at(i int) int {
	if b.picked != nil {
		return b.picked[i]
	}
	return b.first + i
}

// Undecoded finds the first record of b that its adapter could not decode; see [Page]. The error is nil where there is none. A handler never sees
// such a record; a dead-letter function may get it.
func (b *Batch) Undecoded() (i int, err error) {
	if len(b.page.Undecoded) == 0 {
		return 0, nil
	}
	for i := range b.Records {
		if err := b.page.Undecoded[b.at(i)]; err != nil {
			return i, err
		}
	}
	return 0, nil
}

// After is the position that resumes behind record i. It owns its memory and may be kept.
func (b *Batch) After(i int) Position {
	if b.page.After != nil {
		return b.page.After(b.at(i))
	}
	r := &b.Records[i]
	return Position{Token: strings.Clone(r.Sequence), Sub: r.Sub}
}

// Next is the position that resumes behind the whole batch; zero where an empty batch moved nothing.
func (b *Batch) Next() Position {
	n := len(b.Records)
	switch {
	case n == 0 && len(b.page.Records) > 0:
		return Position{}
	case !b.page.Next.IsZero() && (n == 0 || b.at(n-1) == len(b.page.Records)-1):
		return b.page.Next
	case n == 0:
		return Position{}
	}
	return b.After(n - 1)
}

// Checkpoint stores that everything up to the end of this batch is done. See [Session.Checkpoint].
func (b *Batch) Checkpoint(ctx context.Context) error {
	p := b.Next()
	if p.IsZero() {
		return nil
	}
	return b.session.Checkpoint(ctx, p)
}

// CheckpointAfter stores that everything up to record i of this batch is done. See [Session.Checkpoint].
func (b *Batch) CheckpointAfter(ctx context.Context, i int) error {
	return b.session.Checkpoint(ctx, b.After(i))
}
