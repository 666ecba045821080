package tablestore_test

import (
	"errors"
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

func (c *client) mustRead(it *ots.ShardIterator, limit int32) *ots.GetStreamRecordResponse {
	c.t.Helper()
	out, err := c.read(it, limit)
	if err != nil {
		c.t.Fatalf("GetStreamRecord: %v", err)
	}
	return out
}

func TestPagesOfRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := start(t, tablestore.Config{PageRecords: 3})
		c.makeTable(tab, stringKey, 24)
		for _, k := range []string{"a", "b", "c", "d", "e"} {
			c.mustPut(tab, pk(k), nil)
		}
		shard := *c.shards(tab)[0].SelfShard
		first := c.iterator(tab, shard, nil)
		one := c.mustRead(first, 2)
		wantTexts(t, "limit", one.Records, `"PutRow" a`, `"PutRow" b`)
		wantTexts(t, "the same place again", c.mustRead(first, 1).Records, `"PutRow" a`)
		two := c.mustRead(one.NextShardIterator, 1000)
		wantTexts(t, "server's limit", two.Records, `"PutRow" c`, `"PutRow" d`, `"PutRow" e`)
		if one.CapacityUnit == nil || one.CapacityUnit.Read != 1 || two.MayMoreRecord != nil {
			t.Errorf("cost %+v, more %v", one.CapacityUnit, two.MayMoreRecord)
		}
		time.Sleep(time.Hour)
		idle := c.mustRead(two.NextShardIterator, 0)
		if len(idle.Records) != 0 || *idle.NextShardIterator != *two.NextShardIterator {
			t.Errorf("an idle shard gives another iterator: %v", idle)
		}
		c.mustPut(tab, pk("f"), nil)
		wantTexts(t, "after idling", c.mustRead(idle.NextShardIterator, 0).Records, `"PutRow" f`)
		_, err := c.read(first, -1)
		wantCode(t, "limit below zero", err, "") // the client leaves it out
		in := &ots.GetStreamRecordRequest{ShardIterator: first, Limit: new(int32(0))}
		_, err = c.GetStreamRecord(in)
		wantCode(t, "limit zero", err, "OTSParameterInvalid")
	})
}

func TestPageOfLargeRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := start(t, tablestore.Config{PageRecordBytes: 1000})
		c.makeTable(tab, stringKey, 24)
		for i, n := range []int{2000, 300, 300, 300, 300} {
			c.mustPut(tab, pk(string(rune('a'+i))), cols{"x": make([]byte, n)})
		}
		it := c.iterator(tab, *c.shards(tab)[0].SelfShard, nil)
		for _, want := range []int{1, 2, 2, 0} {
			out := c.mustRead(it, 0)
			if len(out.Records) != want {
				t.Errorf("%d records, want %d", len(out.Records), want)
			}
			it = out.NextShardIterator
		}
	})
}

