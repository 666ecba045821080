package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// director makes things happen while records flow. When is a matter of how many records are in, never of the clock; to whom and to which
// shard is decided by the seed.
type director struct {
	*boundary
	crew   *crew
	dice   *rand.Rand
	say    func(format string, args ...any)
	played played
	shown  []shardLine // what the display, and only it, showed last
}

// played is what was done.
type played struct {
	splits, merges int
	cuts           []cut
	stopped        int
}

type scene struct {
	at   float64 // part of the records that are in
	name string
	play func(context.Context) error
}

// scenes spreads the events over the run.
func (d *director) scenes(reshards, kills int) []scene {
	var out []scene
	for i := range reshards {
		at := 0.15 + 0.6*(float64(i)+0.5)/float64(reshards)
		if i%3 == 2 {
			out = append(out, scene{at, "merge", d.merge})
		} else {
			out = append(out, scene{at, "split", d.split})
		}
	}
	for i := range kills {
		out = append(out, scene{0.35 + 0.3*(float64(i)+0.5)/float64(kills), "zombie", d.kill})
	}
	out = append(out, scene{0.8, "stop", d.stop})
	slices.SortStableFunc(out, func(a, b scene) int { return cmp.Compare(a.at, b.at) })
	return out
}

func (d *director) direct(ctx context.Context, scenes []scene) error {
	for _, s := range scenes {
		want := int(s.at * float64(d.records))
		if err := d.ledger.until(ctx, func(l live) bool { return l.produced >= want }); err != nil {
			return err
		}
		if err := s.play(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// open lists the open shards, by range.
func (d *director) open(ctx context.Context) ([]shard, error) {
	all, err := d.stage.shards(ctx)
	if err != nil {
		return nil, err
	}
	d.ledger.family(all)
	open := slices.DeleteFunc(all, func(s shard) bool { return !s.open })
	slices.SortFunc(open, func(a, b shard) int { return a.hashes.first.Cmp(b.hashes.first) })
	return open, nil
}

func (d *director) split(ctx context.Context) error {
	open, err := d.open(ctx)
	if err != nil {
		return err
	}
	open = slices.DeleteFunc(open, func(s shard) bool { return !s.hashes.splits() })
	if len(open) == 0 {
		return errors.New("no shard is left that can be split")
	}
	s := open[d.dice.IntN(len(open))]
	g, err := d.hold(ctx, s)
	if err != nil {
		return err
	}
	if err := d.stage.split(ctx, s); err != nil {
		return err
	}
	d.played.splits++
	children, err := d.children(ctx, s.id)
	if err != nil {
		return err
	}
	d.say("split %s into %s", short(s.id), shortAll(children))
	if g != nil {
		defer close(g.open)
		return d.readEarly(ctx, s, children)
	}
	return nil
}

func (d *director) merge(ctx context.Context) error {
	open, err := d.open(ctx)
	if err != nil {
		return err
	}
	var pairs [][2]shard
	for i := range len(open) - 1 {
		if open[i].hashes.before(open[i+1].hashes) {
			pairs = append(pairs, [2]shard{open[i], open[i+1]})
		}
	}
	if len(pairs) == 0 {
		return d.split(ctx)
	}
	p := pairs[d.dice.IntN(len(pairs))]
	if err := d.stage.merge(ctx, p[0], p[1]); err != nil {
		return err
	}
	d.played.merges++
	children, err := d.children(ctx, p[0].id)
	if err != nil {
		return err
	}
	d.say("merged %s and %s into %s", short(p[0].id), short(p[1].id), shortAll(children))
	return nil
}

func (d *director) children(ctx context.Context, parent string) ([]string, error) {
	all, err := d.stage.shards(ctx)
	if err != nil {
		return nil, err
	}
	d.ledger.family(all)
	var out []string
	for _, s := range all {
		if slices.Contains(s.parents, parent) {
			out = append(out, s.id)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no children in the listing", parent)
	}
	return out, nil
}

// kill cuts a worker that has shards off from the network, and starts another in its place.
func (d *director) kill(ctx context.Context) error {
	victim, shards, err := d.busy(ctx)
	if err != nil {
		return err
	}
	at := d.ledger.elapsed()
	d.crew.sever(victim, at)
	d.played.cuts = append(d.played.cuts, cut{victim.name, at})
	m, err := d.crew.start(ctx)
	if err != nil {
		return err
	}
	d.say("cut %s off from the network: it reads %s and does not know; started %s", victim.name, shortAll(shards), m.name)
	return nil
}

// stop stops a worker gracefully, and before that starts another if it is the only one.
func (d *director) stop(ctx context.Context) error {
	victim, _, err := d.busy(ctx)
	if err != nil {
		return err
	}
	if len(d.crew.in(running)) == 1 {
		if _, err := d.crew.start(ctx); err != nil {
			return err
		}
	}
	d.say("stopping %s", victim.name)
	start := time.Now()
	if err := d.crew.stop(victim); err != nil {
		return err
	}
	d.played.stopped++
	d.say("stopped %s gracefully in %.1f s", victim.name, time.Since(start).Seconds())
	return nil
}

// busy picks a worker that runs and has open shards, as the ledger saw it, and waits until there is one.
func (d *director) busy(ctx context.Context) (m *member, shards []string, err error) {
	for {
		n := d.ledger.now().delivered
		open, err := d.open(ctx)
		if err != nil {
			return nil, nil, err
		}
		candidates := d.crew.in(running)
		d.dice.Shuffle(len(candidates), func(i, j int) { candidates[i], candidates[j] = candidates[j], candidates[i] })
		for _, c := range candidates {
			shards := slices.DeleteFunc(d.ledger.holding(c.name), func(id string) bool {
				return !slices.ContainsFunc(open, func(s shard) bool { return s.id == id })
			})
			if len(shards) > 0 {
				return c, shards, nil
			}
		}
		if err := d.ledger.until(ctx, func(l live) bool { return l.delivered > n }); err != nil {
			return nil, nil, err
		}
	}
}

// hold shuts the gate of a shard that is about to be split, for sabotage, once its handler has records that it can't get rid of.
func (d *director) hold(ctx context.Context, s shard) (*gate, error) {
	if d.spoiler.kind != earlyChild || d.spoiler.count() > 0 {
		return nil, nil
	}
	g := d.spoiler.shut(s.id)
	select {
	case <-g.reached:
		return g, nil
	case <-ctx.Done():
		close(g.open)
		return nil, context.Cause(ctx)
	}
}

// readEarly delivers records of a child, for sabotage, while its parent still has some.
func (d *director) readEarly(ctx context.Context, parent shard, children []string) error {
	seat, err := d.stage.join("saboteur")
	if err != nil {
		return err
	}
	defer seat.leave()
	full := ""
	err = d.ledger.until(ctx, func(l live) bool {
		for _, c := range children {
			if n, ok := d.ledger.number[c]; ok && l.put[n] > 0 {
				full = c
				return true
			}
		}
		return false
	})
	if err != nil {
		return err
	}
	reader, err := seat.source.Open(ctx, core.Shard{ID: core.ShardID(full), Parents: []core.ShardID{core.ShardID(parent.id)}}, core.FromHorizon)
	if err != nil {
		return err
	}
	defer reader.Close()
	for {
		page, err := reader.Next(ctx)
		if err != nil {
			return err
		}
		got := d.stage.items(d.seed, d.keys, d.records, page.Records)
		if page.Release != nil {
			page.Release()
		}
		if len(got) > 0 {
			d.deliver(d.ledger.begin("saboteur", full), got)
			d.spoiler.did(len(got))
			return nil
		}
	}
}
