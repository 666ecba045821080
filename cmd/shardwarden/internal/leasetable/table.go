package leasetable

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/lineage"
)

// Table is a lease table, opened for a tool.
type Table struct {
	Name    string
	Service string // dynamodb, tablestore
	Store   core.LeaseStore
	// Rows are all rows of all its tables, as they stand.
	Rows func(context.Context) iter.Seq2[Row, error]
	// Source is the source of a stream of its leases, by the id in its rows; name, where given, is what the user calls it.
	Source func(id core.StreamID, name string) (core.StreamSource, error)

	// single is a table of one stream by what it is: which one is written on the rows of ours alone, so a lease is told by its shard.
	single bool
	// inspect asks what there is of the KCL; nil: nothing can be.
	inspect func(context.Context) (*KCL, []Worker, error)
}

// Row is a row with everything in it. Attributes are typed: DynamoDB's as its own JSON has them, those of Tablestore as {"INTEGER": 1}.
type Row struct {
	Table      string         `json:"table"`
	Attributes map[string]any `json:"attributes"`
}

// Text is an attribute of a row in DynamoDB that is a text; empty: it is none, or missing.
func (r *Row) Text(name string) string {
	v, _ := r.Attributes[name].(map[string]any)
	text, _ := v["S"].(string)
	return text
}

// Reading is a table at one moment.
type Reading struct {
	Sight  core.Sight
	KCL    *KCL
	Stream core.StreamID // of a table of one stream, where it is known; then the keys in Sight leave it out
	// workers are those with rows, as far as the store tells more than a beat.
	workers []Worker
}

// Read reads the table once.
func (t *Table) Read(ctx context.Context) (*Reading, error) {
	if t.inspect == nil {
		sight, err := core.See(ctx, t.Store)
		return &Reading{Sight: sight}, err
	}
	r, err := t.ReadLeases(ctx)
	if err != nil {
		return nil, err
	}
	k, workers, err := t.inspect(ctx)
	r.KCL, r.workers = k, newest(workers)
	return r, err
}

// ReadLeases reads the leases alone, which costs half as much. An [Observer] wants whole readings.
func (t *Table) ReadLeases(ctx context.Context) (*Reading, error) {
	sight, err := core.Collect(t.Store.List(ctx))
	r := &Reading{Sight: sight}
	if t.single {
		r.unname()
	}
	return r, err
}

// unname takes the stream out of the keys: rows get it when one of ours takes them, which makes no other lease of them. Where rows name several
// streams, something is wrong, and they keep them.
func (r *Reading) unname() {
	ids := map[core.StreamID]bool{}
	for _, l := range r.Sight.Leases {
		if l.Key.Stream != "" {
			ids[l.Key.Stream] = true
			r.Stream = l.Key.Stream
		}
	}
	if len(ids) > 1 {
		r.Stream = ""
		return
	}
	for i := range r.Sight.Leases {
		r.Sight.Leases[i].Key.Stream = ""
	}
	for _, bad := range r.Sight.Bad {
		bad.Key.Stream = ""
	}
}

// newest leaves out what a worker that changed tables left behind.
func newest(rows []Worker) []Worker {
	at := map[string]int{}
	var out []Worker
	for _, w := range rows {
		i, twice := at[w.ID]
		switch {
		case !twice:
			at[w.ID] = len(out)
			out = append(out, w)
		case out[i].Updated.Before(w.Updated):
			out[i] = w
		}
	}
	return out
}

// Watch reads the table now, and again until it has been watched for a while, each pitch. What it returns is the last reading, with what
// was seen meanwhile.
func (t *Table) Watch(ctx context.Context, o *Observer, long, pitch time.Duration) (*Reading, error) {
	for {
		r, err := t.Read(ctx)
		if err != nil {
			return nil, err
		}
		now := time.Now()
		o.See(r, now)
		left := long - now.Sub(o.since)
		if left <= 0 {
			return r, nil
		}
		if err := Pause(ctx, min(pitch, left)); err != nil {
			return nil, err
		}
	}
}

