package tablestore_test

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ots "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/shardwarden/shardwarden/emulator/tablestore"
)

func nowMS() int64 { return time.Now().UnixMilli() }

func TestValuesOfAllTypes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := start(t, tablestore.Config{})
		c.makeTable(tab, []keySpec{
			{"id", ots.PrimaryKeyType_STRING, false}, {"sub", ots.PrimaryKeyType_INTEGER, false}, {"third", ots.PrimaryKeyType_BINARY, false},
		}, 24)
		want := cols{
			"int": int64(math.MinInt64), "double": 0.1, "inf": math.Inf(1), "-inf": math.Inf(-1), "true": true, "false": false,
			"string": "ä\x00\n", "empty": "", "binary": []byte{0, 255}, "empty binary": []byte{}, "large": bytes.Repeat([]byte{7}, 2<<20),
		}
		k := pk("k", int64(-5), []byte{0xff, 0})
		c.mustPut(tab, k, want)
		if got := c.get(tab, k); !reflect.DeepEqual(got, want) {
			t.Errorf("row is %v", got)
		}
		records, _ := c.drain(tab, *c.shards(tab)[0].SelfShard)
		got := cols{}
		for _, col := range records[0].Columns {
			got[*col.Name] = col.Value
			if *col.Timestamp != nowMS() {
				t.Errorf("column %s in the stream is of %d, want %d", *col.Name, *col.Timestamp, nowMS())
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("record has %d columns that differ", len(got))
		}
		if k := records[0].PrimaryKey.PrimaryKeys; k[0].Value != "k" || k[1].Value != int64(-5) || !bytes.Equal(k[2].Value.([]byte), []byte{0xff, 0}) {
			t.Errorf("key of the record: %v %v %v", k[0].Value, k[1].Value, k[2].Value)
		}
		if err := c.update(tab, k, nil, func(ch *ots.UpdateRowChange) { ch.PutColumn("nan", math.NaN()) }); err != nil {
			t.Fatal(err)
		}
		if f, ok := c.get(tab, k)["nan"].(float64); !ok || !math.IsNaN(f) {
			t.Error("NaN is lost")
		}
	})
}

func TestPutReplacesUpdateMerges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := start(t, tablestore.Config{})
		c.makeTable(tab, stringKey, 0)
		c.mustPut(tab, pk("a"), cols{"x": int64(1), "y": int64(1)})
		if err := c.update(tab, pk("a"), nil, func(ch *ots.UpdateRowChange) { ch.PutColumn("x", int64(2)); ch.DeleteColumn("none") }); err != nil {
			t.Fatal(err)
		}
		if got := c.get(tab, pk("a")); !reflect.DeepEqual(got, cols{"x": int64(2), "y": int64(1)}) {
			t.Errorf("after UpdateRow: %v", got)
		}
		c.mustPut(tab, pk("a"), cols{"z": int64(3)})
		if got := c.get(tab, pk("a")); !reflect.DeepEqual(got, cols{"z": int64(3)}) {
			t.Errorf("after PutRow: %v", got)
		}
		c.mustPut(tab, pk("bare"), nil)
		if got := c.get(tab, pk("bare")); got == nil || len(got) != 0 {
			t.Errorf("row without columns: %v", got)
		}
		if err := c.update(tab, pk("new"), nil, func(ch *ots.UpdateRowChange) { ch.DeleteColumn("x") }); err != nil {
			t.Fatal(err)
		}
		if got := c.get(tab, pk("new")); got != nil {
			t.Errorf("an update that only deletes made a row: %v", got)
		}
		if err := c.update(tab, pk("bare"), nil, func(ch *ots.UpdateRowChange) { ch.DeleteColumn("x") }); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := c.delete(tab, pk("bare"), nil); err != nil {
				t.Fatal(err)
			}
		}
		if got := c.get(tab, pk("bare")); got != nil {
			t.Errorf("after DeleteRow: %v", got)
		}
	})
}

