package sim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	source "github.com/shardwarden/shardwarden/backends/memory"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
	store "github.com/shardwarden/shardwarden/leasestore/memory"
)

// Faults is how bad the days of a fleet are.
type Faults string

// None: workers join and leave, shards split and merge, and nothing fails. Light: now and then something does. Heavy: something always does.
const (
	None  Faults = "none"
	Light Faults = "light"
	Heavy Faults = "heavy"
)

// Settings say what fleet to run, and what becomes of it.
type Settings struct {
	Workers, Shards int           // about so many
	Duration        time.Duration // of fake time
	Seed            uint64
	Faults          Faults
	Led             bool // one worker says who gets what, as in a table shared with the Java KCL 3
}

// String is the command that runs it again.
func (s Settings) String() string {
	led := ""
	if s.Led {
		led = " LED=true"
	}
	return fmt.Sprintf("make simulate WORKERS=%d SHARDS=%d HOURS=%g SEED=%d FAULTS=%s%s", s.Workers, s.Shards, s.Duration.Hours(), s.Seed, s.Faults, led)
}

// Report is what became of a fleet.
type Report struct {
	Settings
	Stats
	Fleet    string   // what the seed made of it
	Broken   []string // the rules that were broken, with what led to it
	Calls    int      // to the table
	Took     time.Duration
	Calms    int           // how often all faults ended, and the fleet had to become whole
	Wholest  time.Duration // the longest it took to be whole again
	Shards   int           // made in all
	Finished time.Duration // of fake time
}

// String is the report as it is printed.
func (r Report) String() string {
	minutes := max(r.Finished.Minutes(), 1)
	var text strings.Builder
	text.WriteString(fmt.Sprintf("%s\n  %s\n", r.Settings, r.Fleet))
	text.WriteString(fmt.Sprintf("  %v of fake time in %v; %d shards in all; %d records, %d deliveries: %d after a failed handler, %d again after a lost lease\n",
		r.Finished.Round(time.Second), r.Took.Round(10*time.Millisecond), r.Shards, r.Records, r.Delivered, r.Retried, r.Repeated))
	text.WriteString(fmt.Sprintf("  leases: %d taken free, %d taken from silent owners, %d handed over (%d asks, %d declined), %d released, %d accepted; %d lost, %d fenced off\n",
		r.Takes, r.Failovers, r.HandOvers, r.Asks, r.Declines, r.Releases, r.Accepts, r.Losses, r.Fenced))
	text.WriteString(fmt.Sprintf("  worst wait of a record, by shard: median %v, nine in ten %v, worst %v (%s)\n",
		r.WaitMedian.Round(time.Millisecond), r.WaitMost.Round(time.Millisecond), r.WaitWorst.Round(time.Millisecond), r.WaitAt))
	text.WriteString(fmt.Sprintf("  whole again within %v after each of %d times the faults ended; %d handlers outlived their lease\n",
		r.Wholest.Round(time.Millisecond), r.Calms, r.Overlaps))
	text.WriteString(fmt.Sprintf("  table: %.0f calls a minute, %.0f writes that went through", float64(r.Calls)/minutes, float64(r.Writes)/minutes))
	for _, b := range r.Broken {
		text.WriteString("\n  BROKEN " + b)
	}
	if len(r.Broken) > 0 {
		text.WriteString("\n  again: " + r.Settings.String())
	}
	return text.String()
}

// WholeWithin is how long after the last fault every record must have been acknowledged and every shard be served. The parts: leases expire, and
// are looked at, perhaps twice (a late hand-over to one that is gone); a handler that hangs keeps a hand-over waiting (20 s); a reader that failed
// or stalled is begun anew (10 s).
func WholeWithin(lease time.Duration) time.Duration { return time.Minute + 3*lease }

// Run runs a fleet. It must be called in a synctest bubble.
func Run(set Settings) Report {
	began := time.Now()
	s := newScenario(set)
	s.run()
	report := Report{
		Settings: set, Stats: s.Judge.Stats(), Fleet: s.text, Broken: s.Judge.Faults(), Calls: s.Calls(),
		Calms: s.calms, Wholest: s.wholest, Shards: len(s.Judge.order), Finished: time.Since(began),
	}
	return report
}