// Pause waits, or ends with ctx.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Report says what a reading shows, and what was seen of it before.
func (t *Table) Report(r *Reading, o *Observer) *Report {
	now := time.Now()
	out := &Report{Time: now.UTC(), Service: t.Service, Table: t.Name, Stream: string(r.Stream), Watched: seconds(now.Sub(o.since)), Leases: []Lease{}}
	waits, kinds := waiting(r.Sight), t.kinds(r)
	for i := range r.Sight.Leases {
		l := newLease(&r.Sight.Leases[i], waits, kinds)
		l.Silence = o.silence(leaseSubject(l.lease.Key), now)
		out.Leases = append(out.Leases, l)
	}
	slices.SortFunc(out.Leases, func(a, b Lease) int { return cmp.Or(cmp.Compare(a.Stream, b.Stream), cmp.Compare(a.Shard, b.Shard)) })
	for _, bad := range r.Sight.Bad {
		out.Bad = append(out.Bad, BadRow{Row: bad.Row, Stream: string(bad.Key.Stream), Shard: string(bad.Key.Shard), Error: bad.Err.Error()})
	}
	if r.KCL != nil {
		kcl := *r.KCL
		if kcl.Leader != nil {
			kcl.Leader = new(*kcl.Leader)
			kcl.Leader.Silence = o.silence(subject{kind: ofLeader}, now)
		}
		out.KCL = &kcl
	}
	out.Workers = workers(r, out.Leases, o, now)
	return out
}

// kinds are the workers of which the table says whose they are. A row with a run was accepted by one of ours (core.Lease.Run).
func (t *Table) kinds(r *Reading) map[core.WorkerID]string {
	out := map[core.WorkerID]string{}
	for _, w := range r.workers {
		out[core.WorkerID(w.ID)] = w.Kind
	}
	if t.Service == "tablestore" { // Java's announce nothing there
		for _, w := range r.Sight.Workers {
			out[w.ID] = Ours
		}
	}
	for _, l := range r.Sight.Leases {
		if l.Run != "" {
			out[l.Owner] = Ours
		}
	}
	return out
}

func newLease(l *core.Lease, waits map[core.LeaseKey][]string, kinds map[core.WorkerID]string) Lease {
	out := Lease{
		Stream: string(l.Key.Stream), Shard: string(l.Key.Shard), Owner: string(l.Owner), Next: string(l.Next), Counter: l.Counter,
		Checkpoint: l.Checkpoint.String(), Sub: l.Checkpoint.Sub, Start: l.StartAt, WaitsFor: waits[l.Key], Ready: l.Ready,
		Parents: texts(l.Parents), Children: texts(l.Children), Run: l.Run, Switches: l.Switches, Throughput: l.Throughput, lease: *l,
	}
	switch {
	case l.Ended():
		out.State = Ended
	case l.Owner == core.Nobody:
		out.State = Free
	default:
		out.State = Held
	}
	if l.Pending != nil {
		out.Pending = l.Pending.At.String()
		if l.Pending.At.Sub > 0 {
			out.Pending += fmt.Sprintf(":%d", l.Pending.At.Sub)
		}
	}
	if l.Owner != core.Nobody {
		out.Kind = cmp.Or(kinds[l.Owner], Java)
	}
	return out
}

func texts[S ~string](ids []S) []string {
	var out []string
	for _, id := range ids {
		out = append(out, string(id))
	}
	return out
}

