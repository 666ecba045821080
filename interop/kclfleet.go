package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// kind of worker: in which language it is.
type kind string

const (
	javaKind kind = "java"
	goKind   kind = "go"
)

// pairing is who shares a lease table: who starts the fleet, and so leads it where one does, and who joins.
type pairing struct {
	version         string // version of the Java KCL
	first, second   kind
	kinesis, dynamo string // the emulators; empty: ours
}

// led reports whether the fleet's leases are assigned by a leader: KCL 3.x.
func (p pairing) led() bool { return strings.HasPrefix(p.version, "3.") }

// layout is the form of the table, as consume kinesis --layout has it.
func (p pairing) layout() string {
	switch {
	case !p.led():
		return "kcl2"
	case p.version < "3.5":
		return "kcl3-tables"
	}
	return "kcl3-single"
}

// Timers of the fleet. Java's other times follow from its failover time: it renews after a third, discovers and assigns after once and twice that.
const (
	failoverTime = 3 * time.Second
	leaderLease  = 6 * time.Second
	handOverTime = 5 * time.Second
	// What a loser that is not asked may need to stop: it hears of it at its next renewal, and Java's consumers look each second.
	renewal  = 1200 * time.Millisecond // ours; Java's is a third of the failover time
	dispatch = time.Second
	// How long a step may take before it is called failed: many times what it takes on an idle machine.
	stepTime = 2 * time.Minute
)

// kclFleet is a fleet of workers of the Java KCL and of ours that share one lease table, under way.
type kclFleet struct {
	*runner
	pairing
	kinesisURL string
	d          *dynamodb.Client
	ps         []*producer // one a stream
	j          *journal
	rec        *rowRecorder
	model      *model
	workers    []*member
	kills      []kill
	notes      []string
	slow       time.Duration // each batch takes a handler so long
	defaults   bool          // all timers are the libraries' own, and nothing is checkpointed
	midway     bool          // the workers that start now store the middle of an aggregated record and stay there
	programs   bool          // workers of ours are our program, and not worker.go
	flags      []string      // more of each Java worker
}

// member is a worker of the fleet.
type member struct {
	*consumer
	kind    kind
	log     string // Java's
	read    int    // how far its log was looked through, see saw
	stopped bool   // in order

	stoppedAt time.Time
}

// newKCLFleet makes the streams, of so many shards each. Several are of a table of the KCL's multi-stream mode.
func newKCLFleet(ctx context.Context, r *runner, pair pairing, shards int, streams ...string) (*kclFleet, error) {
	f := &kclFleet{runner: r, pairing: pair, j: newJournal()}
	var err error
	if f.kinesisURL, err = r.peer(ctx, orOurs(pair.kinesis)); err != nil {
		return nil, err
	}
	durl, err := r.peer(ctx, orOurs(pair.dynamo))
	if err != nil {
		return nil, err
	}
	f.d = dynamoClient(durl)
	if f.model, err = loadModel(r.root, pair.version, len(streams) > 1); err != nil {
		return nil, err
	}
	if f.rec, err = newRowRecorder(durl, app); err != nil {
		return nil, err
	}
	for _, s := range streams {
		p, err := newProducer(ctx, kinesisClient(f.kinesisURL), s, shards)
		if err != nil {
			return nil, err
		}
		if len(streams) > 1 {
			p.prefix = s + "/"
		}
		f.ps = append(f.ps, p)
	}
	return f, nil
}

// shardOf is the name under which the ledger has the shard of a lease: that of the shard, behind that of its stream where there are several.
func (f *kclFleet) shardOf(leaseKey string) string {
	part := strings.Split(leaseKey, ":") // account, stream, epoch, shard
	return f.named(strings.Join(part[:len(part)-1], ":"), part[len(part)-1])
}

// named does so for a shard of a stream, which is told as account:stream:epoch or by its name.
func (f *kclFleet) named(stream, shard string) string {
	if !f.model.several {
		return shard
	}
	if part := strings.Split(stream, ":"); len(part) == 3 {
		stream = part[1]
	}
	return stream + "/" + shard
}

func orOurs(name string) string {
	if name == "" {
		return "ours"
	}
	return name
}

// feed puts batches until the function it returns is called: leases that bring nothing are not balanced by the KCL's variance rule.
func (f *kclFleet) feed(ctx context.Context) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		every := 400 * time.Millisecond * time.Duration(max(1, f.ps[0].within))
		if f.kinesis == "kinesis-local" {
			every *= 5 // it is slow
		}
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			for _, p := range f.ps {
				if err := p.put(context.WithoutCancel(ctx), 1); err != nil { // all of it, so that the ledger has what the stream has
					f.j.fail(fmt.Errorf("put: %w", err))
					done <- err
					return
				}
			}
			select {
			case <-ctx.Done():
				done <- nil
				return
			case <-tick.C:
			}
		}
	}()
	return sync.OnceValue(func() error { cancel(); return <-done })
}

