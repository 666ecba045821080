package worker

import (
	"context"
	"time"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/lineage"
)

// stream is one stream that the worker consumes. Its source's abilities are found once.
type stream struct {
	id     core.StreamID
	source core.StreamSource
	lacks  core.SourceLacks
	start  core.Position
	order  core.PositionOrder
	clock  core.Clock
	fixer  core.Resolver

	since   time.Time     // when it was added
	retired chan struct{} // closed once the worker consumes it no more
	keepNow chan struct{} // wakes its keeper

	// What follows belongs to its keeper's goroutine.
	instant  time.Time // what a Latest start was resolved to by this worker, if it had to
	nextList time.Time
	audited  time.Time
	cleaned  time.Time
	gone     time.Time
	empty    int // looks in a row that showed no lease at all
	owed     map[core.ShardID]bool
	past     map[core.ShardID]bool // shards that the last pass found to need no lease
	checked  time.Time             // when a worker that does not list it last asked whether it is still the same
	holes    map[lineage.Hole]int
	missing  map[core.ShardID]bool

	// Guarded by Worker.mu.
	listing  []core.Shard   // the last complete one
	shared   *listing       // the last that was made because a shard ended
	begins   core.Position  // the start, with its instant, that openThen was listed for
	openThen []core.ShardID // the shards open at the start; nil: not asked
	wanted   bool           // a listing is wanted, to see whether parents without leases are gone
	wantedAt time.Time      // when it last was: at most once a lease duration
	fresh    bool           // listing is younger than the leases of the last look
	ended    bool           // a shard ended here since the last pass of the keeper
	waiting  string         // why nothing is taken yet
	listErr  error          // of the last listing
}

func newStream(s core.Stream, info core.StreamInfo) *stream {
	st := &stream{
		id: info.ID, source: s.Source, lacks: info.Lacks, start: s.Start, owed: map[core.ShardID]bool{},
		since: time.Now(), retired: make(chan struct{}), keepNow: make(chan struct{}, 1),
	}
	if st.start.IsZero() {
		st.start = core.FromHorizon
	}
	st.order, _ = s.Source.(core.PositionOrder)
	st.clock, _ = s.Source.(core.Clock)
	st.fixer, _ = s.Source.(core.Resolver)
	return st
}

// now is the time of the service, which is what its records are stamped with; the local time where the service does not tell.
func (st *stream) now(ctx context.Context) time.Time {
	if st.clock != nil {
		if t, err := st.clock.Now(ctx); err == nil {
			return t
		}
	}
	return time.Now()
}