type scenario struct {
	*Fleet
	set     Settings
	r       *rand.Rand
	text    string
	next    int // worker ids
	calms   int
	wholest time.Duration
	keys    int
	lease   time.Duration
	whole   time.Duration // WholeWithin

	mu    sync.Mutex
	moods map[core.ShardID]mood // what handlers of a shard do
	heals []func()
	calm  chan struct{} // closed when all faults end
}

// mood is what the handlers of a shard do.
type mood struct {
	kind  string
	delay time.Duration
	odds  float64
	over  <-chan struct{} // closed when all faults end, and handlers that wait go on; nil: never
}

func newScenario(set Settings) *scenario {
	r := rand.New(rand.NewPCG(set.Seed, 7))
	s := &scenario{set: set, r: r, keys: 3*set.Shards + 1, moods: map[core.ShardID]mood{}, calm: make(chan struct{})}
	pick := func(odds float64) bool { return r.Float64() < odds }
	var opts []store.Option
	said := ""
	say := func(format string, args ...any) { said += fmt.Sprintf(", "+format, args...) }
	if pick(0.3) {
		n := 1 + r.IntN(set.Shards)
		opts = append(opts, store.Pages(n))
		say("table read in pages of %d", n)
	}
	if pick(0.3) {
		opts = append(opts, store.WithoutConflictRows())
		say("refusals without the row")
	}
	if pick(0.3) {
		opts = append(opts, store.WithoutReturnedRows())
		say("writes without the row")
	}
	opts = append(opts, store.Shuffled(r.Uint64()))
	start := core.FromHorizon
	if pick(0.25) {
		start = core.FromLatest
		if pick(0.3) {
			opts = append(opts, store.WithoutStarts())
			say("a table that holds no starts")
		}
		say("begins at LATEST")
	}
	idle := time.Duration(5+r.IntN(20)) * time.Second
	stream := source.New("orders", set.Shards, source.Idle(idle), source.WithID("orders"), source.PageRecords(1+r.IntN(200)))
	s.Fleet = NewFleet(stream, store.New(opts...))
	s.Start = start
	if pick(0.2) && !set.Led {
		s.Plain = true
		say("no presence")
	}
	lease := []time.Duration{10 * time.Second, 10 * time.Second, 20 * time.Second, 30 * time.Second}[r.IntN(4)]
	s.lease, s.whole = lease, WholeWithin(lease)
	if set.Led {
		s.Led = true
		s.Table.Share(&core.Foreigners{Regime: "led", Led: true, KeepFinished: true})
		s.whole += 45 * time.Second // the lock of a dead leader, and a look at it
		say("led")
	}
	say("leases of %v", lease)
	s.Form = []Form{Process, Process, Factory, Pull, Manual}[r.IntN(5)]
	keys, every, once, shardWindow := 1, time.Duration(0), 0, int64(0)
	if s.Form != Pull && s.Form != Manual && pick(0.3) {
		keys = 3
		say("%d keys of a shard side by side", keys)
	}
	if pick(0.4) {
		every = time.Duration(200+r.IntN(1500)) * time.Millisecond
		say("checkpoints each %v", every)
	}
	if pick(0.2) {
		once = 1 + set.Shards/3
		say("%d handlers at once", once)
	}
	if pick(0.3) {
		shardWindow = int64(100 + r.IntN(2000))
		say("read ahead %d bytes", shardWindow)
	}
	keep, bisect := pick(0.1), pick(0.3)
	clean := time.Duration(0)
	if pick(0.5) {
		clean = time.Duration(10+r.IntN(60)) * time.Second
		say("finished leases deleted after %v", clean)
	}
	patience := time.Duration(3+rand.New(rand.NewPCG(set.Seed, 13)).IntN(18)) * time.Second
	s.Config = func(c *worker.Config) {
		c.LeaseDuration, c.LookEvery = lease, lease/4
		c.KeyConcurrency, c.CheckpointEvery, c.MaxShardsAtOnce, c.ReadAheadShard, c.KeepFinished = keys, every, once, shardWindow, keep
		c.OnError.MaxBackoff, c.OnError.Bisect = 5*time.Second, bisect
		c.HandlerStopTimeout = patience
		if clean > 0 {
			c.CleanupFinished, c.CleanupEvery, c.CleanupGone, c.ListEvery = clean, clean/2, clean, 20*time.Second
		}
	}
	s.Do = s.handle
	s.rng.n = rand.New(rand.NewPCG(set.Seed, 11)).IntN
	s.text = string(s.Form) + " handlers" + said
	return s
}