// start starts a worker, named by its kind and how many there were of it.
func (f *kclFleet) start(ctx context.Context, k kind) (*member, error) {
	n := 1
	for _, m := range f.workers {
		if m.kind == k {
			n++
		}
	}
	m := &member{consumer: &consumer{worker: string(k) + strconv.Itoa(n)}, kind: k}
	door, err := f.rec.door(f.runner, m.worker)
	if err != nil {
		return nil, err
	}
	parse := f.parsePeer
	if k == javaKind {
		m.log = filepath.Join(f.out, m.worker+".log")
		m.java = true
		m.cmd, err = f.kclCommand(ctx, f.version, f.javaArgs(m.worker, door)...)
	} else {
		m.events = filepath.Join(f.out, m.worker+".events.jsonl")
		m.cmd, err = f.goCommand(ctx, m, door)
		if f.programs {
			parse = f.parseProgram
		}
	}
	if err != nil {
		return nil, err
	}
	if err := f.follow(f.j, m.consumer, parse); err != nil {
		return nil, err
	}
	f.workers = append(f.workers, m)
	return m, nil
}

func (f *kclFleet) javaArgs(worker, door string) []string {
	var streams []string
	for _, p := range f.ps {
		streams = append(streams, p.stream)
	}
	// On one host all workers see the same processor, by which none can be told from another.
	args := []string{"--streams", strings.Join(streams, ","), "--app", app, "--worker", worker, "--kinesis", f.kinesisURL, "--dynamo", door, "--http1", "--records",
		"--no-worker-metrics", "--handler-ms", ms(f.slow)}
	if f.defaults {
		return append(args, "--checkpoint-ms", "86400000")
	}
	args = append(args, "--worker-metrics-ms", "1000", "--failover-ms", ms(failoverTime), "--leader-lease-ms", ms(leaderLease), "--handoff-ms", ms(handOverTime),
		"--balance-every", "1", "--shard-sync-ms", "1000", "--parent-poll-ms", "1000", "--idle-ms", "250")
	if f.midway {
		args = append(args, "--checkpoint-midway")
	}
	return append(args, f.flags...)
}

func ms(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// goCommand is the worker of worker.go, or our program, in a process of its own.
func (f *kclFleet) goCommand(ctx context.Context, m *member, door string) (*exec.Cmd, error) {
	bin, err := os.Executable()
	args := []string{"worker", "--handler", f.slow.String()}
	if f.defaults {
		args = append(args, "--no-checkpoints")
	} else {
		args = append(args, "--leader-lease", leaderLease.String(), "--metrics-every", "1s", "--lease-duration", failoverTime.String())
	}
	if f.midway {
		args = append(args, "--checkpoint-midway")
	}
	if f.programs {
		bin, err = f.program(ctx)
		args = []string{"consume", "kinesis", "--region", region, "--lease-duration", failoverTime.String(), "--checkpoint-interval", "1s", "--events", m.events}
	}
	if err != nil {
		return nil, err
	}
	layout := f.layout()
	if f.first == javaKind {
		layout = "auto" // what is there tells
	}
	for _, p := range f.ps {
		args = append(args, "--stream", p.stream)
	}
	args = append(args, "--app", app, "--worker-id", m.worker, "--endpoint-url", f.kinesisURL, "--dynamodb-endpoint-url", door,
		"--layout", layout)
	cmd := exec.Command(bin, args...)
	cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID="+account, "AWS_SECRET_ACCESS_KEY=secret", "AWS_EC2_METADATA_DISABLED=true")
	return cmd, nil
}

// parseProgram reads a line of our program.
func (f *kclFleet) parseProgram(worker string, text []byte) (delivery, error) {
	d, err := parseDelivery(worker, text)
	d.shard = f.named(d.stream, d.shard)
	return d, err
}

// parsePeer reads a line of a Java worker, or of worker.go.
func (f *kclFleet) parsePeer(worker string, text []byte) (delivery, error) {
	d, err := parsePeer(worker, text)
	d.shard = f.named(d.stream, d.shard)
	return d, err
}

func (f *kclFleet) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	f.say("%s", text)
	f.notes = append(f.notes, text)
}