func TestSequences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := start(t, tablestore.Config{})
		c.makeTable(tab, stringKey, 24)
		c.mustPut(tab, pk("a"), nil)
		c.mustPut(tab, pk("b"), nil) // in the same microsecond
		time.Sleep(time.Millisecond)
		c.mustPut(tab, pk("c"), nil)
		c.mustPut(tab, pk("z"), nil)
		if _, _, err := s.Split(inst, tab, "m"); err != nil {
			t.Fatal(err)
		}
		c.mustPut(tab, pk("d"), nil)
		c.mustPut(tab, pk("y"), nil)
		us := time.Now().UnixMicro()
		var got []ots.RecordSequenceInfo
		for _, h := range c.shards(tab) {
			records, _ := c.drain(tab, *h.SelfShard)
			for _, r := range records {
				got = append(got, *r.Info)
			}
		}
		want := []ots.RecordSequenceInfo{
			{Timestamp: us - 1000, RowIndex: 0}, {Timestamp: us - 1000, RowIndex: 1}, {Timestamp: us, RowIndex: 0}, {Timestamp: us, RowIndex: 1},
			{Timestamp: us, RowIndex: 2}, {Timestamp: us, RowIndex: 3},
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

func TestIteratorsByTime(t *testing.T) {
	for _, pages := range []int{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			_, c := start(t, tablestore.Config{TimestampPages: pages})
			c.makeTable(tab, stringKey, 24)
			shard := *c.shards(tab)[0].SelfShard
			begin := time.Now().UnixMicro()
			for _, k := range []string{"a", "b", "c"} {
				time.Sleep(time.Second)
				c.mustPut(tab, pk(k), nil)
			}
			at := func(us int64) []*ots.StreamRecord {
				t.Helper()
				return c.mustRead(c.iterator(tab, shard, &us), 0).Records
			}
			wantTexts(t, "before all", at(0), `"PutRow" a`, `"PutRow" b`, `"PutRow" c`)
			wantTexts(t, "just when", at(begin+2e6), `"PutRow" b`, `"PutRow" c`)
			wantTexts(t, "between", at(begin+2e6+1), `"PutRow" c`)
			wantTexts(t, "after all", at(begin+3e6+1))
			wantTexts(t, "in the future", at(begin+9e6))
			in := &ots.GetShardIteratorRequest{StreamId: c.streamID(tab), ShardId: &shard, Timestamp: new(begin)}
			out, err := c.GetShardIterator(in)
			if err != nil || (out.Token != nil) != (pages > 0) {
				t.Fatalf("%+v, %v", out, err)
			}
			if pages > 0 {
				_, err = c.read(out.ShardIterator, 0)
				wantCode(t, "an iterator that came with a token", err, "OTSTrimmedDataAccess")
				in.Token, in.Timestamp = out.Token, new(begin+1)
				_, err = c.GetShardIterator(in)
				wantCode(t, "the token of another time", err, "OTSParameterInvalid")
			}
		})
	}
}

// Retention drops what is old: records, closed shards, and (under one reading) the places of iterators.
func TestRetention(t *testing.T) {
	for _, stay := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s, c := start(t, tablestore.Config{IteratorsStay: stay})
			c.makeTable(tab, stringKey, 1)
			dead := ""
			if !stay {
				dead = "OTSTrimmedDataAccess"
			}
			shard := *c.shards(tab)[0].SelfShard
			begin := c.iterator(tab, shard, nil)
			c.mustPut(tab, pk("a"), nil)
			afterA := c.mustRead(begin, 0).NextShardIterator
			time.Sleep(30 * time.Minute)
			c.mustPut(tab, pk("b"), nil)
			afterB := c.mustRead(afterA, 0).NextShardIterator
			time.Sleep(30*time.Minute + time.Microsecond)
			_, err := c.read(begin, 0)
			wantCode(t, "a record after it is gone", err, "OTSTrimmedDataAccess")
			_, err = c.read(afterA, 0)
			wantCode(t, "its own place is gone, no record after it", err, dead)
			records, _ := c.drain(tab, shard)
			wantTexts(t, "from the oldest", records, `"PutRow" b`)
			time.Sleep(30 * time.Minute)
			_, err = c.read(afterB, 0)
			wantCode(t, "idle for as long as records are kept", err, dead)
			fresh := c.iterator(tab, shard, new(time.Now().UnixMicro()))
			time.Sleep(time.Hour)
			_, err = c.read(fresh, 0)
			wantCode(t, "a fresh one, an hour old", err, "")
			time.Sleep(time.Microsecond)
			_, err = c.read(fresh, 0)
			wantCode(t, "a fresh one, older", err, dead)

			if _, _, err := s.Split(inst, tab, "m"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			if n := len(c.shards(tab)); n != 3 {
				t.Errorf("%d shards an hour after the split", n)
			}
			time.Sleep(time.Microsecond)
			left := c.shards(tab)
			if len(left) != 2 || *left[0].FatherShard != shard {
				t.Errorf("later there are %v; the children still name their parent", left)
			}
			_, err = c.GetShardIterator(&ots.GetShardIteratorRequest{StreamId: c.streamID(tab), ShardId: &shard})
			wantCode(t, "the vanished shard", err, "OTSObjectNotExist")
			_, err = c.read(fresh, 0)
			wantCode(t, "an iterator of it", err, "OTSTrimmedDataAccess")
		})
	}
}

func TestTrimAndExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := start(t, tablestore.Config{})
		c.makeTable(tab, stringKey, 24)
		shard := *c.shards(tab)[0].SelfShard
		begin := c.iterator(tab, shard, nil)
		c.mustPut(tab, pk("a"), nil)
		time.Sleep(time.Second)
		c.mustPut(tab, pk("b"), nil)
		if err := s.Trim(inst, tab, string(shard), time.Now()); err != nil {
			t.Fatal(err)
		}
		_, err := c.read(begin, 0)
		wantCode(t, "trimmed", err, "OTSTrimmedDataAccess")
		records, _ := c.drain(tab, shard)
		wantTexts(t, "the rest", records, `"PutRow" b`)
		if err := s.Expire(inst, tab, string(shard)); err == nil {
			t.Error("an open shard expired")
		}
		if _, _, err := s.SplitShard(inst, tab, string(shard)); err != nil {
			t.Fatal(err)
		}
		if err := s.Expire(inst, tab, string(shard)); err != nil {
			t.Fatal(err)
		}
		if left := c.shards(tab); len(left) != 2 || *left[0].FatherShard != shard {
			t.Errorf("shards: %v", left)
		}
		for _, err := range []error{s.Trim(inst, "none", "", time.Now()), s.Trim(inst, tab, "none", time.Now()), s.Expire(inst, tab, string(shard)), s.Expire(inst, tab, "")} {
			if err == nil {
				t.Error("what is not there was trimmed")
			}
		}
	})
}

func TestEndOfShard(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s, c := start(t, tablestore.Config{LateEnd: late, RecordDelay: time.Second})
			c.makeTable(tab, stringKey, 24)
			shard := *c.shards(tab)[0].SelfShard
			it := c.iterator(tab, shard, nil)
			c.mustPut(tab, pk("a"), nil)
			c.mustPut(tab, pk("n"), nil)
			if _, _, err := s.Split(inst, tab, "m"); err != nil {
				t.Fatal(err)
			}
			out := c.mustRead(it, 0)
			if len(out.Records) != 0 || out.NextShardIterator == nil {
				t.Fatalf("records show before their time: %+v", out)
			}
			time.Sleep(time.Second)
			if out = c.mustRead(it, 1); out.NextShardIterator == nil {
				t.Fatal("the shard ends with a record left")
			}
			last := out.NextShardIterator
			out = c.mustRead(last, 0)
			wantTexts(t, "last record", out.Records, `"PutRow" n`)
			if (out.NextShardIterator != nil) != late {
				t.Errorf("with the last record there is a next iterator: %t", out.NextShardIterator != nil)
			}
			child := c.iterator(tab, *c.shards(tab)[1].SelfShard, nil)
			if _, _, err := s.Split(inst, tab, "g"); err != nil {
				t.Fatal(err)
			}
			if c.mustRead(child, 0).NextShardIterator == nil {
				t.Error("the end of a shard without records shows before its time")
			}
			time.Sleep(time.Second)
			if c.mustRead(child, 0).NextShardIterator != nil {
				t.Error("a shard without records does not end")
			}
			if late {
				if out = c.mustRead(out.NextShardIterator, 0); out.NextShardIterator != nil || len(out.Records) != 0 {
					t.Errorf("the end: %+v", out)
				}
			}
		})
	}
}