// handle is the user's code.
func (s *scenario) handle(ctx context.Context, m *Member, b *core.Batch) error {
	s.mu.Lock()
	mood, ok := s.moods[b.Shard]
	s.mu.Unlock()
	if !ok || float64(s.rng.intN(1000)) >= mood.odds*1000 {
		return nil
	}
	return mood.act(ctx)
}

func (m mood) act(ctx context.Context) error {
	wait := func(done <-chan struct{}) {
		t := time.NewTimer(m.delay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-done:
		case <-m.over:
		}
	}
	switch m.kind {
	case "slow":
		wait(ctx.Done())
		return ctx.Err()
	case "deaf": // goes on, whatever its context says
		wait(nil)
	case "panics":
		panic("on purpose")
	case "fails":
		return errors.New("on purpose")
	}
	return nil
}

func (s *scenario) join() *Member {
	id := fmt.Sprintf("w%02d", s.next)
	s.next++
	drift := 0.0
	if s.set.Faults != None {
		drift = (s.r.Float64() - 0.5) / 100
	}
	m, err := s.Join(id, drift)
	if err != nil {
		panic(err) // the settings are this file's own
	}
	return m
}

func (s *scenario) run() {
	end := time.Now().Add(s.set.Duration)
	for range max(1, s.set.Workers/2+s.r.IntN(s.set.Workers/2+1)) {
		s.join()
	}
	if s.Start.Anchor == core.Latest {
		// What comes before the first lease is not wanted, so nothing does.
		if _, ok := s.Await(time.Minute, func() bool { return len(s.Table.Rows()) > 0 }); !ok {
			s.Judge.fault("", "L1: no lease within a minute")
		}
	}
	for !s.Judge.Broken() && (s.calms == 0 || time.Until(end) > s.whole) {
		trouble := time.Duration(5+s.r.IntN(15)) * time.Minute
		until := time.Now().Add(min(trouble, time.Until(end)-s.whole/2))
		for time.Now().Before(until) && !s.Judge.Broken() {
			s.step()
		}
		s.calmDown()
	}
	s.heal()
	time.Sleep(longestDelay + s.whole/3) // a late announcement of a worker that left brings it back for a lease duration
	s.Fleet.End()
	s.atEnd()
}

// step is some traffic and, by the level of faults, something that happens.
func (s *scenario) step() {
	for range s.r.IntN(max(2, s.set.Shards/2)) {
		s.Put(fmt.Sprintf("k%d", s.r.IntN(s.keys)))
	}
	if s.r.IntN(10) == 0 { // a burst
		for range 5 * s.set.Shards {
			s.Put(fmt.Sprintf("k%d", s.r.IntN(s.keys)))
		}
	}
	time.Sleep(time.Duration(s.r.IntN(6000)) * time.Millisecond)
	s.prune()
	switch s.r.IntN(12) {
	case 0:
		s.reshard()
	case 1:
		s.comeAndGo()
	default:
		odds := map[Faults]float64{None: 0, Light: 0.1, Heavy: 0.9}[s.set.Faults]
		if s.r.Float64() < odds {
			s.trouble()
		}
	}
}

