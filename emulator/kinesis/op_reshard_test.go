package kinesis

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"pgregory.net/rapid"
)

func TestSplitAndMergeRefusals(t *testing.T) {
	r := newRig(t, Config{ShardLimit: 6})
	r.create("orders", 4)
	r.split("orders", shardID(3), hashLast[:len(hashLast)-1]+"4") // as high as it goes
	_, err := r.c.CreateStream(t.Context(), &sdk.CreateStreamInput{StreamName: aws.String("auto"), StreamModeDetails: onDemand})
	wantCode(t, err, "LimitExceededException", "6")
	for name, tc := range map[string]struct {
		shard, at  string
		code, word string
	}{
		"at its start":        {shardID(1), hashQuarter, "InvalidArgumentException", hashQuarter},
		"one after its start": {shardID(0), "1", "InvalidArgumentException", "NewStartingHashKey"},
		"at its end":          {shardID(0), "85070591730234615865843651857942052863", "InvalidArgumentException", "NewStartingHashKey"},
		"outside":             {shardID(0), hashLast, "InvalidArgumentException", hashLast},
		"not a hash key":      {shardID(0), "x", "ValidationException", "newStartingHashKey"},
		"over the hash space": {shardID(0), "340282366920938463463374607431768211456", "InvalidArgumentException", "NewStartingHashKey"},
		"closed shard":        {shardID(3), "300000000000000000000000000000000000000", "InvalidArgumentException", shardID(3)},
		"no such shard":       {shardID(9), "5", "ResourceNotFoundException", shardID(9)},
	} {
		t.Run("split "+name, func(t *testing.T) {
			_, err := r.c.SplitShard(t.Context(), &sdk.SplitShardInput{StreamName: aws.String("orders"), ShardToSplit: &tc.shard, NewStartingHashKey: &tc.at})
			wantCode(t, err, tc.code, tc.word)
		})
	}
	for name, tc := range map[string]struct{ a, b, code, word string }{
		"not adjacent":       {shardID(0), shardID(2), "InvalidArgumentException", "not an adjacent pair"},
		"with itself":        {shardID(0), shardID(0), "InvalidArgumentException", "not an adjacent pair"},
		"round the end":      {shardID(5), shardID(0), "InvalidArgumentException", "not an adjacent pair"},
		"with a closed one":  {shardID(2), shardID(3), "InvalidArgumentException", shardID(3)},
		"with none":          {shardID(0), shardID(9), "ResourceNotFoundException", shardID(9)},
		"a name that is bad": {"shard 1", shardID(0), "ValidationException", "shardToMerge"},
	} {
		t.Run("merge "+name, func(t *testing.T) {
			_, err := r.c.MergeShards(t.Context(), &sdk.MergeShardsInput{StreamName: aws.String("orders"), ShardToMerge: &tc.a, AdjacentShardToMerge: &tc.b})
			wantCode(t, err, tc.code, tc.word)
		})
	}
	r.split("orders", shardID(0), "2")
	_, err = r.c.SplitShard(t.Context(), &sdk.SplitShardInput{StreamName: aws.String("orders"), ShardToSplit: aws.String(shardID(1)), NewStartingHashKey: aws.String("100000000000000000000000000000000000000")})
	wantCode(t, err, "LimitExceededException", "Limit: 6")
	before := idsOf(r.shards("orders", nil))
	if before != "0 1 2 3 4 5 6 7" {
		t.Errorf("refused calls left shards %s", before)
	}
}