func TestPagesOfShards(t *testing.T) {
	for _, byID := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s, c := start(t, tablestore.Config{PageShards: 2, ShardsByID: byID})
			c.makeTable(tab, stringKey, 24)
			for _, at := range []string{"m", "f", "t", "c"} {
				if _, _, err := s.Split(inst, tab, at); err != nil {
					t.Fatal(err)
				}
			}
			all := c.shards(tab)
			var ids []string
			for _, h := range all {
				ids = append(ids, string(*h.SelfShard))
			}
			if len(ids) != 9 {
				t.Fatalf("%d shards, want 9", len(ids))
			}
			if slices.IsSorted(ids) != byID {
				t.Errorf("order of ids: %v", ids)
			}
			if !byID && all[0].FatherShard != nil {
				t.Errorf("the first shard has a parent")
			}
			in := &ots.DescribeStreamRequest{StreamId: c.streamID(tab), InclusiveStartShardId: all[3].SelfShard, ShardLimit: new(int32(1))}
			out, err := c.DescribeStream(in)
			if err != nil || len(out.Shards) != 1 || *out.Shards[0].SelfShard != *all[3].SelfShard || *out.NextShardId != *all[4].SelfShard {
				t.Errorf("one shard: %+v, %v", out, err)
			}
			if out.ExpirationTime != 24 || *out.TableName != tab || out.Status != ots.SS_Active || out.CreationTime != epochMS*1000 {
				t.Errorf("stream: %+v", out)
			}
			in.ShardLimit = new(int32(0))
			_, err = c.DescribeStream(in)
			wantCode(t, "limit zero", err, "OTSParameterInvalid")
			in.ShardLimit, in.InclusiveStartShardId = nil, new(ots.ShardId("none"))
			_, err = c.DescribeStream(in)
			wantCode(t, "unknown shard", err, "OTSObjectNotExist")
		})
	}
}

// Both readings of what is not known about the service.
func TestUnknownStreamsAndIterators(t *testing.T) {
	for _, want := range []string{"OTSObjectNotExist", "OTSParameterInvalid", "OTSTrimmedDataAccess"} {
		synctest.Test(t, func(t *testing.T) {
			_, c := start(t, tablestore.Config{UnknownStream: want, UnknownIterator: want})
			c.makeTable(tab, stringKey, 24)
			_, err := c.DescribeStream(&ots.DescribeStreamRequest{StreamId: new(ots.StreamId("none"))})
			wantCode(t, "stream", err, want)
			_, err = c.GetShardIterator(&ots.GetShardIteratorRequest{StreamId: c.streamID(tab), ShardId: new(ots.ShardId("none"))})
			wantCode(t, "shard", err, want)
			_, err = c.read(new(ots.ShardIterator("garbage")), 0)
			wantCode(t, "iterator", err, want)
			if want == "OTSTrimmedDataAccess" {
				if e, ok := errors.AsType[*ots.OtsError](err); !ok || e.HttpStatusCode != 404 || e.Message != "Requested stream data is already trimmed or does not exist." {
					t.Errorf("%+v", err)
				}
			}
			_, err = c.ListStream(&ots.ListStreamRequest{TableName: new("none")})
			wantCode(t, "streams of an unknown table", err, "OTSObjectNotExist")
		})
	}
}

func TestFormerColumns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := start(t, tablestore.Config{})
		c.makeTable(tab, stringKey, 24, "b", "a")
		c.mustPut(tab, pk("k"), cols{"a": int64(1)})
		if err := c.update(tab, pk("k"), nil, func(ch *ots.UpdateRowChange) { ch.PutColumn("b", int64(2)); ch.PutColumn("c", int64(3)) }); err != nil {
			t.Fatal(err)
		}
		if err := c.update(tab, pk("k"), nil, func(ch *ots.UpdateRowChange) { ch.DeleteColumn("a") }); err != nil {
			t.Fatal(err)
		}
		if err := c.delete(tab, pk("k"), nil); err != nil {
			t.Fatal(err)
		}
		if err := c.delete(tab, pk("k"), nil); err != nil {
			t.Fatal(err)
		}
		records, _ := c.drain(tab, *c.shards(tab)[0].SelfShard)
		wantTexts(t, "records", records, `"PutRow" k a=1`, `"UpdateRow" k b=2 c=3 was a=1`, `"UpdateRow" k -a was a=1 was b=2`, `"DeleteRow" k was b=2`, `"DeleteRow" k`)
		c.mustPut(tab, pk("l"), cols{"c": int64(1)})
		c.mustPut(tab, pk("l"), cols{"c": int64(2)})
		records, _ = c.drain(tab, *c.shards(tab)[0].SelfShard)
		for _, i := range []int{0, 4, 5, 6} {
			if records[i].OriginColumns != nil {
				t.Errorf("record %d, %s, has former columns", i, show(records[i]))
			}
		}
	})
}
