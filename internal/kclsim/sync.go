package kclsim

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

// start is the Scheduler's initialisation (3.6).
func (w *Worker) start(ctx context.Context) error {
	if err := w.prepareTable(ctx, w.leases()); err != nil {
		return err
	}
	if w.s.Version >= V34 {
		if err := w.findLayout(ctx); err != nil {
			return err
		}
		if err := w.meetVersion(ctx); err != nil {
			return err
		}
	}
	for wait := time.Duration(1+w.chance(30)) * time.Second; wait > 0; wait -= 3 * time.Second {
		if all, err := w.list(ctx); err != nil || len(all) > 0 {
			break
		}
		if err := pause(ctx, min(wait, 3*time.Second)); err != nil {
			return err
		}
	}
	if w.lists(ctx) {
		if err := w.syncShards(ctx); err != nil {
			return fmt.Errorf("sync shards: %w", err)
		}
	}
	all, err := w.list(ctx)
	if err != nil {
		return err
	}
	for _, l := range all { // renewer.initialize: what is mine is mine still, expired or not
		if l.owner == w.s.ID && l.checkpointOwner == "" {
			w.hold(l, "has from before")
		}
	}
	return nil
}

func (w *Worker) listShards(ctx context.Context, filter *types.ShardFilter) ([]types.Shard, error) {
	in := &kinesis.ListShardsInput{StreamName: aws.String(w.s.Stream), ShardFilter: filter}
	var out []types.Shard
	for {
		page, err := w.s.Kinesis.ListShards(ctx, in)
		if err != nil {
			return nil, err
		}
		out = append(out, page.Shards...)
		if page.NextToken == nil {
			return out, nil
		}
		in = &kinesis.ListShardsInput{NextToken: page.NextToken}
	}
}

// leaseFor is a new lease for a shard, at the beginning of it: the configured start is TRIM_HORIZON.
func leaseFor(s *types.Shard) lease {
	l := lease{key: aws.ToString(s.ShardId), checkpoint: trimHorizon}
	for _, p := range []*string{s.ParentShardId, s.AdjacentParentShardId} {
		if p != nil {
			l.parents = append(l.parents, *p)
		}
	}
	if s.HashKeyRange != nil {
		l.start, l.end = aws.ToString(s.HashKeyRange.StartingHashKey), aws.ToString(s.HashKeyRange.EndingHashKey)
	}
	return l
}

// syncShards creates the leases that are missing (HierarchicalShardSyncer).
func (w *Worker) syncShards(ctx context.Context) error {
	all, err := w.list(ctx)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		shards, err := w.listShards(ctx, &types.ShardFilter{Type: types.ShardFilterTypeAtTrimHorizon})
		if err != nil {
			return err
		}
		for i := range shards {
			if err := w.create(ctx, leaseFor(&shards[i])); err != nil {
				return err
			}
		}
		return nil
	}
	shards, err := w.listShards(ctx, nil)
	if err != nil {
		return err
	}
	for _, l := range missing(shards, all) {
		w.note("creates a lease for %s", l.key)
		if err := w.create(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

// missing are the leases to create where there are some: for open shards that descend from no lease, and for the oldest ancestors that can be
// replayed of those that do (4.1).
func missing(shards []types.Shard, leases []lease) []lease {
	known := map[string]*types.Shard{}
	for i := range shards {
		known[aws.ToString(shards[i].ShardId)] = &shards[i]
	}
	leased := map[string]bool{}
	for i := range leases {
		leased[leases[i].key] = true
	}
	descends, wanted, add := map[string]bool{}, map[string]bool{}, map[string]lease{}
	done := map[string]bool{}
	var walk func(id string) bool
	walk = func(id string) bool {
		if done[id] {
			return descends[id]
		}
		done[id] = true
		s := known[id]
		switch {
		case s == nil:
			return false
		case leased[id]:
			descends[id] = true
			return true
		}
		l := leaseFor(s)
		parents := slices.DeleteFunc(slices.Clone(l.parents), func(p string) bool { return known[p] == nil })
		for _, p := range parents {
			if walk(p) || wanted[p] {
				descends[id] = true
			}
		}
		if !descends[id] {
			wanted[id] = true
			return false
		}
		for _, p := range parents {
			if !leased[p] && (wanted[p] || !descends[p]) {
				add[p] = leaseFor(known[p])
			}
		}
		return true
	}
	for i := range shards {
		s := &shards[i]
		id := aws.ToString(s.ShardId)
		if s.SequenceNumberRange.EndingSequenceNumber == nil && !leased[id] && !walk(id) {
			add[id] = leaseFor(s)
		}
	}
	out := make([]lease, 0, len(add))
	for _, l := range add {
		out = append(out, l)
	}
	begin := func(l lease) *big.Int {
		return hash(aws.ToString(known[l.key].SequenceNumberRange.StartingSequenceNumber))
	}
	slices.SortFunc(out, func(a, b lease) int {
		if c := begin(a).Cmp(begin(b)); c != 0 {
			return c
		}
		return strings.Compare(a.key, b.key)
	})
	return out
}

// audit compares the leases with the whole hash range; a hole that is seen three times in a row is repaired (PeriodicShardSyncManager).
func (w *Worker) audit(ctx context.Context) {
	if !w.lists(ctx) {
		return
	}
	all, err := w.list(ctx)
	if err != nil {
		return
	}
	found := hole(all)
	w.mu.Lock()
	n := 0
	if found != "" {
		n = w.holes[found] + 1
	}
	clear(w.holes)
	if n > 0 {
		w.holes[found] = n
	}
	w.mu.Unlock()
	if n >= auditConfirm || len(all) == 0 {
		w.note("repairs a hole: %s", found)
		if err := w.syncShards(ctx); err != nil {
			w.note("sync shards: %v", err)
		}
	}
}

// hole names the first gap that the leases leave in the hash range, "" where there is none.
func hole(all []lease) string {
	var live []lease
	for _, l := range all {
		if l.checkpoint != shardEnd && l.start != "" {
			live = append(live, l)
		}
	}
	slices.SortFunc(live, func(a, b lease) int {
		if c := hash(a.start).Cmp(hash(b.start)); c != 0 {
			return c
		}
		return hash(a.end).Cmp(hash(b.end))
	})
	next, last := big.NewInt(0), "the beginning"
	for _, l := range live {
		if hash(l.start).Cmp(next) > 0 {
			return fmt.Sprintf("between %s and %s", last, l.key)
		}
		if e := new(big.Int).Add(hash(l.end), big.NewInt(1)); e.Cmp(next) > 0 {
			next, last = e, l.key
		}
	}
	if next.BitLen() < 129 { // 2^128, behind the last hash key
		return fmt.Sprintf("between %s and the end", last)
	}
	return ""
}
