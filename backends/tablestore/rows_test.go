package tablestore

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	sdk "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/tablestore"
)

// What the vendor's SDK writes comes out as it was written: keys of every type, values of every type, and the three sorts of delete.
func TestEverySortOfRow(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		meta := &sdk.TableMeta{TableName: table}
		meta.AddPrimaryKeyColumn("text", sdk.PrimaryKeyType_STRING)
		meta.AddPrimaryKeyColumn("binary", sdk.PrimaryKeyType_BINARY)
		meta.AddPrimaryKeyColumn("integer", sdk.PrimaryKeyType_INTEGER)
		meta.AddPrimaryKeyColumnOption("auto", sdk.PrimaryKeyType_INTEGER, sdk.AUTO_INCREMENT)
		option := sdk.NewTableOptionWithMaxVersion(3)
		option.TimeToAlive, option.DeviationCellVersionInSec = -1, math.MaxInt32
		_, err := r.admin.CreateTable(&sdk.CreateTableRequest{TableMeta: meta, TableOption: option, ReservedThroughput: &sdk.ReservedThroughput{},
			StreamSpec: &sdk.StreamSpecification{EnableStream: true, ExpirationTime: 24}})
		r.ok(err)
		key := func(auto any) *sdk.PrimaryKey {
			pk := &sdk.PrimaryKey{}
			pk.AddPrimaryKeyColumn("text", "ключ")
			pk.AddPrimaryKeyColumn("binary", []byte{0, 255})
			pk.AddPrimaryKeyColumn("integer", int64(math.MinInt64))
			if auto == nil {
				pk.AddPrimaryKeyColumnWithAutoIncrement("auto")
			} else {
				pk.AddPrimaryKeyColumn("auto", auto)
			}
			return pk
		}
		put := &sdk.PutRowChange{TableName: table, PrimaryKey: key(nil), ReturnType: sdk.ReturnType_RT_PK}
		want := map[string]any{
			"nan": math.NaN(), "inf": math.Inf(1), "-inf": math.Inf(-1), "zero": math.Copysign(0, -1), "max": int64(math.MaxInt64), "true": true, "empty": []byte{}, "no text": "",
			"large": bytes.Repeat([]byte{7}, 2<<20),
		}
		for i := range 1000 - len(want) {
			want[fmt.Sprint("column", i)] = int64(i)
		}
		for name, v := range want {
			put.AddColumn(name, v)
		}
		put.SetCondition(sdk.RowExistenceExpectation_IGNORE)
		out, err := r.admin.PutRow(&sdk.PutRowRequest{PutRowChange: put})
		r.ok(err)
		auto := out.PrimaryKey.PrimaryKeys[3].Value

		update := &sdk.UpdateRowChange{TableName: table, PrimaryKey: key(auto)}
		update.PutColumnWithTimestamp("max", int64(5), 1000)
		update.DeleteColumnWithTimestamp("true", 2000)
		update.DeleteColumn("nan")
		update.SetCondition(sdk.RowExistenceExpectation_EXPECT_EXIST)
		_, err = r.admin.UpdateRow(&sdk.UpdateRowRequest{UpdateRowChange: update})
		r.ok(err)
		del := &sdk.DeleteRowChange{TableName: table, PrimaryKey: key(auto)}
		del.SetCondition(sdk.RowExistenceExpectation_EXPECT_EXIST)
		_, err = r.admin.DeleteRow(&sdk.DeleteRowRequest{DeleteRowChange: del})
		r.ok(err)

		rd := r.open(r.source(), r.only(), core.FromHorizon)
		var got []*Change
		for len(got) < 3 {
			p := r.page(rd)
			for i := range p.Records {
				c, err := ParseChange(p.Records[i].Data)
				r.ok(err)
				if !equal(c, p.Records[i].Native.(*Change)) {
					t.Errorf("record %d differs from its JSON", i)
				}
				if want := fmt.Sprintf(`"ключ",0x00ff,-9223372036854775808,%d`, auto); p.Records[i].Key != want {
					t.Errorf("key %s, want %s", p.Records[i].Key, want)
				}
				got = append(got, c)
			}
		}
		if len(got[0].Columns) != 1000 || got[0].Type != Put {
			t.Fatalf("%v of %d columns, want a put of 1000", got[0].Type, len(got[0].Columns))
		}
		for name, v := range want {
			c, ok := got[0].Column(name)
			a, b := &Change{Columns: []Column{{Value: c.Value}}}, &Change{Columns: []Column{{Value: v}}}
			if !ok || c.Op != PutColumn || c.Timestamp == 0 || !equal(a, b) {
				t.Errorf("column %s is %.80v, want %.80v", name, c, v)
			}
		}
		for _, c := range []Column{{"max", PutColumn, int64(5), 1000}, {"true", DeleteVersion, nil, 2000}, {"nan", DeleteColumn, nil, 0}} {
			if have, _ := got[1].Column(c.Name); have != c {
				t.Errorf("updated column %+v, want %+v", have, c)
			}
		}
		if len(got[1].Columns) != 3 || got[1].Type != Update || got[2].Type != Delete || len(got[2].Columns) != 0 {
			t.Errorf("%v of %d columns and %v of %d", got[1].Type, len(got[1].Columns), got[2].Type, len(got[2].Columns))
		}
	})
}
