package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	source "github.com/shardwarden/shardwarden/backends/memory"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
	store "github.com/shardwarden/shardwarden/leasestore/memory"
)

// Play runs a script in a synctest bubble and returns it with what its commands print. A script is blocks of commands, one a line, each block
// with "----" and what was printed behind it, up to an empty line. "#" begins a line of comment. Verbs, with what they take:
//
//	stream shards=N start=horizon|latest|DURATION   the stream; a duration is a start so long from now. First, if at all
//	config KEY=VALUE...                             of all workers that start from here on; see configure
//	start ID [drift=PERCENT]     stop NAME          a worker begins; ends gracefully. A second of the same id is named ID#2
//	kill NAME                                       its table is cut off for good, its goroutines go on
//	cut NAME      deafen NAME     heal NAME         calls to the table hang; only the answers are lost; both again
//	pause NAME [answers=only]    resume NAME        all its calls, or only their answers, and its handlers hang
//	break NAME KIND OP [shard=S] [times=N] [delay=D] [hang]   one kind of call to the table: fail, lose, late, slow, stale, throttle
//	spoil-read NAME KIND OP [...]                   the same for the stream: fail, slow, stale, empty, orphans
//	put N [keys=K]    put-to SHARD N                records
//	split SHARD       merge SHARD SHARD
//	handler SHARD ok|fails|panics|slow D|deaf D|poison    what user code does; poison: fails on the next record that was not delivered yet
//	foreign NAME SHARD [dead]                       a worker of another library takes a lease, and renews it
//	spoil SHARD    delete SHARD    give SHARD NAME  somebody's hands in the table: a row that can't be read, a row deleted, an owner assigned
//	wait D        await [D]                         until everything that was put is acknowledged
//	table    owners    delivered    workers         what is so now
//	events KIND...                                  how often each happened, by worker, since the last time
func Play(script string) (string, error) {
	p := &player{shards: 2, moods: map[core.ShardID]mood{}, cures: map[string][]func(){}, said: map[string]int{}, stop: make(chan struct{})}
	p.poisoned = map[int]bool{}
	var out strings.Builder
	for i, block := range blocks(script) {
		out.WriteString(block.text)
		var printed strings.Builder
		for _, line := range block.commands {
			text, err := p.do(strings.Fields(line))
			if err != nil {
				return "", fmt.Errorf("block %d, %q: %w", i+1, line, err)
			}
			printed.WriteString(text)
		}
		if printed.Len() == 0 {
			printed.WriteString("ok\n")
		}
		out.WriteString("----\n" + printed.String() + "\n")
	}
	p.end()
	if p.fleet == nil {
		return out.String(), nil
	}
	if f := p.fleet.Judge.Faults(); len(f) > 0 {
		return out.String(), errors.New(strings.Join(f, "\n"))
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

type block struct {
	text     string // comments and commands, as they stand
	commands []string
}

func blocks(script string) []block {
	var out []block
	var b block
	printed := false
	for line := range strings.Lines(script) {
		line = strings.TrimRight(line, " \n")
		switch {
		case printed:
			printed = line != ""
		case line == "----":
			out, b, printed = append(out, b), block{}, true
		default:
			b.text += line + "\n"
			if line != "" && !strings.HasPrefix(line, "#") {
				b.commands = append(b.commands, line)
			}
		}
	}
	if len(b.commands) > 0 {
		out = append(out, b)
	}
	return out
}

type player struct {
	fleet  *Fleet
	shards int
	start  string
	config map[string]string
	cures  map[string][]func()
	said   map[string]int // events that were told already
	stop   chan struct{}
	others sync.WaitGroup

	mu       sync.Mutex
	moods    map[core.ShardID]mood
	poisoned map[int]bool // places in Judge.records
}

func (p *player) do(words []string) (string, error) {
	verb, args := words[0], words[1:]
	options := map[string]string{}
	args = slices.DeleteFunc(args, func(w string) bool {
		k, v, ok := strings.Cut(w, "=")
		if ok {
			options[k] = v
		}
		return ok
	})
	arg := func(i int) string {
		if i < len(args) {
			return args[i]
		}
		return ""
	}
	switch verb {
	case "stream":
		n, err := strconv.Atoi(options["shards"])
		p.shards, p.start = n, options["start"]
		return "", err
	case "config":
		p.config = options
		return "", nil
	}
	if p.fleet == nil {
		if err := p.make(); err != nil {
			return "", err
		}
	}
	f := p.fleet
	var m *Member
	if slices.Contains([]string{"stop", "kill", "cut", "deafen", "heal", "pause", "resume", "break", "spoil-read"}, verb) {
		if m = f.named(arg(0)); m == nil {
			return "", fmt.Errorf("there is no worker %q", arg(0))
		}
	}
	number := func(i int) (int, error) { return strconv.Atoi(arg(i)) }
	shard := core.ShardID(arg(0))
	switch verb {
	case "start":
		drift, err := strconv.ParseFloat("0"+options["drift"], 64)
		if err == nil {
			_, err = f.Join(arg(0), drift/100)
		}
		return "", err
	case "stop":
		m.Leave()
	case "kill":
		m.Die()
	case "cut":
		p.cure(m, m.Break(store.Fault{Hang: true}))
	case "deafen":
		p.cure(m, m.Break(store.Fault{Kind: store.Lose, Hang: true}))
	case "pause":
		p.cure(m, m.Pause(options["answers"] == "only"))
	case "heal", "resume":
		for _, c := range p.cures[m.Name] {
			c()
		}
		p.cures[m.Name] = nil
	case "break":
		return "", p.hinder(m, args, options)
	case "spoil-read":
		return "", p.hinderReads(m, args, options)
	case "put":
		n, err := number(0)
		keys := max(1, p.shards*3)
		if k, ok := options["keys"]; ok && err == nil {
			keys, err = strconv.Atoi(k)
		}
		for i := range n {
			f.Put(fmt.Sprintf("k%d", i%keys))
		}
		return "", err
	case "put-to":
		n, err := number(1)
		for range n {
			if err == nil {
				err = f.PutTo(shard)
			}
		}
		return "", err
	case "split":
		return "", f.Split(shard)
	case "merge":
		return "", f.Merge(shard, core.ShardID(arg(1)))
	case "handler":
		return "", p.mood(shard, args[1:])
	case "foreign":
		return "", p.foreign(arg(0), core.ShardID(arg(1)), arg(2) == "dead")
	case "spoil":
		f.Judge.Taint()
		f.Table.Spoil(core.LeaseKey{Stream: streamID, Shard: shard}, errors.New(`leaseCounter is "x", want a number`))
	case "delete", "give":
		return "", p.byHand(verb, shard, arg(1))
	case "wait":
		d, err := time.ParseDuration(arg(0))
		time.Sleep(d)
		return "", err
	case "await":
		return p.await(arg(0))
	case "table":
		return p.table(), nil
	case "owners":
		return p.owners(), nil
	case "delivered":
		return p.delivered(), nil
	case "workers":
		return p.workers(), nil
	case "events":
		return p.events(args), nil
	default:
		return "", fmt.Errorf("%q is no verb", verb)
	}
	return "", nil
}

const streamID core.StreamID = "orders"

func (p *player) make() error {
	stream := source.New("orders", p.shards, source.WithID(streamID), source.Idle(2*time.Second), source.ShardNames(func(n int) core.ShardID { return core.ShardID(strconv.Itoa(n)) }))
	p.fleet = NewFleet(stream, store.New())
	switch p.start {
	case "", "horizon":
		p.fleet.Start = core.FromHorizon
	case "latest":
		p.fleet.Start = core.FromLatest
	default:
		d, err := time.ParseDuration(p.start)
		if err != nil {
			return err
		}
		p.fleet.Start = core.From(time.Now().Add(d))
	}
	p.fleet.Config = p.configure
	p.fleet.Do = p.handle
	return nil
}

// configure sets what config has named.
func (p *player) configure(c *worker.Config) {
	duration := func(to *time.Duration, name string) {
		if v, ok := p.config[name]; ok {
			d, err := time.ParseDuration(v)
			if err != nil {
				panic(err) // a script is a test: its text is at hand
			}
			*to = d
		}
	}
	number := func(to *int, name string) {
		if v, ok := p.config[name]; ok {
			n, err := strconv.Atoi(v)
			if err != nil {
				panic(err)
			}
			*to = n
		}
	}
	number(&c.MaxLeases, "max-leases")
	number(&c.KeyConcurrency, "keys-at-once")
	number(&c.OnError.GiveUpAfter, "give-up-after")
	duration(&c.HandlerStopTimeout, "handler-stop")
	duration(&c.StallAfter, "stall-after")
	duration(&c.CleanupFinished, "clean-up")
	c.OnError.Bisect = p.config["bisect"] == "yes"
	c.OnError.Halt = p.config["halt"] == "yes"
	c.KeepFinished = p.config["keep-finished"] == "yes"
	c.OnError.MaxBackoff = 5 * time.Second
	if p.config["dead-letters"] == "yes" {
		c.OnError.DeadLetter = func(_ context.Context, b *core.Batch, _ error) error { p.fleet.Judge.dead(b); return nil }
	}
}

func (p *player) handle(ctx context.Context, _ *Member, b *core.Batch) error {
	p.mu.Lock()
	mood := p.moods[b.Shard]
	bad := false
	for i := range b.Records {
		bad = bad || p.poisoned[p.fleet.Judge.number(b.Records[i].Sequence)]
	}
	p.mu.Unlock()
	if bad {
		return errors.New("poison")
	}
	return mood.act(ctx)
}

func (p *player) mood(shard core.ShardID, words []string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if words[0] == "poison" {
		n, ok := p.fleet.Judge.nextOf(shard)
		if !ok {
			return errors.New("everything of the shard was delivered: put a record first")
		}
		p.poisoned[n] = true
		return nil
	}
	set := mood{kind: words[0]}
	if len(words) > 1 {
		d, err := time.ParseDuration(words[1])
		if err != nil {
			return err
		}
		set.delay = d
	}
	p.moods[shard] = set
	return nil
}

func (p *player) cure(m *Member, f func()) { p.cures[m.Name] = append(p.cures[m.Name], f) }

// ops names calls in scripts.
var ops = map[string]store.Op{"update": store.Update, "get": store.Get, "create": store.Create, "look": store.Look, "delete": store.Delete, "announce": store.Announce}

var readOps = map[string]source.Op{"next": source.Next, "open": source.Open, "shards": source.Shards, "describe": source.Describe}

func (p *player) hinder(m *Member, args []string, options map[string]string) error {
	if len(args) < 2 {
		return errors.New("say what, and which call")
	}
	fault := store.Fault{Shard: core.ShardID(options["shard"]), Hang: slices.Contains(args, "hang")}
	kinds := map[string]store.Kind{"fail": store.Fail, "throttle": store.Fail, "lose": store.Lose, "late": store.Late, "slow": store.Slow, "stale": store.Stale}
	kind, ok := kinds[args[1]]
	if !ok {
		return fmt.Errorf("%q is no fault", args[1])
	}
	fault.Kind = kind
	if args[1] == "throttle" {
		fault.Err = core.ErrThrottled
	}
	if len(args) > 2 && args[2] != "hang" {
		op, ok := ops[args[2]]
		if !ok {
			return fmt.Errorf("%q is no call", args[2])
		}
		fault.Ops = []store.Op{op}
	}
	var err error
	if fault.Delay, fault.Times, err = amount(options); err != nil {
		return err
	}
	p.cure(m, m.Break(fault))
	return nil
}

func (p *player) hinderReads(m *Member, args []string, options map[string]string) error {
	if len(args) < 3 {
		return errors.New("say what, and which call")
	}
	kinds := map[string]source.Kind{"fail": source.Fail, "slow": source.Slow, "stale": source.Stale, "empty": source.Empty, "orphans": source.Orphans}
	kind, ok := kinds[args[1]]
	op, known := readOps[args[2]]
	if !ok || !known {
		return fmt.Errorf("%q is no fault, or %q no call", args[1], args[2])
	}
	fault := source.Fault{Kind: kind, Ops: []source.Op{op}, Shard: core.ShardID(options["shard"]), Hang: slices.Contains(args, "hang")}
	var err error
	if fault.Delay, fault.Times, err = amount(options); err != nil {
		return err
	}
	p.cure(m, m.Src.Break(fault))
	return nil
}

func amount(options map[string]string) (delay time.Duration, times int, err error) {
	if v, ok := options["delay"]; ok {
		if delay, err = time.ParseDuration(v); err != nil {
			return 0, 0, err
		}
	}
	if v, ok := options["times"]; ok {
		times, err = strconv.Atoi(v)
	}
	return delay, times, err
}

// foreign owns a lease as the Java KCL does: without a run. Dead: it wrote it and is no more.
func (p *player) foreign(name string, shard core.ShardID, dead bool) error {
	p.fleet.Judge.Taint()
	ctx := context.Background()
	l, err := p.fleet.Table.Create(ctx, core.Lease{Key: core.LeaseKey{Stream: streamID, Shard: shard}, Owner: core.WorkerID(name), Counter: 3, Checkpoint: core.FromHorizon})
	if err != nil || dead {
		return err
	}
	p.others.Go(func() {
		tick := time.NewTicker(3300 * time.Millisecond)
		defer tick.Stop()
		for err == nil {
			select {
			case <-p.stop:
				return
			case <-tick.C:
				w := core.Renew(nil)
				l, err = p.fleet.Table.Update(ctx, l, w.Same, w.Set)
			}
		}
	})
	return nil
}

// byHand is an operator at the table.
func (p *player) byHand(verb string, shard core.ShardID, to string) error {
	p.fleet.Judge.Taint()
	ctx := context.Background()
	l, err := p.fleet.Table.Get(ctx, core.LeaseKey{Stream: streamID, Shard: shard})
	if err != nil {
		return err
	}
	if verb == "delete" {
		return p.fleet.Table.Delete(ctx, l, 0)
	}
	w := core.HandOver(core.WorkerID(to))
	_, err = p.fleet.Table.Update(ctx, l, w.Same, w.Set)
	return err
}

func (p *player) await(text string) (string, error) {
	most := time.Minute
	if text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			return "", err
		}
		most = d
	}
	n := p.fleet.Judge.Stats().Records
	if _, ok := p.fleet.Await(most, func() bool { return p.fleet.Judge.Undone(n) == 0 }); !ok {
		_, text := p.fleet.Judge.unfinished(n)
		return fmt.Sprintf("not acknowledged within %v: %s\n", most, text), nil
	}
	return fmt.Sprintf("all acknowledged within %v\n", most), nil
}