func (s *scenario) reshard() {
	near := s.r.IntN(1 << 20) // a few in the same neighbourhood make deep trees
	for range 1 + s.r.IntN(4) {
		open := s.Open()
		i := near % max(1, len(open)-1)
		if len(open) < s.set.Shards*3/4 || len(open) < 2 || len(open) < s.set.Shards*5/4+2 && s.r.IntN(2) == 0 {
			if s.Split(open[i]) != nil {
				return // a range of a single key
			}
		} else if err := s.Merge(open[i], open[i+1]); err != nil {
			panic(err) // neighbours can be merged
		}
		near += s.r.IntN(2)
	}
}

func (s *scenario) comeAndGo() {
	alive := s.Alive()
	kind := s.r.IntN(5)
	m := alive[s.r.IntN(len(alive))]
	switch {
	case len(alive) < 2 || len(alive) <= s.set.Workers/2 || kind < 2 && len(alive) < s.set.Workers*5/4+1:
		s.join()
	case kind == 2 && s.set.Faults != None:
		m.Die()
		// In the end the process is gone: not stopped, its calls do not come back.
		s.after(time.Duration(s.r.IntN(300))*time.Second, m.stop)
	case kind == 3: // a rolling replacement: the new one first
		s.join()
		m.Leave()
	default:
		m.Leave()
	}
}

// after does something later, or when the faults end.
func (s *scenario) after(d time.Duration, f func()) {
	t := time.AfterFunc(d, f)
	s.heals = append(s.heals, func() {
		if t.Stop() {
			f()
		}
	})
}

// length is a time between least and most, small ones likelier.
func (s *scenario) length(least, most time.Duration) time.Duration {
	return time.Duration(float64(least) * math.Pow(float64(most)/float64(least), s.r.Float64()))
}

// longestDelay is how late a write may come.
const longestDelay = 20 * time.Second

// trouble makes something go wrong with a worker for a while: one thing, or one after the other.
func (s *scenario) trouble() {
	alive := s.Alive()
	m := alive[s.r.IntN(len(alive))]
	for range 1 + s.r.IntN(3) {
		s.hinder(m)
		time.Sleep(time.Duration(s.r.IntN(2000)) * time.Millisecond)
	}
}

func (s *scenario) hinder(m *Member) {
	d := s.length(500*time.Millisecond, 90*time.Second)
	odds := func() float64 {
		if s.r.IntN(3) == 0 {
			return 0
		}
		return s.r.Float64()
	}
	table := func(f store.Fault) { f.Seed = s.r.Uint64(); s.after(d, m.Break(f)) }
	stream := func(f source.Fault) { f.Seed = s.r.Uint64(); s.after(d, m.Src.Break(f)) }
	delay := s.length(10*time.Millisecond, longestDelay)
	switch s.r.IntN(16) {
	case 0: // cut
		table(store.Fault{Hang: true})
	case 1: // requests arrive, answers don't
		table(store.Fault{Kind: store.Lose, Hang: s.r.IntN(2) == 0, Delay: delay / 10})
	case 2:
		table(store.Fault{Kind: store.Lose, Odds: odds(), Delay: delay / 20})
	case 3:
		table(store.Fault{Kind: store.Late, Odds: odds(), Delay: delay})
	case 4:
		table(store.Fault{Kind: store.Slow, Odds: odds(), Delay: delay / 4})
	case 5:
		table(store.Fault{Kind: store.Stale, Odds: odds(), Delay: delay})
	case 6:
		table(store.Fault{Odds: odds()})
	case 7:
		table(store.Fault{Err: core.ErrThrottled, Odds: 0.8})
	case 14, 15: // a bad line: anything may happen to a call
		bad := 0.2 + 0.75*s.r.Float64()
		table(store.Fault{Kind: store.Lose, Odds: bad, Delay: delay / 20})
		table(store.Fault{Odds: bad, Delay: delay / 10})
		table(store.Fault{Kind: store.Slow, Odds: 1 - bad/2, Delay: delay / 10})
	case 8, 9:
		s.after(d, m.Pause(s.r.IntN(2) == 0))
	case 10:
		stream(source.Fault{Kind: source.Fail, Odds: odds(), Delay: delay / 10, Hang: s.r.IntN(4) == 0})
	case 11:
		kind := []source.Kind{source.Slow, source.Stale, source.Empty, source.Orphans}[s.r.IntN(4)]
		stream(source.Fault{Kind: kind, Odds: odds(), Delay: delay / 2})
	default:
		open := s.Open()
		id := open[s.r.IntN(len(open))]
		set := mood{kind: []string{"slow", "deaf", "panics", "fails"}[s.r.IntN(4)], delay: s.length(100*time.Millisecond, 2*time.Minute), odds: 0.3 + s.r.Float64(), over: s.calm}
		s.mu.Lock()
		s.moods[id] = set
		s.mu.Unlock()
		s.after(d, func() { s.mu.Lock(); delete(s.moods, id); s.mu.Unlock() })
	}
}