// owned are the leases that are not at their end, by owner.
func (f *kclFleet) owned(ctx context.Context) (map[string][]string, error) {
	t, err := readTable(ctx, f.d, app)
	if _, none := errors.AsType[*types.ResourceNotFoundException](err); none {
		return nil, nil // nobody has made it yet
	}
	if err != nil {
		return nil, err
	}
	out := map[string][]string{}
	for _, i := range t.Items {
		if isLease(i.str("entityType")) && i.str("checkpoint") != "SHARD_END" {
			out[i.owner()] = append(out[i.owner()], i.str("leaseKey"))
		}
	}
	return out, nil
}

// leader is who holds the lock, in the lease table or in that beside it.
func (f *kclFleet) leader(ctx context.Context) (string, error) {
	table, key := app, "leaseKey"
	if f.layout() == "kcl3-tables" {
		table, key = app+"-CoordinatorState", "key"
	}
	out, err := f.d.GetItem(ctx, &dynamodb.GetItemInput{TableName: &table, ConsistentRead: new(true), Key: map[string]types.AttributeValue{key: text("Leader")}})
	if _, none := errors.AsType[*types.ResourceNotFoundException](err); none {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	row, err := plainItem(out.Item)
	return row.str("ownerName"), err
}

// until waits for what the leases say. open says what is missing, empty: nothing.
func (f *kclFleet) until(ctx context.Context, what string, open func(owned map[string][]string) string) error {
	began := time.Now()
	err := poll(ctx, stepTime, func() (string, error) {
		if err := f.j.health(); err != nil {
			return "", err
		}
		owned, err := f.owned(ctx)
		if err != nil {
			return "", err
		}
		if missing := open(owned); missing != "" {
			return fmt.Sprintf("%s: %s (leases: %v)", what, missing, owned), nil
		}
		return "", nil
	})
	if err == nil {
		f.note("%s after %.1f s", what, time.Since(began).Seconds())
	}
	return err
}

// share waits until newcomer owns leases and delivers, and old still owns some.
func (f *kclFleet) share(ctx context.Context, newcomer, old *member) error {
	had := f.j.of(newcomer.worker)
	if err := f.until(ctx, newcomer.worker+" has leases beside "+old.worker, func(owned map[string][]string) string {
		if len(owned[newcomer.worker]) == 0 || len(owned[old.worker]) == 0 {
			return "one of the two has none"
		}
		return ""
	}); err != nil {
		return err
	}
	return f.j.until(ctx, stepTime, newcomer.worker+" delivering", func() bool { return f.j.of(newcomer.worker) > had })
}

// alone waits until m owns every lease that is not at its end.
func (f *kclFleet) alone(ctx context.Context, m *member) error {
	return f.until(ctx, m.worker+" has all leases", func(owned map[string][]string) string {
		for w, keys := range owned {
			if w != m.worker {
				return fmt.Sprintf("%v are of %q", keys, w)
			}
		}
		if len(owned) == 0 {
			return "there are none"
		}
		return ""
	})
}

// kill is kill -9, in the middle of what it delivers.
func (f *kclFleet) kill(ctx context.Context, m *member) error {
	had := f.j.of(m.worker)
	if err := f.j.until(ctx, stepTime, m.worker+" delivering before its kill", func() bool { return f.j.of(m.worker) > had }); err != nil {
		return err
	}
	return f.killNow(ctx, m)
}

func (f *kclFleet) killNow(ctx context.Context, m *member) error {
	if err := m.kill(); err != nil {
		return err
	}
	return f.noteKill(ctx, m)
}

// noteKill remembers what m owned when it was killed.
func (f *kclFleet) noteKill(ctx context.Context, m *member) error {
	k := kill{worker: m.worker, at: time.Now()}
	// Nobody can have taken its leases yet: they run for seconds.
	t, err := readTable(ctx, f.d, app)
	if err != nil {
		return err
	}
	k.checkpoints, k.subs = map[string]string{}, map[string]uint64{}
	for _, i := range t.Items {
		if isLease(i.str("entityType")) && i.owner() == m.worker {
			shard := f.shardOf(i.str("leaseKey"))
			k.checkpoints[shard] = i.str("checkpoint")
			if k.subs[shard], err = strconv.ParseUint(i.str("checkpointSubSequenceNumber"), 10, 64); err != nil {
				return fmt.Errorf("lease %s: %w", i.str("leaseKey"), err)
			}
		}
	}
	if len(k.checkpoints) == 0 {
		return fmt.Errorf("%s owned no lease when it was killed", m.worker)
	}
	f.kills = append(f.kills, k)
	f.say("killed %s, which owned %v", m.worker, slices.Sorted(maps.Keys(k.checkpoints)))
	return nil
}

// stop asks m to end as a deploy does. Java waits for its processors, up to 20 s by kclpeer.
func (f *kclFleet) stop(ctx context.Context, m *member) error {
	took, err := m.terminate(ctx, time.Minute)
	if err == nil {
		m.stopped, m.stoppedAt = true, time.Now()
		f.note("%s stopped in %.1f s", m.worker, took.Seconds())
	}
	return err
}

// settle ends the feed, waits until everything is delivered and stored, stops who is left, and judges.
func (f *kclFleet) settle(ctx context.Context, stopFeed func() error) (string, error) {
	if err := stopFeed(); err != nil {
		return "", err
	}
	var complaints []string
	put := 0
	for _, p := range f.ps {
		put += len(p.ledger)
	}
	if err := f.j.until(ctx, stepTime, "every record delivered", func() bool { return f.j.distinct() >= put }); err != nil {
		complaints = append(complaints, err.Error())
	} else if err := f.ended(ctx); err != nil {
		complaints = append(complaints, err.Error())
	}
	for _, m := range f.workers {
		if !m.stopped && !m.killed.Load() {
			if err := f.stop(ctx, m); err != nil {
				complaints = append(complaints, err.Error())
			}
		}
	}
	return f.verdict(ctx, complaints)
}

// shards are those of all streams, under the names of the ledger.
func (f *kclFleet) shards(ctx context.Context) ([]shard, error) {
	var out []shard
	for _, p := range f.ps {
		list, err := p.shards(ctx)
		if err != nil {
			return nil, err
		}
		for _, s := range list {
			s.id = p.prefix + s.id
			for i := range s.parents {
				s.parents[i] = p.prefix + s.parents[i]
			}
			out = append(out, s)
		}
	}
	return out, nil
}

// ended waits until the end of each closed shard is stored.
func (f *kclFleet) ended(ctx context.Context) error {
	shards, err := f.shards(ctx)
	if err != nil {
		return err
	}
	return poll(ctx, stepTime, func() (string, error) {
		t, err := readTable(ctx, f.d, app)
		if err != nil {
			return "", err
		}
		at := map[string]string{}
		for key, cp := range t.checkpoints("") {
			at[f.shardOf(key)] = cp
		}
		for _, s := range shards {
			if cp, ok := at[s.id]; s.closed && ok && cp != "SHARD_END" {
				return fmt.Sprintf("%s is closed and at %s", s.id, cp), nil
			}
		}
		return "", nil
	})
}

// verdict judges deliveries, overlaps, rows and Java's logs.
func (f *kclFleet) verdict(ctx context.Context, complaints []string) (string, error) {
	shards, err := f.shards(ctx)
	if err != nil {
		return "", err
	}
	marks := f.j.marked()
	for _, m := range f.workers {
		if m.kind == goKind && f.programs {
			more, err := f.eventMarks(m)
			if err != nil {
				complaints = append(complaints, err.Error())
			}
			marks = append(marks, more...)
		}
	}
	rows, err := f.rec.written()
	if err != nil {
		complaints = append(complaints, err.Error())
	}
	moved := moves(rows)
	f.writeJSON("rows.json", rows)
	ds := f.j.deliveries()
	stays := holds(ds, marks)
	ledger, order := map[string]put{}, map[string][]string{}
	for _, p := range f.ps {
		maps.Copy(ledger, p.ledger)
		maps.Copy(order, p.ids)
	}
	v := judge(ledger, order, shards, ds, append(f.taken(moved), f.kills...)...)
	v.judgeOverlaps(overlaps(stays), func(o overlap) time.Duration { return f.window(o, moved) })
	complaints = append(complaints, v.complaints...)
	seen := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		for _, s := range rows[key] {
			if len(s.item) == 0 {
				continue
			}
			for _, c := range f.model.checkRow(s.item) {
				if !seen[c] {
					seen[c] = true
					complaints = append(complaints, "meanwhile, written by "+s.by+": "+c)
				}
			}
		}
	}
	t, err := readTable(ctx, f.d, app)
	if err != nil {
		return "", err
	}
	f.writeJSON("table.json", t)
	for _, p := range f.ps {
		own, list := t, []shard(nil)
		if list, err = p.shards(ctx); err != nil {
			return "", err
		}
		own.Items = slices.DeleteFunc(slices.Clone(t.Items), func(i item) bool {
			return p.prefix != "" && isLease(i.str("entityType")) && f.named(i.str("streamName"), "") != p.prefix
		})
		complaints = append(complaints, f.model.check(own, list, true, f.released)...)
	}
	for _, m := range f.workers {
		if m.kind == javaKind {
			complaints = append(complaints, javaExceptions(m.log)...)
		}
	}
	took, given := 0, 0
	for _, m := range moved {
		switch {
		case m.from == "" || m.to == "":
		case m.given:
			given++
		default:
			took++
		}
	}
	text := fmt.Sprintf("%d records over %d shards, %d delivered (%s), %d again; %d leases handed over, %d taken; overlap %.2f s; %s", v.put, len(shards), v.delivered, f.j.byWorker(),
		v.duplicates, given, took, v.overlap.Seconds(), strings.Join(f.notes, ", "))
	if len(complaints) > 0 {
		return text, fmt.Errorf("%s; %d complaints:\n  %s", text, len(complaints), strings.Join(complaints, "\n  "))
	}
	return text, nil
}