func (p *player) table() string {
	var b strings.Builder
	f := p.fleet
	for _, l := range f.Table.Rows() {
		owner, at, flags := string(l.Owner), l.Checkpoint.String(), ""
		if owner == "" {
			owner = "-"
		}
		if n := f.Judge.number(l.Checkpoint.Token); l.Checkpoint.Anchor == core.AfterToken && n >= 0 {
			at = fmt.Sprintf("behind %d", f.Judge.at(n)+1)
		}
		if l.Next != core.Nobody {
			flags += " next=" + string(l.Next)
		}
		if !l.Ready {
			flags += " not-ready"
		}
		if len(l.Parents) > 0 {
			flags += fmt.Sprintf(" parents=%v", l.Parents)
		}
		if len(l.Children) > 0 {
			flags += fmt.Sprintf(" children=%v", l.Children)
		}
		fmt.Fprintf(&b, "%s: %s, %s%s\n", l.Key.Shard, owner, at, flags)
	}
	if b.Len() == 0 {
		return "no leases\n"
	}
	return b.String()
}

func (p *player) owners() string {
	count := map[string]int{}
	for _, l := range p.fleet.Table.Rows() {
		owner := string(l.Owner)
		switch {
		case l.Ended():
			owner = "ended"
		case owner == "":
			owner = "-"
		}
		count[owner]++
	}
	var words []string
	for _, o := range slices.Sorted(maps.Keys(count)) {
		words = append(words, fmt.Sprintf("%s %d", o, count[o]))
	}
	return strings.Join(words, ", ") + "\n"
}

