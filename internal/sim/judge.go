package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
)

// Judge sees everything that matters: what is put, each write of the table, each call of a handler; and notes each rule that is broken.
// docs/simulation.md lists the rules by the ids that the messages begin with.
type Judge struct {
	mu      sync.Mutex
	began   time.Time
	byID    map[core.ShardID]*shardLog
	order   []*shardLog
	records []record
	bySeq   map[string]int // place of a sequence number in records
	tops    map[string]int // of each key, the highest number delivered without a gap
	members map[string]*Member
	runs    map[string]*Member // who wrote a run first
	acked   int                // records
	faults  []string
	events  []worker.Event // the last
	next    int            // place of the next in events
	tainted bool           // somebody has changed the table by hand: only what needs no table is judged
	stats   Stats
}

// Stats are what happened.
type Stats struct {
	Records, Delivered, Repeated, Retried int // records; deliveries; of those, of records acknowledged before, or after an error
	Takes, Failovers, HandOvers, Releases int // changes of owner
	Declines, Accepts, Asks               int //
	Losses, Fenced                        int // as the workers told
	Writes                                int // of the table that went through
	Overlaps                              int // handlers still running, their contexts cancelled, when the next owner began
	// Of the longest wait of a record in each shard, from put to the first delivery: the median, that of nine in ten, and the worst.
	WaitMedian, WaitMost, WaitWorst time.Duration
	WaitAt                          core.ShardID // the shard of the worst
}

type record struct {
	shard     *shardLog
	key       string
	n         int // of its key, from 1
	at        int // place in its shard, from 0
	put       time.Time
	delivered bool
	failed    bool // its last delivery ended in an error
	acked     bool
	ackedBy   uint64 // the fence of the last acknowledgement
	ackedAt   time.Time
}

// shardLog is what the judge knows of a shard.
type shardLog struct {
	id       core.ShardID
	parents  []core.ShardID
	children []core.ShardID
	closed   bool
	records  []int // places in Judge.records
	acked    int   // so many from the first are acknowledged
	seen     int   // so many from the first were delivered
	lastAck  time.Time
	ownAcked int // so many from the first were acknowledged when this ownership began, or by it

	row     *core.Lease
	existed bool // there was a lease at some time
	done    bool // its lease was deleted after END
	wrote   time.Time
	// the ownership that may deliver: from the take or accepting write on
	holder *Member
	fence  uint64
	base   int // records behind the checkpoint as that write left it begin here
	begun  bool
	worst  time.Duration // the longest that a record waited for its first delivery
	// the ownership that delivered last
	last      uint64
	lastOwner *Member

	fenced   time.Time // when an owner last stopped by its own clock
	lost     time.Time // when an owner last said that it had lost the lease, or its right
	attempts map[*Member]attempt
	held     map[*Member]time.Time // when a member last learned that it has the lease
	right    map[*Member]time.Time // the START of a member's last write that went through
	running  map[*call]bool
}

// attempt is a write on its way.
type attempt struct {
	start   time.Time
	counter int64
}

// call is a handler at work.
type call struct {
	m       *Member
	shard   *shardLog
	fence   uint64
	ctx     context.Context
	records []int
}

func newJudge() *Judge {
	return &Judge{
		began: time.Now(), byID: map[core.ShardID]*shardLog{}, bySeq: map[string]int{}, tops: map[string]int{},
		members: map[string]*Member{}, runs: map[string]*Member{}, events: make([]worker.Event, 0, 4096),
	}
}

// fault notes a broken rule. Called without mu.
func (j *Judge) fault(id core.ShardID, format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.bad(id, format, args...)
}

// bad notes a broken rule. The first few are told with what happened to the shard before.
func (j *Judge) bad(id core.ShardID, format string, args ...any) {
	if len(j.faults) >= 10 {
		return
	}
	text := fmt.Sprintf("after %v: ", time.Since(j.began)) + fmt.Sprintf(format, args...)
	if id != "" {
		text = fmt.Sprintf("shard %s: ", id) + text
	}
	if len(j.faults) < 2 {
		text += j.history(id)
	}
	j.faults = append(j.faults, text)
}