// waiting are the parents that leases wait for, as the rows alone tell: what needs a listing to know is left out.
func waiting(s core.Sight) map[core.LeaseKey][]string {
	of := map[core.StreamID]*lineage.Input{}
	at := func(id core.StreamID) *lineage.Input {
		if of[id] == nil {
			of[id] = &lineage.Input{Stream: id}
		}
		return of[id]
	}
	for _, l := range s.Leases {
		in := at(l.Key.Stream)
		in.Leases = append(in.Leases, l)
	}
	for _, bad := range s.Bad {
		in := at(bad.Key.Stream)
		in.Bad = append(in.Bad, bad.Key.Shard)
	}
	out := map[core.LeaseKey][]string{}
	for id, in := range of {
		for shard, waits := range lineage.New(*in).Blocked() {
			for _, w := range waits {
				if w.Why == lineage.NotEnded || w.Why == lineage.Unreadable {
					key := core.LeaseKey{Stream: id, Shard: shard}
					out[key] = append(out[key], string(w.Parent))
				}
			}
		}
	}
	return out
}

// workers are those with a row, and those that own leases.
func workers(r *Reading, leases []Lease, o *Observer, now time.Time) []Worker {
	all := map[string]*Worker{}
	at := func(id string) *Worker {
		if all[id] == nil {
			all[id] = &Worker{ID: id}
		}
		return all[id]
	}
	for _, w := range r.workers {
		all[w.ID] = new(w)
	}
	for _, w := range r.Sight.Workers {
		at(string(w.ID)).Row = true
		at(string(w.ID)).Load = w.Load
	}
	for i := range leases {
		l := &leases[i]
		if l.Owner == "" {
			continue
		}
		w := at(l.Owner)
		w.Leases++
		w.Kind = l.Kind
		w.Silence = shorter(w.Silence, l.Silence)
	}
	var out []Worker
	for _, id := range slices.Sorted(maps.Keys(all)) {
		w := all[id]
		w.Silence = shorter(w.Silence, o.silence(workerSubject(core.WorkerID(id)), now))
		out = append(out, *w)
	}
	return out
}

// shorter is the newer sign of life.
func shorter(a, b *Silence) *Silence {
	if a == nil || b != nil && (a.AtLeast && !b.AtLeast || a.AtLeast == b.AtLeast && b.Seconds < a.Seconds) {
		return b
	}
	return a
}

// rowFresh is how old a worker's row may be, by two clocks that agree, for the worker to be alive: two announcements (docs/reference/kcl.md 2.2).
const rowFresh = time.Minute

// Lives reports whether the worker showed a sign of life while the table was watched, or has just written its row. One that was not watched is
// taken to live.
func (w *Worker) Lives(now time.Time) bool {
	if w.Silence == nil || !w.Silence.AtLeast || w.Silence.Seconds == 0 {
		return true
	}
	return !w.Updated.IsZero() && now.Sub(w.Updated) < rowFresh
}

// Find is the lease that a user means: a shard, where one lease alone has it, or stream/shard, or a row's own key, stream:shard.
func (r *Report) Find(key string) (*Lease, error) {
	var found []*Lease
	for i := range r.Leases {
		l := &r.Leases[i]
		stream := cmp.Or(l.Stream, r.Stream)
		if key == l.Shard || key == stream+"/"+l.Shard || key == stream+":"+l.Shard {
			found = append(found, l)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, fmt.Errorf("%d streams have a shard %s: say which, as %s", len(found), key, found[0].Name())
	}
	for _, bad := range r.Bad {
		if bad.Row == key {
			return nil, fmt.Errorf("lease %s can't be read: %s; leases export shows the whole row", key, bad.Error)
		}
	}
	return nil, fmt.Errorf("table %s has no lease %s, of %d (leases list shows them): %w", r.Table, key, len(r.Leases), core.ErrNotFound)
}

// Name is what a user says to mean this lease.
func (l *Lease) Name() string {
	if l.Stream == "" {
		return l.Shard
	}
	return l.Stream + "/" + l.Shard
}

// Of is a report of leases alone, at a time.
func Of(at time.Time, leases []core.Lease) *Report {
	t := &Table{Service: "dynamodb"}
	r := t.Report(&Reading{Sight: core.Sight{Leases: leases}}, &Observer{})
	r.Time, r.Watched = at, 0
	return r
}