func (p *player) delivered() string {
	j := p.fleet.Judge
	j.mu.Lock()
	defer j.mu.Unlock()
	var b strings.Builder
	for _, s := range j.order {
		n := 0
		for _, i := range s.records {
			if j.records[i].delivered {
				n++
			}
		}
		fmt.Fprintf(&b, "%s: %d records, %d delivered, %d acknowledged\n", s.id, len(s.records), n, s.acked)
	}
	some := func(n int) string { // how many is chance
		if n == 0 {
			return "none"
		}
		return "some"
	}
	fmt.Fprintf(&b, "again after an error: %s; again after a loss: %s\n", some(j.stats.Retried), some(j.stats.Repeated))
	return b.String()
}

func (p *player) workers() string {
	var b strings.Builder
	for _, m := range p.fleet.members {
		s := m.Status()
		fmt.Fprintf(&b, "%s: %s", m.Name, s.State)
		if s.Waiting != "" {
			b.WriteString(", waits")
		}
		if s.Twin {
			b.WriteString(", has seen a twin")
		}
		states := map[worker.ShardState]int{}
		for _, sh := range s.Shards {
			states[sh.State]++
		}
		for _, st := range slices.Sorted(maps.Keys(states)) {
			fmt.Fprintf(&b, ", %d %s", states[st], st)
		}
		select {
		case <-m.Done:
			fmt.Fprintf(&b, "; ended: %v", m.Err)
		default:
		}
		b.WriteString("\n")
	}
	return b.String()
}

