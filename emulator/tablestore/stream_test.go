package tablestore_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	ots "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/shardwarden/shardwarden/emulator/tablestore"
)

func texts(rs []*ots.StreamRecord) []string {
	out := []string{}
	for _, r := range rs {
		out = append(out, show(r))
	}
	return out
}

func wantTexts(t testing.TB, what string, got []*ots.StreamRecord, want ...string) {
	t.Helper()
	if !slices.Equal(texts(got), append([]string{}, want...)) {
		t.Errorf("%s:\n%q, want\n%q", what, texts(got), want)
	}
}

// The unmodified SDK: a table with a stream, writes of all kinds, conditions, a split, a merge, and all of it read.
func TestEndToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := start(t, tablestore.Config{})
		c.makeTable(tab, stringKey, 24, "n")
		streams, err := c.ListStream(&ots.ListStreamRequest{TableName: new(tab)})
		if err != nil || len(streams.Streams) != 1 || *streams.Streams[0].Id != *c.streamID(tab) {
			t.Fatalf("ListStream: %+v, %v", streams, err)
		}
		c.mustPut(tab, pk("m"), cols{"n": int64(1)})
		ms := time.Now().UnixMilli()
		time.Sleep(time.Second)
		equals := ots.NewSingleColumnCondition("n", ots.CT_EQUAL, int64(1))
		equals.FilterIfMissing, equals.LatestVersionOnly = true, true
		for _, want := range []string{"", "OTSConditionCheckFail"} {
			err := c.update(tab, pk("m"), condition(exists, equals), func(ch *ots.UpdateRowChange) {
				ch.PutColumn("n", int64(2))
				ch.DeleteColumn("gone")
				ch.DeleteColumnWithTimestamp("one", ms)
			})
			wantCode(t, "conditional update", err, want)
		}
		if got := c.get(tab, pk("m")); len(got) != 1 || got["n"] != int64(2) {
			t.Errorf("row is %v", got)
		}
		first := c.shards(tab)
		if len(first) != 1 || first[0].FatherShard != nil || first[0].MotherShard != nil {
			t.Fatalf("shards: %v", first)
		}
		if _, _, err := s.Split(inst, tab, "m"); err != nil {
			t.Fatal(err)
		}
		c.mustPut(tab, pk("a"), cols{"n": int64(3)})
		c.mustPut(tab, pk("z"), nil)
		if err := c.delete(tab, pk("m"), nil); err != nil {
			t.Fatal(err)
		}
		second := c.shards(tab)
		if len(second) != 3 {
			t.Fatalf("shards after the split: %v", second)
		}
		left, right := second[1], second[2]
		if *left.FatherShard != *first[0].SelfShard || *right.FatherShard != *first[0].SelfShard || left.MotherShard != nil {
			t.Errorf("parents after the split: %v %v", left, right)
		}
		if _, err := s.Merge(inst, tab, string(*left.SelfShard), string(*right.SelfShard)); err != nil {
			t.Fatal(err)
		}
		c.mustPut(tab, pk("a"), cols{"n": int64(4)})
		third := c.shards(tab)
		merged := third[3]
		if *merged.FatherShard != *left.SelfShard || *merged.MotherShard != *right.SelfShard {
			t.Errorf("parents after the merge: %v", merged)
		}
		for _, tt := range []struct {
			shard *ots.StreamShard
			ended bool
			want  []string
		}{
			{first[0], true, []string{`"PutRow" m n=1`, `"UpdateRow" m n=2 -gone -one@946684800000 was n=1`}},
			{left, true, []string{`"PutRow" a n=3`}},
			{right, true, []string{`"PutRow" z`, `"DeleteRow" m was n=2`}},
			{merged, false, []string{`"PutRow" a n=4 was n=3`}},
		} {
			records, ended := c.drain(tab, *tt.shard.SelfShard)
			wantTexts(t, string(*tt.shard.SelfShard), records, tt.want...)
			if ended != tt.ended {
				t.Errorf("shard %s: ended %t, want %t", *tt.shard.SelfShard, ended, tt.ended)
			}
		}
	})
}