// versionsOf gives a column's versions as time -> value, by GetRow with a time range in milliseconds from the start.
func (c *client) versionsOf(k *ots.PrimaryKey, max int, r *ots.TimeRange) (out []string) {
	c.t.Helper()
	q := &ots.SingleRowQueryCriteria{TableName: tab, PrimaryKey: k, MaxVersion: int32(max), TimeRange: r}
	got, err := c.GetRow(&ots.GetRowRequest{SingleRowQueryCriteria: q})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, col := range got.Columns {
		out = append(out, fmt.Sprintf("%s=%v@%d", col.ColumnName, col.Value, col.Timestamp-epochMS))
	}
	return out
}

// epochMS is when a bubble's clock starts.
const epochMS = 946684800000

func TestVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := start(t, tablestore.Config{})
		c.makeTable(tab, stringKey, 0)
		options := func(ttl, versions int) {
			t.Helper()
			if _, err := c.UpdateTable(&ots.UpdateTableRequest{TableName: tab, TableOption: &ots.TableOption{TimeToAlive: ttl, MaxVersion: versions}}); err != nil {
				t.Fatal(err)
			}
		}
		options(-1, 3)
		k := pk("a")
		put := func(ms int64) error {
			return c.update(tab, k, nil, func(ch *ots.UpdateRowChange) { ch.PutColumnWithTimestamp("n", ms, epochMS+ms) })
		}
		for _, ms := range []int64{20, 10, 30, 40} {
			wantCode(t, "put", put(ms), "")
		}
		want := func(what string, got []string, want string) {
			t.Helper()
			if strings.Join(got, " ") != want {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		want("newest first, three kept", c.versionsOf(k, 9, nil), "n=40@40 n=30@30 n=20@20")
		want("max versions", c.versionsOf(k, 2, nil), "n=40@40 n=30@30")
		want("range", c.versionsOf(k, 0, &ots.TimeRange{Start: epochMS + 20, End: epochMS + 40}), "n=30@30 n=20@20")
		want("one time", c.versionsOf(k, 0, &ots.TimeRange{Specific: epochMS + 30}), "n=30@30")
		wantCode(t, "delete one", c.update(tab, k, nil, func(ch *ots.UpdateRowChange) { ch.DeleteColumnWithTimestamp("n", epochMS+30) }), "")
		want("one version gone", c.versionsOf(k, 9, nil), "n=40@40 n=20@20")
		options(-1, 1)
		want("fewer are kept from now on", c.versionsOf(k, 9, nil), "n=40@40")

		wantCode(t, "too far in the future", put(86400_001), "OTSParameterInvalid")
		wantCode(t, "too far in the past", put(-86400_001), "OTSParameterInvalid")
		wantCode(t, "a day back", put(-86400_000), "")

		options(86400, 1)
		time.Sleep(24*time.Hour + 40*time.Millisecond)
		want("as old as time to live", c.versionsOf(k, 9, nil), "n=40@40")
		time.Sleep(time.Millisecond)
		if got := c.get(tab, k); got != nil {
			t.Errorf("row outlived its time: %v", got)
		}
		wantCode(t, "it can be made anew", c.put(tab, k, cols{"n": int64(1)}, condition(notExist, nil)), "")
	})
}