func (j *Judge) history(id core.ShardID) string {
	var b strings.Builder
	if s := j.byID[id]; s != nil {
		fmt.Fprintf(&b, "\n    parents %v, children %v; closed %v; %d records, %d done", s.parents, s.children, s.closed, len(s.records), s.acked)
		if s.row == nil {
			fmt.Fprintf(&b, "\n    no lease (was there one: %v, deleted after END: %v)", s.existed, s.done)
			for _, p := range s.parents {
				fmt.Fprintf(&b, "\n   parent %s:%s", p, strings.ReplaceAll(j.history(p), "\n", "\n  "))
			}
		} else {
			l := s.row
			fmt.Fprintf(&b, "\n    row: owner=%q next=%q counter=%d checkpoint=%s ready=%v run=%q, written %v ago", l.Owner, l.Next, l.Counter, l.Checkpoint, l.Ready, l.Run, time.Since(s.wrote))
		}
	}
	var about []*worker.Event
	for i := range j.events {
		e := &j.events[(j.next+i)%len(j.events)]
		if e.Key.Shard == id && e.Kind != worker.Checkpoint && e.Kind != worker.StoreError {
			about = append(about, e)
		}
	}
	for _, e := range about[max(0, len(about)-25):] {
		fmt.Fprintf(&b, "\n    %v %s: %s other=%q counter=%d %s err=%v", e.Time.Sub(j.began), e.Worker, e.Kind, e.Other, e.Counter, e.Text, e.Err)
	}
	return b.String()
}

// Broken reports whether a rule was broken.
func (j *Judge) Broken() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.faults) > 0
}

// Faults are the broken rules so far.
func (j *Judge) Faults() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]string(nil), j.faults...)
}

// Stats are what happened so far.
func (j *Judge) Stats() Stats {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.stats
	s.Records = len(j.records)
	waits := slices.SortedFunc(slices.Values(j.order), func(a, b *shardLog) int { return cmp.Compare(a.worst, b.worst) })
	if n := len(waits); n > 0 {
		last := waits[n-1]
		s.WaitMedian, s.WaitMost, s.WaitWorst, s.WaitAt = waits[n/2].worst, waits[n*9/10].worst, last.worst, last.id
	}
	return s
}

// Taint ends the judging of table writes: the driver is about to change rows by hand, or lets in a worker of another library.
func (j *Judge) Taint() {
	j.mu.Lock()
	j.tainted = true
	j.mu.Unlock()
}

func (j *Judge) event(e worker.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if m := j.members[string(e.Worker)]; m != nil && (e.Kind == worker.LeaseTaken || e.Kind == worker.LeaseAccepted) {
		j.shard(e.Key.Shard).held[m] = e.Time
	}
	if e.Kind == worker.LeaseLost {
		j.shard(e.Key.Shard).lost = e.Time
	}
	switch {
	case e.Kind == worker.LeaseLost && e.Text != "":
		j.stats.Fenced++
		j.fencedOff(&e)
	case e.Kind == worker.LeaseLost:
		j.stats.Losses++
	}
	if len(j.events) < cap(j.events) {
		j.events = append(j.events, e)
		return
	}
	j.events[j.next] = e
	j.next = (j.next + 1) % len(j.events)
}

// fencedOff judges that a worker stops by its own clock: when it must, and only when it must.
func (j *Judge) fencedOff(e *worker.Event) {
	s := j.shard(e.Key.Shard)
	s.fenced = e.Time
	m := j.members[string(e.Worker)]
	if m == nil || j.tainted {
		return
	}
	if m.well(e.Time) {
		j.bad(s.id, "R1: %s does not renew in time, though nothing hinders its calls: %s", m.Name, e.Text)
	}
	// A take or an accepting write whose answer came so late that the right is over: nothing was begun.
	heldNow := e.Time.Sub(s.held[m]) < time.Millisecond
	if d := e.Time.Sub(s.right[m]); d > m.trust+time.Millisecond && !heldNow {
		j.bad(s.id, "R2: %s stops %v after the start of its last write that went through; by its clock the right lasts %v", m.Name, d, m.trust)
	}
}

func (j *Judge) join(m *Member) {
	j.mu.Lock()
	j.members[m.Name] = m
	j.mu.Unlock()
}

