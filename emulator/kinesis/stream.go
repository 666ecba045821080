package kinesis

import (
	"fmt"
	"slices"
	"sort"
	"time"
)

// States of a stream.
const (
	stateCreating = "CREATING"
	stateActive   = "ACTIVE"
	stateUpdating = "UPDATING"
	stateDeleting = "DELETING"
)

const (
	modeProvisioned = "PROVISIONED"
	modeOnDemand    = "ON_DEMAND"
)

// stream is one incarnation of a stream. The server's lock guards it.
type stream struct {
	name       string
	created    int64 // ms; differs by a second or more from that of any other incarnation of the name
	mode       string
	retention  time.Duration
	maxRecord  int // bytes of key and data
	tags       map[string]string
	shards     []*shard             // listed ones, by index
	openShards []*shard             // by hash key
	consumers  map[string]*consumer // by name
	nextIndex  uint32
	counter    uint64 // the last one given out

	// state is ACTIVE unless a change is under way: then change is applied once the clock has passed due.
	state  string
	due    int64 // ms
	change func(at int64)
}

func (st *stream) tick() uint64 {
	st.counter++
	return st.counter
}

// addShard makes an open shard; the caller keeps openShards in order.
func (st *stream) addShard(at int64, start, end hashKey, parents ...*shard) *shard {
	h := &shard{index: st.nextIndex, id: shardID(st.nextIndex), start: start, end: end, parents: parents,
		created: at, first: st.tick(), listed: true}
	st.nextIndex++
	st.shards = append(st.shards, h)
	for _, p := range parents {
		p.children = append(p.children, h)
	}
	return h
}

func (st *stream) closeShard(h *shard, at int64) {
	h.closed, h.last = at, st.tick()
	h.changed()
}

// split closes h and opens two children that meet at middle, which belongs to the upper one.
func (st *stream) split(h *shard, middle hashKey, at int64) (lower, upper *shard) {
	st.closeShard(h, at)
	lower = st.addShard(at, h.start, middle.prev(), h)
	upper = st.addShard(at, middle, h.end, h)
	i := slices.Index(st.openShards, h)
	st.openShards = slices.Replace(st.openShards, i, i+1, lower, upper)
	return lower, upper
}

// merge closes two adjacent shards and opens their child. Which is the parent and which the adjacent parent is as
// the caller says, whichever lies lower.
func (st *stream) merge(parent, adjacent *shard, at int64) *shard {
	st.closeShard(parent, at)
	st.closeShard(adjacent, at)
	lower, upper := parent, adjacent
	if adjacent.start.less(parent.start) {
		lower, upper = adjacent, parent
	}
	child := st.addShard(at, lower.start, upper.end, parent, adjacent)
	i := slices.Index(st.openShards, lower)
	st.openShards = slices.Replace(st.openShards, i, i+2, child)
	return child
}

// shardFor gives the open shard that a hash key belongs to.
func (st *stream) shardFor(k hashKey) *shard {
	i := sort.Search(len(st.openShards), func(i int) bool { return k.less(st.openShards[i].start) })
	return st.openShards[i-1]
}

// shard gives a listed shard by its id.
func (st *stream) shard(id string) (*shard, bool) {
	index, ok := shardIndex(id)
	if !ok {
		return nil, false
	}
	i, ok := slices.BinarySearchFunc(st.shards, index, func(h *shard, n uint32) int { return int(int64(h.index) - int64(n)) })
	if !ok {
		return nil, false
	}
	return st.shards[i], true
}

// settle brings a stream up to the present: a change that is due is applied as of its time, and closed shards that
// retention has passed by are forgotten, records and all.
func (s *Server) settle(st *stream, now int64) {
	if st.change != nil && now >= st.due {
		change := st.change
		st.change = nil
		st.state = stateActive
		change(st.due)
	}
	st.settleConsumers(now)
	horizon := now - st.retention.Milliseconds()
	for len(st.shards) > 0 {
		i := slices.IndexFunc(st.shards, func(h *shard) bool { return !h.open() && h.closed < horizon })
		if i < 0 {
			break
		}
		st.forget(i)
	}
	if now-s.swept >= time.Minute.Milliseconds() {
		s.swept = now
		for _, other := range s.streams {
			for _, h := range other.shards {
				h.trimOlder(now - other.retention.Milliseconds())
			}
		}
	}
}