// What outlives its time to live leaves no record, and a row without columns goes by the age of its last put.
func TestTimeToLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := start(t, tablestore.Config{})
		c.makeTable(tab, stringKey, 168)
		if _, err := c.UpdateTable(&ots.UpdateTableRequest{TableName: tab, TableOption: &ots.TableOption{TimeToAlive: 86400, MaxVersion: 1}}); err != nil {
			t.Fatal(err)
		}
		c.mustPut(tab, pk("bare"), nil)
		c.mustPut(tab, pk("old"), cols{"x": true})
		time.Sleep(12 * time.Hour)
		c.mustPut(tab, pk("late"), cols{"x": true})
		if err := c.update(tab, pk("old"), nil, func(ch *ots.UpdateRowChange) { ch.PutColumn("y", true) }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(12*time.Hour + time.Millisecond)
		if got := c.get(tab, pk("bare")); got != nil {
			t.Errorf("a row without columns outlived its time: %v", got)
		}
		if got := c.get(tab, pk("old")); !reflect.DeepEqual(got, cols{"y": true}) {
			t.Errorf("row with an old and a newer column: %v", got)
		}
		time.Sleep(12 * time.Hour)
		if rows, err := s.Rows(inst, tab); err != nil || len(rows) != 0 {
			t.Errorf("rows %v, %v", rows, err)
		}
		if got, err := c.scan(ots.RangeRowQueryCriteria{StartPrimaryKey: bound("-"), EndPrimaryKey: bound("+")}); err != nil || got != "" {
			t.Errorf("range %q, %v", got, err)
		}
		records, _ := c.drain(tab, *c.shards(tab)[0].SelfShard)
		wantTexts(t, "stream", records, `"PutRow" bare`, `"PutRow" old x=true`, `"PutRow" late x=true`, `"UpdateRow" old y=true`)
	})
}

func TestIncrement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := start(t, tablestore.Config{})
		c.makeTable(tab, stringKey, 24)
		inc := func(name string, by int64) (*ots.UpdateRowResponse, error) {
			ch := &ots.UpdateRowChange{TableName: tab, PrimaryKey: pk("a")}
			ch.SetCondition(ignore)
			ch.IncrementColumn(name, by)
			ch.SetReturnIncrementValue()
			ch.AppendIncrementColumnToReturn(name)
			return c.UpdateRow(&ots.UpdateRowRequest{UpdateRowChange: ch})
		}
		for _, want := range []int64{5, 10} {
			out, err := inc("n", 5)
			if err != nil {
				t.Fatal(err)
			}
			if len(out.Columns) != 1 || out.Columns[0].Value != want {
				t.Errorf("incremented to %+v, want %d", out.Columns, want)
			}
		}
		c.mustPut(tab, pk("a"), cols{"s": "text", "max": int64(math.MaxInt64)})
		_, err := inc("s", 1)
		wantCode(t, "increment of a string", err, "OTSParameterInvalid")
		_, err = inc("max", 1)
		wantCode(t, "overflow", err, "OTSParameterInvalid")
		records, _ := c.drain(tab, *c.shards(tab)[0].SelfShard)
		wantTexts(t, "stream", records[:2], `"UpdateRow" a n=5`, `"UpdateRow" a n=10`)
		if len(records) != 3 {
			t.Errorf("refused writes are in the stream: %q", texts(records))
		}
	})
}

func TestAutoIncrement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := start(t, tablestore.Config{})
		c.makeTable(tab, []keySpec{{"id", ots.PrimaryKeyType_STRING, false}, {"sub", ots.PrimaryKeyType_INTEGER, true}}, 24)
		put := func(e ots.RowExistenceExpectation) (int64, error) {
			ch := &ots.PutRowChange{TableName: tab, PrimaryKey: new(ots.PrimaryKey)}
			ch.PrimaryKey.AddPrimaryKeyColumn("id", "a")
			ch.PrimaryKey.AddPrimaryKeyColumnWithAutoIncrement("sub")
			ch.AddColumn("c", "v")
			ch.SetCondition(e)
			ch.SetReturnPk()
			out, err := c.PutRow(&ots.PutRowRequest{PutRowChange: ch})
			if err != nil {
				return 0, err
			}
			return out.PrimaryKey.PrimaryKeys[1].Value.(int64), nil
		}
		var last int64
		for range 3 {
			n, err := put(ignore)
			if err != nil || n <= last {
				t.Fatalf("key %d after %d, %v", n, last, err)
			}
			last = n
		}
		if got := c.get(tab, pk("a", last)); got["c"] != "v" {
			t.Errorf("row under the returned key: %v", got)
		}
		_, err := put(notExist)
		wantCode(t, "with a row condition", err, "OTSParameterInvalid")
		wantCode(t, "a chosen value", c.put(tab, pk("a", int64(7)), nil, nil), "OTSInvalidPK")
		wantCode(t, "update by value", c.update(tab, pk("a", last), condition(exists, nil), func(ch *ots.UpdateRowChange) { ch.PutColumn("c", "w") }), "")
		records, _ := c.drain(tab, *c.shards(tab)[0].SelfShard)
		wantTexts(t, "last record", records[3:], fmt.Sprintf(`"UpdateRow" a %d c=w`, last))
	})
}

func TestRefusedWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := start(t, tablestore.Config{})
		c.makeTable(tab, stringKey, 24)
		many := cols{}
		for i := range 1025 {
			many[fmt.Sprint("c", i)] = true
		}
		other := new(ots.PrimaryKey)
		other.AddPrimaryKeyColumn("key", "a")
		for _, tt := range []struct {
			name string
			key  *ots.PrimaryKey
			cols cols
			want string
		}{
			{"no such table", nil, nil, "OTSObjectNotExist"},
			{"two columns of a key", pk("a", "b"), nil, "OTSInvalidPK"},
			{"type of the key", pk(int64(1)), nil, "OTSInvalidPK"},
			{"name of the key", other, nil, "OTSInvalidPK"},
			{"key too long", pk(strings.Repeat("k", 1025)), nil, "OTSParameterInvalid"},
			{"longest key", pk(strings.Repeat("k", 1024)), nil, ""},
			{"1025 columns", pk("a"), many, "OTSOutOfColumnCountLimit"},
			{"value too large", pk("a"), cols{"x": strings.Repeat("x", 2<<20+1)}, "OTSParameterInvalid"},
			{"name too long", pk("a"), cols{strings.Repeat("n", 256): true}, "OTSParameterInvalid"},
			{"no name", pk("a"), cols{"": true}, "OTSParameterInvalid"},
			{"key as column", pk("a"), cols{"id": "b"}, "OTSParameterInvalid"},
		} {
			name := tab
			if tt.key == nil {
				name, tt.key = "other", pk("a")
			}
			wantCode(t, tt.name, c.put(name, tt.key, tt.cols, nil), tt.want)
		}
		delete(many, "c0")
		wantCode(t, "1024 columns", c.put(tab, pk("a"), many, nil), "")
		wantCode(t, "empty update", c.update(tab, pk("a"), nil, func(*ots.UpdateRowChange) {}), "OTSParameterInvalid")
		records, _ := c.drain(tab, *c.shards(tab)[0].SelfShard)
		if len(records) != 2 {
			t.Errorf("%d records, want those of the two writes that were carried out", len(records))
		}
	})
}

// A row is what its writes made of it, whoever reads it later: nothing is shared with requests or answers.
func TestDump(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := start(t, tablestore.Config{})
		c.makeTable(tab, stringKey, 0)
		c.mustPut(tab, pk("b"), cols{"n": int64(1), "a": []byte{1}})
		c.mustPut(tab, pk("a"), nil)
		rows, err := s.Rows(inst, tab)
		want := []tablestore.Row{
			{PrimaryKey: []tablestore.Column{{Name: "id", Value: "a"}}},
			{PrimaryKey: []tablestore.Column{{Name: "id", Value: "b"}}, Columns: []tablestore.Column{
				{Name: "a", Value: []byte{1}, Timestamp: epochMS}, {Name: "n", Value: int64(1), Timestamp: epochMS},
			}},
		}
		if err != nil || !reflect.DeepEqual(rows, want) {
			t.Errorf("%+v, %v, want %+v", rows, err, want)
		}
		rows[1].Columns[0].Value.([]byte)[0] = 9
		if got := c.get(tab, pk("b"))["a"]; !bytes.Equal(got.([]byte), []byte{1}) {
			t.Error("the dump is not the caller's own")
		}
		if _, err := s.Rows(inst, "none"); err == nil {
			t.Error("a table that is not there was dumped")
		}
	})
}
