package tablestore_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ots "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/shardwarden/shardwarden/emulator/tablestore"
)

// ranges shows the partitions of a table.
func ranges(t *testing.T, s *tablestore.Server) string {
	t.Helper()
	parts, err := s.Partitions(inst, tab)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, p := range parts {
		out = append(out, fmt.Sprintf("%v..%v", p.From, p.To))
	}
	return strings.Join(out, " ")
}

func TestSplitAndMerge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := start(t, tablestore.Config{})
		c.makeTable(tab, []keySpec{{"id", ots.PrimaryKeyType_INTEGER, false}}, 24)
		if got := ranges(t, s); got != "<nil>..<nil>" {
			t.Errorf("at first: %s", got)
		}
		root := string(*c.shards(tab)[0].SelfShard)
		left, right, err := s.Split(inst, tab, 100)
		if err != nil {
			t.Fatal(err)
		}
		_, rightmost, err := s.Split(inst, tab, int64(200))
		if err != nil {
			t.Fatal(err)
		}
		if got := ranges(t, s); got != "<nil>..100 100..200 200..<nil>" {
			t.Errorf("after two splits: %s", got)
		}
		for _, n := range []int64{99, 100, 199, 200} {
			c.mustPut(tab, pk(n), nil)
		}
		parts, _ := s.Partitions(inst, tab)
		for i, want := range [][]string{{`"PutRow" 99`}, {`"PutRow" 100`, `"PutRow" 199`}, {`"PutRow" 200`}} {
			records, _ := c.drain(tab, ots.ShardId(parts[i].Shard))
			wantTexts(t, parts[i].Shard, records, want...)
		}
		if _, ended := c.drain(tab, ots.ShardId(right)); !ended {
			t.Error("a split shard is open")
		}
		for what, err := range map[string]error{
			"begins there already": second(s.Split(inst, tab, 100)), "type": second(s.Split(inst, tab, "x")), "nothing": second(s.Split(inst, tab, nil)),
			"no such table": second(s.Split(inst, "none", 1)), "closed shard": second(s.SplitShard(inst, tab, root)), "one value": second(s.SplitShard(inst, tab, left)),
			"not neighbours": merge(s, left, rightmost), "closed": merge(s, left, right), "itself": merge(s, left, left),
		} {
			if err == nil {
				t.Errorf("%s: no error", what)
			}
		}
		merged, err := s.Merge(inst, tab, parts[1].Shard, left) // from right to left
		if err != nil {
			t.Fatal(err)
		}
		if got := ranges(t, s); got != "<nil>..200 200..<nil>" {
			t.Errorf("after the merge: %s", got)
		}
		shards := c.shards(tab)
		last := shards[len(shards)-1]
		if string(*last.SelfShard) != merged || string(*last.FatherShard) != parts[1].Shard || string(*last.MotherShard) != left {
			t.Errorf("merged shard: %v", last)
		}
		if _, _, err := s.SplitShard(inst, tab, merged); err != nil {
			t.Fatal(err)
		}
		if got := ranges(t, s); got != "<nil>..100 100..200 200..<nil>" {
			t.Errorf("split in the middle of 99, 100, 199: %s", got)
		}
	})
}

func second(_, _ string, err error) error { return err }

func merge(s *tablestore.Server, a, b string) error {
	_, err := s.Merge(inst, tab, a, b)
	return err
}

func TestPartitionsWithoutStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := start(t, tablestore.Config{})
		c.makeTable(tab, stringKey, 0)
		if _, _, err := s.Split(inst, tab, "m"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.UpdateTable(&ots.UpdateTableRequest{TableName: tab, StreamSpec: &ots.StreamSpecification{EnableStream: true, ExpirationTime: 1}}); err != nil {
			t.Fatal(err)
		}
		shards := c.shards(tab)
		if len(shards) != 2 || shards[0].FatherShard != nil || shards[1].FatherShard != nil {
			t.Errorf("a stream on two partitions has shards %v", shards)
		}
	})
}