func (st *stream) forget(i int) {
	h := st.shards[i]
	h.listed, h.log, h.children = false, recordLog{}, nil
	h.parents = nil
	h.changed()
	st.shards = slices.Delete(st.shards, i, i+1)
}

// begin starts a change that takes d: at once when d is 0.
func (s *Server) begin(st *stream, state string, now int64, d time.Duration, change func(at int64)) {
	if d <= 0 {
		change(now)
		return
	}
	st.state, st.due, st.change = state, now+d.Milliseconds(), change
	for _, h := range st.shards {
		h.changed() // they wait until due at most
	}
}

// find gives the stream a request means, whatever its state. The server is locked by the caller.
func (s *Server) find(r streamRef, now int64) (*stream, error) {
	name, err := s.nameIn(r)
	if err != nil {
		return nil, err
	}
	return s.named(name, now)
}

func (s *Server) named(name string, now int64) (*stream, error) {
	if st := s.streams[name]; st != nil {
		s.settle(st, now)
	}
	st := s.streams[name] // settling may have deleted it
	if st == nil {
		return nil, notFound("Stream %s under account %s not found.", name, s.config.Account)
	}
	return st, nil
}

// findActive is find for calls that change a stream.
func (s *Server) findActive(r streamRef, now int64) (*stream, error) {
	st, err := s.find(r, now)
	if err != nil {
		return nil, err
	}
	if st.state != stateActive {
		return nil, inUse("Stream %s under account %s not ACTIVE, instead in state %s", st.name, s.config.Account, st.state)
	}
	return st, nil
}

// findReadable is find for calls on records, for which a stream exists once its shards do.
func (s *Server) findReadable(r streamRef, now int64) (*stream, error) {
	st, err := s.find(r, now)
	if err != nil {
		return nil, err
	}
	return st, s.readable(st)
}

func (s *Server) readable(st *stream) error {
	if st.state == stateCreating || st.state == stateDeleting {
		return notFound("Stream %s under account %s not found: it is %s.", st.name, s.config.Account, st.state)
	}
	return nil
}

// findProvisioned is findActive for calls that reshard.
func (s *Server) findProvisioned(r streamRef, now int64, operation string) (*stream, error) {
	st, err := s.findActive(r, now)
	if err != nil {
		return nil, err
	}
	if st.mode == modeOnDemand {
		return nil, refuse("ValidationException", "Request is invalid. Stream %s under AccountId %s is in On-Demand Mode, for which %s is not supported.",
			st.name, s.config.Account, operation)
	}
	return st, nil
}

func (s *Server) noSuchShard(st *stream, id string) error {
	return notFound("Shard %s in stream %s under account %s does not exist", id, st.name, s.config.Account)
}

// room says whether the account's limit admits more open shards.
func (s *Server) room(more int) error {
	open := 0
	for _, st := range s.streams {
		open += len(st.openShards)
	}
	if open+more <= s.config.ShardLimit {
		return nil
	}
	return limitExceeded("This request would exceed the shard limit for the account %s in %s. Current shard count for the account: %d. Limit: %d. "+
		"Number of additional shards that would have resulted from this request: %d.", s.config.Account, s.config.Region, open, s.config.ShardLimit, more)
}

// Trim drops the records of a shard that come before the given sequence number, as retention would; "" stands for all
// of them. A closed shard that ended before it, or any closed shard with "", is no longer listed afterwards.
func (s *Server) Trim(streamName, shardID, beforeSequence string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	st, err := s.named(streamName, time.Now().UnixMilli())
	if err != nil {
		return fmt.Errorf("kinesis emulator: trim: %w", err)
	}
	h, ok := st.shard(shardID)
	if !ok {
		return fmt.Errorf("kinesis emulator: trim: %w", s.noSuchShard(st, shardID))
	}
	before := ^uint64(0)
	if beforeSequence != "" {
		q, ok := parseSequence(beforeSequence)
		if !ok || q.stream != st.created {
			return fmt.Errorf("kinesis emulator: trim: sequence number %q is not of stream %s", beforeSequence, streamName)
		}
		before = q.n
	}
	h.log.trim(func(m meta) bool { return m.n >= before })
	if !h.open() && h.last < before {
		st.forget(slices.Index(st.shards, h))
	}
	return nil
}
