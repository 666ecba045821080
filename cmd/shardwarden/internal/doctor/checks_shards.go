package doctor

import (
	"fmt"

	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/leasetable"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/lineage"
)

// checkShards: what no lease covers is read by nobody. One look may fall between two writes, so it is counted only where the table said so before and after.
func checkShards(f *Facts) []Finding {
	if f.Report == nil || f.Before == nil || f.StreamErr != nil || f.ShardsErr != nil || len(f.Report.Leases) == 0 || otherStream(f) != nil {
		return nil
	}
	before := map[lineage.Hole]bool{}
	for _, h := range lineage.Audit(input(f, f.Before)) {
		before[h] = true
	}
	var names []string
	for _, h := range lineage.Audit(input(f, f.Report)) {
		if before[h] {
			names = append(names, name(f, h))
		}
	}
	if len(names) == 0 {
		return ok("every part of the stream has a lease")
	}
	return one(Fail, fmt.Sprintf("%d parts of the stream have no lease, so nobody reads them: %s", len(names), some(names)),
		"workers of ours repair it within a minute or two; Java's auditor needs six minutes and a leader. If it stays, look at the leader's log (ListShards), or at rows that can't be read")
}

// input is the leases of this stream beside its listing.
func input(f *Facts, r *leasetable.Report) lineage.Input {
	in := lineage.Input{Stream: f.Info.ID, Shards: f.Shards, Listed: true, Lacks: f.Info.Lacks}
	for _, b := range r.Bad {
		if b.Stream == "" || b.Stream == string(f.Info.ID) {
			in.Bad = append(in.Bad, core.ShardID(b.Shard))
		}
	}
	for _, l := range r.Core() {
		if l.Key.Stream == "" {
			l.Key.Stream = f.Info.ID
		}
		if l.Key.Stream == f.Info.ID {
			in.Leases = append(in.Leases, l)
		}
	}
	return in
}

// name tells a hole by the open shard in it, where there is one.
func name(f *Facts, h lineage.Hole) string {
	if h.Shard != "" {
		return string(h.Shard)
	}
	for _, s := range f.Shards {
		if !s.Closed && s.Range != nil && string(s.Range.Start[:]) <= string(h.Range.End[:]) && string(s.Range.End[:]) >= string(h.Range.Start[:]) {
			return string(s.ID)
		}
	}
	return h.String()
}