// events counts by worker and kind. Words of a kind are joined by "-".
func (p *player) events(kinds []string) string {
	j := p.fleet.Judge
	j.mu.Lock()
	defer j.mu.Unlock()
	count := map[string]int{}
	for i := range j.events {
		e := &j.events[i]
		kind := strings.ReplaceAll(string(e.Kind), " ", "-")
		if kind == "lease-lost" && e.Text != "" {
			kind = "fenced-off"
		}
		if slices.Contains(kinds, kind) {
			count[fmt.Sprintf("%s: %s", e.Worker, kind)]++
		}
	}
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(count)) {
		if n := count[k] - p.said[k]; n > 0 {
			fmt.Fprintf(&b, "%s %d\n", k, n)
		}
		p.said[k] = count[k]
	}
	if b.Len() == 0 {
		return "none\n"
	}
	return b.String()
}

func (p *player) end() {
	close(p.stop)
	p.others.Wait()
	if p.fleet == nil {
		return
	}
	p.mu.Lock()
	clear(p.moods)
	clear(p.poisoned)
	p.mu.Unlock()
	for _, cures := range p.cures {
		for _, c := range cures {
			c()
		}
	}
	for _, m := range p.fleet.members {
		m.zombie = m.zombie || m.stopped // what it ends with is printed by the script, if that matters
		m.Store.Heal()
		m.Src.Heal()
		m.stop()
	}
	for _, m := range p.fleet.members {
		<-m.Done
	}
}