// A table rebuilt from its stream, parents before children, equals the table, whatever was written and however the
// partitions changed.
func TestStreamTellsTheTable(t *testing.T) {
	for seed := range uint64(6) {
		synctest.Test(t, func(t *testing.T) {
			s, c := start(t, tablestore.Config{Seed: seed, ShardsByID: seed%2 == 1})
			c.makeTable(tab, stringKey, 24)
			dice := rand.New(rand.NewPCG(seed, 1))
			key := func() string { return string(rune('a' + dice.IntN(20))) }
			for range 300 {
				k := pk(key())
				switch dice.IntN(12) {
				case 0:
					_, _, _ = s.Split(inst, tab, key()) // an error: there is a bound already
				case 1:
					if parts, _ := s.Partitions(inst, tab); len(parts) > 1 {
						i := dice.IntN(len(parts) - 1)
						if _, err := s.Merge(inst, tab, parts[i].Shard, parts[i+1].Shard); err != nil {
							t.Fatal(err)
						}
					}
				case 2:
					if err := c.delete(tab, k, nil); err != nil {
						t.Fatal(err)
					}
				case 3, 4, 5:
					c.mustPut(tab, k, cols{"x": dice.Int64N(9), "y": "text"})
				default:
					err := c.update(tab, k, nil, func(ch *ots.UpdateRowChange) {
						switch dice.IntN(4) {
						case 0:
							ch.DeleteColumn("x")
						case 1:
							ch.IncrementColumn("n", dice.Int64N(5))
						case 2:
							ch.DeleteColumnWithTimestamp("y", nowMS())
						default:
							ch.PutColumn("y", dice.Float64())
							ch.DeleteColumn("n")
						}
					})
					if err != nil && code(err) != "OTSParameterInvalid" {
						t.Fatal(err)
					}
				}
				if dice.IntN(3) == 0 {
					time.Sleep(time.Millisecond)
				}
			}
			if got, want := c.replica(), dump(t, s); !reflect.DeepEqual(got, want) {
				t.Errorf("seed %d: the stream tells %v, but the table is %v", seed, got, want)
			}
		})
	}
}

// replica builds the table from its stream.
func (c *client) replica() map[string]map[string]string {
	c.t.Helper()
	rows := map[string]map[string]string{}
	shards := c.shards(tab)
	done := map[ots.ShardId]bool{}
	for len(done) < len(shards) {
		for _, h := range shards {
			ready := func(id *ots.ShardId) bool { return id == nil || done[*id] }
			if done[*h.SelfShard] || !ready(h.FatherShard) || !ready(h.MotherShard) {
				continue
			}
			done[*h.SelfShard] = true
			records, _ := c.drain(tab, *h.SelfShard)
			for _, r := range records {
				k := r.PrimaryKey.PrimaryKeys[0].Value.(string)
				switch {
				case r.Type == ots.AT_Delete:
					delete(rows, k)
					continue
				case r.Type == ots.AT_Put:
					rows[k] = map[string]string{}
				}
				row := rows[k]
				for _, col := range r.Columns {
					at := row[*col.Name]
					switch {
					case col.Type == ots.RCT_Put:
						if row == nil { // an update of puts makes the row
							row = map[string]string{}
							rows[k] = row
						}
						row[*col.Name] = fmt.Sprintf("%v@%d", col.Value, *col.Timestamp)
					case col.Type == ots.RCT_DeleteAllVersions, strings.HasSuffix(at, fmt.Sprintf("@%d", *col.Timestamp)):
						delete(row, *col.Name)
					}
				}
			}
		}
	}
	return rows
}

func dump(t *testing.T, s *tablestore.Server) map[string]map[string]string {
	t.Helper()
	all, err := s.Rows(inst, tab)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]map[string]string{}
	for _, r := range all {
		row := map[string]string{}
		for _, col := range r.Columns {
			row[col.Name] = fmt.Sprintf("%v@%d", col.Value, col.Timestamp)
		}
		rows[r.PrimaryKey[0].Value.(string)] = row
	}
	return rows
}
