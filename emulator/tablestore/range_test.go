package tablestore_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	ots "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/shardwarden/shardwarden/emulator/tablestore"
)

// bound makes a key of a range: "-" and "+" are the ends of everything.
func bound(values ...any) *ots.PrimaryKey {
	names := []string{"id", "sub"}
	k := new(ots.PrimaryKey)
	for i, v := range values {
		switch v {
		case "-":
			k.AddPrimaryKeyColumnWithMinValue(names[i])
		case "+":
			k.AddPrimaryKeyColumnWithMaxValue(names[i])
		default:
			k.AddPrimaryKeyColumn(names[i], v)
		}
	}
	return k
}

// scan reads a range to its end and gives the keys, "|" between pages.
func (c *client) scan(in ots.RangeRowQueryCriteria) (string, error) {
	in.TableName = tab
	if in.MaxVersion == 0 {
		in.MaxVersion = 1
	}
	var pages []string
	for {
		out, err := c.GetRange(&ots.GetRangeRequest{RangeRowQueryCriteria: &in})
		if err != nil {
			return "", err
		}
		var keys []string
		for _, r := range out.Rows {
			var text strings.Builder
			for _, k := range r.PrimaryKey.PrimaryKeys {
				fmt.Fprint(&text, k.Value)
			}
			for _, col := range r.Columns {
				fmt.Fprintf(&text, ",%s=%v", col.ColumnName, col.Value)
			}
			keys = append(keys, text.String())
		}
		pages = append(pages, strings.Join(keys, " "))
		if out.NextStartPrimaryKey == nil {
			return strings.Join(pages, "|"), nil
		}
		in.StartPrimaryKey = out.NextStartPrimaryKey
	}
}

func TestRange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := start(t, tablestore.Config{PageRows: 3})
		c.makeTable(tab, []keySpec{{"id", ots.PrimaryKeyType_STRING, false}, {"sub", ots.PrimaryKeyType_INTEGER, false}}, 0)
		for i, k := range []string{"a", "a", "b", "b", "c"} {
			c.mustPut(tab, pk(k, int64(i)), nil)
		}
		for _, tt := range []struct {
			name     string
			from, to *ots.PrimaryKey
			backward bool
			limit    int32
			want     string
		}{
			{"all, in pages", bound("-", "-"), bound("+", "+"), false, 0, "a0 a1 b2|b3 c4"},
			{"all, backward", bound("+", "+"), bound("-", "-"), true, 0, "c4 b3 b2|a1 a0"},
			{"limit", bound("-", "-"), bound("+", "+"), false, 2, "a0 a1|b2 b3|c4"},
			{"one partition key", bound("b", "-"), bound("b", "+"), false, 0, "b2 b3"},
			{"start included, end not", bound("a", int64(1)), bound("b", int64(3)), false, 0, "a1 b2"},
			{"the same, backward", bound("b", int64(3)), bound("a", int64(1)), true, 0, "b3 b2"},
			{"backward from between", bound("b", int64(99)), bound("a", int64(0)), true, 0, "b3 b2 a1"},
			{"nothing there", bound("x", "-"), bound("y", "+"), false, 0, ""},
			{"empty range", bound("b", int64(2)), bound("b", int64(2)), false, 0, ""},
			{"limit ends exactly", bound("-", "-"), bound("b", int64(3)), false, 3, "a0 a1 b2"},
		} {
			in := ots.RangeRowQueryCriteria{StartPrimaryKey: tt.from, EndPrimaryKey: tt.to, Limit: tt.limit}
			if tt.backward {
				in.Direction = ots.BACKWARD
			}
			got, err := c.scan(in)
			if err != nil || got != tt.want {
				t.Errorf("%s: %q, %v, want %q", tt.name, got, err, tt.want)
			}
		}
		_, err := c.scan(ots.RangeRowQueryCriteria{StartPrimaryKey: bound("+", "+"), EndPrimaryKey: bound("-", "-")})
		wantCode(t, "wrong way round", err, "OTSParameterInvalid")
		_, err = c.scan(ots.RangeRowQueryCriteria{StartPrimaryKey: bound("-"), EndPrimaryKey: bound("+")})
		wantCode(t, "half a key", err, "OTSInvalidPK")
	})
}

func TestRangePageBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := start(t, tablestore.Config{PageBytes: 150})
		c.makeTable(tab, stringKey, 0)
		for i := range 4 {
			c.mustPut(tab, pk(fmt.Sprint(i)), cols{"x": make([]byte, 100)})
		}
		got, err := c.scan(ots.RangeRowQueryCriteria{StartPrimaryKey: bound("-"), EndPrimaryKey: bound("+"), ColumnsToGet: []string{"id"}})
		if err != nil || got != "0 1|2 3" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

func TestSelection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := start(t, tablestore.Config{})
		c.makeTable(tab, stringKey, 0)
		c.mustPut(tab, pk("1"), cols{"a": int64(1), "b": int64(1), "c": int64(1)})
		c.mustPut(tab, pk("2"), cols{"a": int64(2), "b": int64(2)})
		c.mustPut(tab, pk("3"), cols{"c": int64(3)})
		c.mustPut(tab, pk("4"), nil)
		for _, tt := range []struct {
			name string
			in   ots.RangeRowQueryCriteria
			want string
		}{
			{"all", ots.RangeRowQueryCriteria{}, "1,a=1,b=1,c=1 2,a=2,b=2 3,c=3 4"},
			{"columns", ots.RangeRowQueryCriteria{ColumnsToGet: []string{"c", "a"}}, "1,a=1,c=1 2,a=2 3,c=3"},
			{"rows without the column are left out", ots.RangeRowQueryCriteria{ColumnsToGet: []string{"c"}}, "1,c=1 3,c=3"},
			{"a column of the key keeps them", ots.RangeRowQueryCriteria{ColumnsToGet: []string{"id", "c"}}, "1,c=1 2 3,c=3 4"},
			{"from and to", ots.RangeRowQueryCriteria{StartColumn: new("b"), EndColumn: new("c")}, "1,b=1 2,b=2 3 4"},
			{"filter", ots.RangeRowQueryCriteria{Filter: single("a", ots.CT_GREATER_THAN, int64(1))}, "2,a=2,b=2"},
			{"filter on the key", ots.RangeRowQueryCriteria{Filter: single("id", ots.CT_GREATER_EQUAL, "3")}, "3,c=3 4"},
			{"filter sees only what was asked for", ots.RangeRowQueryCriteria{ColumnsToGet: []string{"b"}, Filter: single("a", ots.CT_EQUAL, int64(1))}, ""},
			{"pages of columns", ots.RangeRowQueryCriteria{Filter: &ots.PaginationFilter{Offset: 1, Limit: 1}}, "1,b=1 2,b=2 3 4"},
			{"limit counts what is given", ots.RangeRowQueryCriteria{Limit: 1, Filter: single("c", ots.CT_GREATER_THAN, int64(0))}, "1,a=1,b=1,c=1|3,c=3|"},
		} {
			tt.in.StartPrimaryKey, tt.in.EndPrimaryKey = bound("-"), bound("+")
			got, err := c.scan(tt.in)
			if err != nil || got != tt.want {
				t.Errorf("%s: %q, %v, want %q", tt.name, got, err, tt.want)
			}
		}
	})
}
