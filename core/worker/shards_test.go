package worker_test

import (
	"slices"

	"github.com/shardwarden/shardwarden/core"
)

// open are the shards that take records, by hash range.
func (f *fleet) openAdjacent() []core.ShardID {
	shards, err := f.stream.Shards(f.t.Context(), core.FromLatest)
	if err != nil {
		f.t.Fatal(err)
	}
	slices.SortFunc(shards, func(a, b core.Shard) int { return slices.Compare(a.Range.Start[:], b.Range.Start[:]) })
	var out []core.ShardID
	for _, s := range shards {
		out = append(out, s.ID)
	}
	return out
}

func (f *fleet) open() []core.ShardID {
	out := f.openAdjacent()
	slices.Sort(out)
	return out
}

// checkEpochs: no delivery for a shard under an older ownership after one under a newer.
func (f *fleet) checkEpochs() {
	f.t.Helper()
	type epoch struct {
		fence uint64
		by    core.WorkerID
	}
	last := map[core.ShardID]epoch{}
	for _, d := range f.delivered {
		l := last[d.shard]
		if d.fence < l.fence || d.fence == l.fence && d.by != l.by {
			f.t.Errorf("shard %s: %s delivered %s/%s under fence %d after %s under %d", d.shard, d.by, d.key, d.val, d.fence, l.by, l.fence)
		}
		if d.fence >= l.fence {
			last[d.shard] = epoch{d.fence, d.by}
		}
	}
}
