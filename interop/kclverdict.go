package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

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
	v := judge(ledger, order, shards, ds, slices.Concat(f.taken(moved), f.lost(marks, rows), f.kills)...)
	v.judgeOverlaps(overlaps(stays), func(o overlap) time.Duration { return f.window(o, moved) })
	complaints = append(complaints, v.complaints...)
	seen := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		for _, s := range rows[key] {
			if len(s.item) == 0 {
				continue
			}
			if !f.led() {
				// Between workers of ours: the KCL 2.x does not look at it (docs/reference/kcl.md V5). In the end none may be left.
				s.item = maps.Clone(s.item)
				delete(s.item, "checkpointOwner")
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
		list, err := p.shards(ctx)
		if err != nil {
			return "", err
		}
		own := t
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

// lost are the shards that workers have given up as lost, most of them because they were taken, and some by their own clock on a machine that was too
// slow: what came after the checkpoint that was stored then comes again, from whoever has the lease next.
func (f *kclFleet) lost(marks []delivery, rows map[string][]rowState) []kill {
	var out []kill
	for _, m := range marks {
		if m.mark != gaveUp {
			continue
		}
		for key, states := range rows {
			if f.shardOf(key) != m.shard {
				continue
			}
			k := kill{worker: m.worker, at: m.before, checkpoints: map[string]string{m.shard: ""}, subs: map[string]uint64{}}
			for _, s := range states {
				if len(s.item) > 0 && !s.at.After(m.before) {
					k.checkpoints[m.shard] = s.str("checkpoint")
					k.subs[m.shard], _ = strconv.ParseUint(s.str("checkpointSubSequenceNumber"), 10, 64) // its form is judged elsewhere
				}
			}
			out = append(out, k)
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