// dump keeps what is known of a fleet that failed.
func (f *kclFleet) dump(ctx context.Context) {
	if t, err := readTable(ctx, f.d, app); err == nil {
		f.writeJSON("table.json", t)
	}
	if rows, err := f.rec.written(); err == nil {
		f.writeJSON("rows.json", rows)
	}
}

func (f *kclFleet) writeJSON(name string, v any) {
	if b, err := json.MarshalIndent(v, "", " "); err == nil {
		_ = os.WriteFile(filepath.Join(f.out, name), b, 0o644) // for people
	}
}

// released names the workers of ours that have stopped in order. Java's keep the name on the lease and let it run out (docs/reference/kcl.md V10).
func (f *kclFleet) released(worker string) bool {
	return slices.ContainsFunc(f.workers, func(m *member) bool { return m.worker == worker && m.kind == goKind && m.stopped })
}

// gone reports whether a worker had stopped in order by then: it has stored how far it was, and does nothing any more.
func (f *kclFleet) gone(worker string, at time.Time) bool {
	return slices.ContainsFunc(f.workers, func(m *member) bool { return m.worker == worker && m.stopped && m.stoppedAt.Before(at) })
}

// taken are the shards that were taken from workers while these lived: what they had delivered and not stored comes again.
func (f *kclFleet) taken(moved []move) []kill {
	var out []kill
	for _, m := range moved {
		if m.from != "" && m.to != "" && !m.given && !f.gone(m.from, m.at) {
			shard := f.shardOf(m.key)
			out = append(out, kill{worker: m.from, at: m.at, checkpoints: map[string]string{shard: m.checkpoint}, subs: map[string]uint64{shard: m.sub}})
		}
	}
	return out
}