func (j *Judge) shard(id core.ShardID) *shardLog {
	s := j.byID[id]
	if s == nil {
		s = &shardLog{id: id, attempts: map[*Member]attempt{}, held: map[*Member]time.Time{}, right: map[*Member]time.Time{}, running: map[*call]bool{}}
		j.byID[id] = s
		j.order = append(j.order, s)
	}
	return s
}

// shards takes in a true listing. Called under mu.
func (j *Judge) shards(all []core.Shard) {
	for _, sh := range all {
		_, known := j.byID[sh.ID]
		s := j.shard(sh.ID)
		s.closed = sh.Closed
		if known {
			continue
		}
		s.parents = sh.Parents
		for _, p := range sh.Parents {
			parent := j.shard(p)
			parent.children = append(parent.children, sh.ID)
		}
	}
}

// put notes a record. Called under mu, so that nobody is given it before.
func (j *Judge) put(shard core.ShardID, key string, n int, sequence string) {
	s := j.shard(shard)
	j.bySeq[sequence] = len(j.records)
	s.records = append(s.records, len(j.records))
	j.records = append(j.records, record{shard: s, key: key, n: n, at: len(s.records) - 1, put: time.Now()})
}

// Undone is how many of the first n records are not acknowledged.
func (j *Judge) Undone(n int) (undone int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.acked == len(j.records) {
		return 0
	}
	for i := range j.records[:n] {
		if !j.records[i].acked {
			undone++
		}
	}
	return undone
}

// unfinished names some records that are not acknowledged, for messages.
func (j *Judge) unfinished(n int) (shard core.ShardID, text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	count := map[core.ShardID]int{}
	for i := range j.records[:n] {
		if r := &j.records[i]; !r.acked {
			if shard == "" {
				shard = r.shard.id
			}
			count[r.shard.id]++
		}
	}
	return shard, fmt.Sprint(count)
}

// enter judges a handler's call at its beginning.
func (j *Judge) enter(ctx context.Context, m *Member, b *core.Batch) *call {
	now := time.Now()
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.shard(b.Shard)
	c := &call{m: m, shard: s, fence: b.Fence, ctx: ctx, records: make([]int, 0, len(b.Records))}
	if !j.tainted {
		j.mayDeliver(s, c, now)
	}
	j.isFirst(s, c)
	s.running[c] = true
	for i := range b.Records {
		if n, ok := j.bySeq[b.Records[i].Sequence]; ok {
			c.records = append(c.records, n)
			j.deliver(s, c, &j.records[n], now)
		} else {
			j.bad(s.id, "D9: %s was given record %s, which nobody put", m.Name, b.Records[i].Sequence)
		}
	}
	return c
}

// mayDeliver judges the right to deliver.
func (j *Judge) mayDeliver(s *shardLog, c *call, now time.Time) {
	m := c.m
	switch {
	case s.row == nil:
		j.bad(s.id, "D1: %s delivers under fence %d, and there is no lease", m.Name, c.fence)
	case s.holder != m || s.fence != c.fence:
		name := "nobody"
		if s.holder != nil {
			name = s.holder.Name
		}
		j.bad(s.id, "D1: %s delivers under fence %d; the shard is %s's, under fence %d", m.Name, c.fence, name, s.fence)
	case s.row.Owner != m.ID():
		j.bad(s.id, "D1: %s delivers under fence %d; the lease was given to %q", m.Name, c.fence, s.row.Owner)
	case s.row.Ended():
		j.bad(s.id, "D1: %s delivers after END was stored", m.Name)
	}
	if d := now.Sub(s.right[m]); d >= m.trust {
		j.bad(s.id, "D2: %s delivers %v after the start of its last write that went through; by its clock the right lasts %v", m.Name, d, m.trust)
	}
	if c.ctx.Err() != nil && errors.Is(context.Cause(c.ctx), core.ErrLeaseLost) && !s.lost.Equal(now) { // at the same instant it is a race that nobody can win
		j.bad(s.id, "D3: %s is given a batch with a context that has ended: %v", m.Name, context.Cause(c.ctx))
	}
}