func (s *scenario) heal() {
	for _, h := range s.heals {
		h()
	}
	s.heals = nil
	s.mu.Lock()
	clear(s.moods)
	s.mu.Unlock()
	close(s.calm)
	s.calm = make(chan struct{})
	for _, m := range s.Alive() {
		m.Store.Heal()
		m.Src.Heal()
	}
}

// calmDown ends all faults; the fleet must be whole within a bound.
func (s *scenario) calmDown() {
	s.heal()
	if s.Judge.Broken() {
		return
	}
	s.calms++
	for _, id := range s.Open() {
		if err := s.PutTo(id); err != nil {
			panic(err) // it is open
		}
	}
	n := s.Judge.Stats().Records
	took, ok := s.Await(s.whole, func() bool { return s.Judge.Undone(n) == 0 && s.strays() == 0 })
	if !ok && !s.Judge.Broken() {
		shard, text := s.Judge.unfinished(n)
		s.Judge.fault(shard, "L1: %v after the faults ended, records are not acknowledged: %s; %d leases belong to workers that are gone", took, text, s.strays())
	}
	s.wholest = max(s.wholest, took)
	// And now the fleet is well: a record to each open shard is served at once.
	for _, id := range s.Open() {
		if err := s.PutTo(id); err != nil {
			panic(err)
		}
	}
	n = s.Judge.Stats().Records
	if took, ok := s.Await(15*time.Second, func() bool { return s.Judge.Undone(n) == 0 }); !ok && !s.Judge.Broken() {
		shard, text := s.Judge.unfinished(n)
		s.Judge.fault(shard, "L2: in a fleet that is well, records are not acknowledged after %v: %s", took, text)
	}
}

// strays counts leases that belong to nobody who serves.
func (s *scenario) strays() (n int) {
	alive := map[core.WorkerID]bool{}
	for _, m := range s.Alive() {
		alive[m.ID()] = true
	}
	for _, l := range s.Table.Rows() {
		if !l.Ended() && !alive[l.Owner] {
			n++
		}
	}
	return n
}

// atEnd judges what is left when all have stopped.
func (s *scenario) atEnd() {
	if s.Judge.Broken() {
		return
	}
	for _, l := range s.Table.Rows() {
		if l.Owner != core.Nobody && !l.Ended() {
			s.Judge.fault(l.Key.Shard, "L3: after an orderly stop of all the lease still belongs to %q", l.Owner)
		}
	}
	// A lease handed to a worker that stops in the same moment expires; nothing else makes a record wait where nothing fails.
	if st := s.Judge.Stats(); s.set.Faults == None && st.WaitWorst > s.lease+s.lease/2 {
		s.Judge.fault(st.WaitAt, "L4: nothing failed, and a record waited %v", st.WaitWorst)
	}
	leased := map[core.ShardID]bool{}
	for _, l := range s.Table.Rows() {
		leased[l.Key.Shard] = true
	}
	if id := slices.IndexFunc(s.Open(), func(id core.ShardID) bool { return !leased[id] }); id >= 0 {
		s.Judge.fault(s.Open()[id], "L3: an open shard without a lease")
	}
}