// window is how long two workers may be at a shard: not at all where the lease was handed over, released or its owner killed. Who is robbed hears of it
// at its next renewal, which on a slow machine may be late, but not by more than a lease runs; then its handler has to return.
func (f *kclFleet) window(o overlap, moved []move) time.Duration {
	for _, m := range slices.Backward(moved) {
		if f.shardOf(m.key) != o.shard || m.from != o.from || m.given || m.at.After(o.at) {
			continue
		}
		told := m.at.Add(renewal)
		if at, ok := f.rec.refused(m.from, m.key, m.at); ok && at.Before(m.at.Add(failoverTime)) {
			told = at
		}
		return max(0, told.Sub(o.at)) + dispatch + f.slow + time.Second // the last for a slow machine
	}
	return 0
}

// eventMarks are where a worker of ours began to read shards, by its event file.
func (f *kclFleet) eventMarks(m *member) ([]delivery, error) {
	b, err := os.ReadFile(m.events)
	if err != nil {
		return nil, err
	}
	var out []delivery
	for i, l := range strings.Split(string(b), "\n") {
		var e struct {
			Time                 time.Time
			Event, Stream, Shard string
		}
		if l == "" {
			continue
		}
		if err := json.Unmarshal([]byte(l), &e); err != nil {
			if m.killed.Load() && !strings.Contains(string(b)[strings.Index(string(b), l):], "\n") {
				break // it was killed in the middle of a line
			}
			return nil, fmt.Errorf("%s:%d: %w", m.events, i+1, err)
		}
		if e.Event == "shard started" {
			out = append(out, delivery{worker: m.worker, stream: e.Stream, shard: f.named(e.Stream, e.Shard), after: e.Time, before: e.Time, index: -1, mark: began})
		}
	}
	if len(out) == 0 && f.j.of(m.worker) > 0 {
		return nil, errors.New(m.events + " names no shard that was started")
	}
	return out, nil
}