// isFirst judges what holds before the first delivery of a shard, and of an ownership.
func (j *Judge) isFirst(s *shardLog, c *call) {
	if !s.begun {
		s.begun = true
		for _, p := range s.parents {
			if parent := j.byID[p]; parent != nil && (!parent.closed || parent.acked < len(parent.records)) {
				j.bad(s.id, "D4: begins though its parent %s is not done: %d of %d records", p, parent.acked, len(parent.records))
			}
		}
	}
	if c.fence < s.last || c.fence == s.last && s.lastOwner != c.m && s.lastOwner != nil {
		j.bad(s.id, "D11: %s delivers under fence %d after %s did under %d", c.m.Name, c.fence, s.lastOwner.Name, s.last)
	}
	s.last, s.lastOwner = c.fence, c.m
	for other := range s.running {
		switch {
		case other.m == c.m && other.fence == c.fence:
		case other.ctx.Err() == nil:
			j.bad(s.id, "D5: %s delivers under fence %d while the handler of %s still runs under fence %d, its context alive", c.m.Name, c.fence, other.m.Name, other.fence)
		default:
			j.stats.Overlaps++
			if other.m == c.m {
				j.bad(s.id, "D6: %s starts a second handler while a former one of its own still runs", c.m.Name)
			}
		}
	}
}

// deliver judges one record.
func (j *Judge) deliver(s *shardLog, c *call, r *record, now time.Time) {
	j.stats.Delivered++
	if r.shard != s {
		j.bad(s.id, "D9: was given record %d of %s, which stands in shard %s", r.n, r.key, r.shard.id)
		return
	}
	if top := j.tops[r.key]; r.n > top+1 {
		j.bad(s.id, "D7: record %d of %s is delivered before record %d", r.n, r.key, top+1)
	} else if r.n == top+1 {
		j.tops[r.key] = r.n
	}
	if r.at < s.base && !j.tainted {
		j.bad(s.id, "D8: record %d of the shard is delivered under fence %d, though the checkpoint stood behind %d records when that began", r.at+1, c.fence, s.base)
	}
	if r.acked && r.ackedBy == c.fence && c.m.whole && !r.ackedAt.Equal(s.fenced) && !j.tainted {
		j.bad(s.id, "D10: %s is given record %d of the shard again under fence %d, under which it had acknowledged it", c.m.Name, r.at+1, c.fence)
	}
	switch {
	case !r.delivered:
		r.delivered = true
		s.worst = max(s.worst, now.Sub(r.put))
	case r.failed:
		j.stats.Retried++
	default:
		j.stats.Repeated++
	}
	r.failed = false
	for s.seen < len(s.records) && j.records[s.records[s.seen]].delivered {
		s.seen++
	}
}

// leave notes the end of a handler's call; ok: what it was given is done.
func (j *Judge) leave(c *call, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := c.shard
	delete(s.running, c)
	for _, n := range c.records {
		r := &j.records[n]
		r.failed = !ok
		if !ok {
			continue
		}
		r.ackedBy, r.ackedAt = c.fence, time.Now()
		if !r.acked {
			r.acked = true
			j.acked++
		}
	}
	if !ok {
		return
	}
	s.lastAck = time.Now()
	for s.acked < len(s.records) && j.records[s.records[s.acked]].acked {
		s.acked++
	}
	for s.ownAcked < len(s.records) && j.records[s.records[s.ownAcked]].ackedBy == s.fence {
		s.ownAcked++
	}
}

// number is the place of a sequence number in records, -1 where it is none.
func (j *Judge) number(sequence string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	if n, ok := j.bySeq[sequence]; ok {
		return n
	}
	return -1
}

// at is the place of a record in its shard.
func (j *Judge) at(n int) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.records[n].at
}

// nextOf is the first record of a shard that was not delivered yet.
func (j *Judge) nextOf(id core.ShardID) (n int, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.shard(id)
	for _, n := range s.records {
		if !j.records[n].delivered {
			return n, true
		}
	}
	return 0, false
}

// dead notes what the dead-letter function took: it is done.
func (j *Judge) dead(b *core.Batch) {
	j.mu.Lock()
	s := j.shard(b.Shard)
	c := &call{shard: s, fence: b.Fence}
	for i := range b.Records {
		c.records = append(c.records, j.bySeq[b.Records[i].Sequence])
	}
	j.mu.Unlock()
	j.leave(c, true)
}