// TestUniformScaling scales at random and checks that the open shards are of equal size, that every shard but the first
// ones comes of one split or one merge, and that ranges and sequence numbers go with the parents'.
func TestUniformScaling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		st := &stream{}
		first := rapid.Uint64Range(1, 12).Draw(t, "first")
		st.openShards = []*shard{st.addShard(1, hashKey{}, lastHashKey)}
		st.scale(first, 1)
		for _, n := range rapid.SliceOfN(rapid.Uint64Range(1, 40), 1, 4).Draw(t, "counts") {
			before := slices.Clone(st.openShards)
			st.scale(n, 2)
			if len(st.openShards) != int(n) {
				t.Fatalf("%d open shards, want %d", len(st.openShards), n)
			}
			for i, h := range st.openShards {
				end := lastHashKey
				if i+1 < int(n) {
					end = evenStart(uint64(i+1), n).prev()
				}
				if h.start != evenStart(uint64(i), n) || h.end != end || !h.open() {
					t.Fatalf("shard %d of %d is %s to %s, open %v", i, n, h.start, h.end, h.open())
				}
			}
			for _, h := range before { // a shard that fits the new division is left alone
				fits := slices.ContainsFunc(st.openShards, func(o *shard) bool { return o.start == h.start && o.end == h.end })
				if fits != h.open() {
					t.Fatalf("shard %s fits the new division: %v; open: %v", h.id, fits, h.open())
				}
			}
		}
		for _, h := range st.shards {
			for _, c := range h.children {
				if !slices.Contains(c.parents, h) {
					t.Fatalf("%s does not name its parent %s", c.id, h.id)
				}
				if h.open() || c.first <= h.last || h.last <= h.first {
					t.Fatalf("%s begins at %d, its parent %s is from %d to %d", c.id, c.first, h.id, h.first, h.last)
				}
			}
			switch parents := h.parents; {
			case len(parents) == 1:
				p := parents[0]
				if len(p.children) != 2 || p.children[0].start != p.start || p.children[1].end != p.end || p.children[0].end.next() != p.children[1].start {
					t.Fatalf("children of the split %s do not share its range", p.id)
				}
			case len(parents) == 2:
				if parents[0].end.next() != parents[1].start || h.start != parents[0].start || h.end != parents[1].end || len(parents[0].children) != 1 {
					t.Fatalf("%s is not made of its parents %s and %s", h.id, parents[0].id, parents[1].id)
				}
			case h.index != 0:
				t.Fatalf("%s has %d parents", h.id, len(parents))
			}
		}
	})
}

func TestUpdateShardCount(t *testing.T) {
	r := newRig(t, Config{ShardLimit: 9})
	r.create("orders", 4)
	scale := func(n int32) (*sdk.UpdateShardCountOutput, error) {
		return r.c.UpdateShardCount(t.Context(), &sdk.UpdateShardCountInput{StreamARN: aws.String(r.s.arnOf("orders")), TargetShardCount: &n, ScalingType: "UNIFORM_SCALING"})
	}
	o, err := scale(8)
	r.ok(err)
	if *o.CurrentShardCount != 4 || *o.TargetShardCount != 8 || *o.StreamName != "orders" || *r.summary("orders").OpenShardCount != 8 {
		t.Errorf("answer %d to %d of %s, open %d", *o.CurrentShardCount, *o.TargetShardCount, *o.StreamName, *r.summary("orders").OpenShardCount)
	}
	if got := idsOf(r.shards("orders", nil)); got != "0 1 2 3 4 5 6 7 8 9 10 11" {
		t.Errorf("doubling 4 shards gives %s", got)
	}
	for name, tc := range map[string]struct {
		n          int32
		code, word string
	}{
		"below half":  {3, "InvalidArgumentException", "below half"},
		"over double": {17, "InvalidArgumentException", "over double"},
		"none":        {0, "ValidationException", "targetShardCount"},
		"over limit":  {10, "LimitExceededException", "9"},
	} {
		_, err := scale(tc.n)
		if err == nil {
			t.Fatalf("%s is accepted", name)
		}
		wantCode(t, err, tc.code, tc.word)
	}
	_, err = r.c.UpdateShardCount(t.Context(), &sdk.UpdateShardCountInput{StreamName: aws.String("orders"), TargetShardCount: aws.Int32(4), ScalingType: "EVEN"})
	wantCode(t, err, "ValidationException", "scalingType")
}

func TestOnDemandStreamsAreNotResharded(t *testing.T) {
	r := newRig(t, Config{})
	_, err := r.c.CreateStream(t.Context(), &sdk.CreateStreamInput{StreamName: aws.String("auto"), StreamModeDetails: onDemand})
	r.ok(err)
	if got := idsOf(r.shards("auto", nil)); got != "0 1 2 3" {
		t.Errorf("an on-demand stream has shards %s, want 4", got)
	}
	_, err = r.c.SplitShard(t.Context(), &sdk.SplitShardInput{StreamName: aws.String("auto"), ShardToSplit: aws.String(shardID(0)), NewStartingHashKey: aws.String("5")})
	wantCode(t, err, "ValidationException", "SplitShard")
	_, err = r.c.UpdateStreamMode(t.Context(), &sdk.UpdateStreamModeInput{StreamARN: aws.String(r.s.arnOf("auto")), StreamModeDetails: provisioned})
	r.ok(err)
	r.split("auto", shardID(0), "5")
	if got := r.summary("auto").StreamModeDetails.StreamMode; string(got) != modeProvisioned {
		t.Errorf("mode is %s", got)
	}
	if !strings.HasSuffix(idsOf(r.shards("auto", nil)), "4 5") {
		t.Error("the split left no children")
	}
}
