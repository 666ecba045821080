package tablestore_test

import (
	"testing"
	"testing/synctest"

	ots "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/shardwarden/shardwarden/emulator/tablestore"
)

// single makes a condition; flags are "missing fails" and "latest only".
func single(name string, op ots.ComparatorType, v any, flags ...bool) *ots.SingleColumnCondition {
	c := ots.NewSingleColumnCondition(name, op, v)
	c.FilterIfMissing, c.LatestVersionOnly = true, true
	if len(flags) > 0 {
		c.FilterIfMissing = flags[0]
	}
	if len(flags) > 1 {
		c.LatestVersionOnly = flags[1]
	}
	return c
}

func both(op ots.LogicalOperator, fs ...ots.ColumnFilter) ots.ColumnFilter {
	c := ots.NewCompositeColumnCondition(op)
	for _, f := range fs {
		c.AddFilter(f)
	}
	return c
}

func TestConditions(t *testing.T) {
	_, c := start(t, tablestore.Config{})
	c.makeTable(tab, stringKey, 0)
	const refused = "OTSConditionCheckFail"
	row := cols{"n": int64(10), "s": "b", "f": 1.5, "b": true, "x": []byte{1, 2}}
	n := func(op ots.ComparatorType, v int64) ots.ColumnFilter { return single("n", op, v) }
	for _, tt := range []struct {
		name   string
		key    string // "row" is there, "none" is not
		exist  ots.RowExistenceExpectation
		filter ots.ColumnFilter
		want   string
	}{
		{"no condition, row", "row", ignore, nil, ""},
		{"no condition, no row", "none", ignore, nil, ""},
		{"must exist, row", "row", exists, nil, ""},
		{"must exist, no row", "none", exists, nil, refused},
		{"must not exist, row", "row", notExist, nil, refused},
		{"must not exist, no row", "none", notExist, nil, ""},

		{"equal", "row", ignore, n(ots.CT_EQUAL, 10), ""},
		{"equal, other", "row", ignore, n(ots.CT_EQUAL, 9), refused},
		{"numbers are not compared as text", "row", ignore, n(ots.CT_GREATER_THAN, 9), ""},
		{"not equal", "row", ignore, n(ots.CT_NOT_EQUAL, 9), ""},
		{"not equal, same", "row", ignore, n(ots.CT_NOT_EQUAL, 10), refused},
		{"greater, same", "row", ignore, n(ots.CT_GREATER_THAN, 10), refused},
		{"greater or equal, same", "row", ignore, n(ots.CT_GREATER_EQUAL, 10), ""},
		{"less", "row", ignore, n(ots.CT_LESS_THAN, 11), ""},
		{"less, same", "row", ignore, n(ots.CT_LESS_THAN, 10), refused},
		{"less or equal, same", "row", ignore, n(ots.CT_LESS_EQUAL, 10), ""},
		{"less or equal, smaller", "row", ignore, n(ots.CT_LESS_EQUAL, 9), refused},
		{"string", "row", ignore, single("s", ots.CT_GREATER_THAN, "a"), ""},
		{"double", "row", ignore, single("f", ots.CT_EQUAL, 1.5), ""},
		{"boolean", "row", ignore, single("b", ots.CT_EQUAL, false), refused},
		{"binary", "row", ignore, single("x", ots.CT_EQUAL, []byte{1, 2}), ""},
		{"another type is not equal", "row", ignore, single("n", ots.CT_EQUAL, "10"), refused},
		{"another type is unequal", "row", ignore, single("n", ots.CT_NOT_EQUAL, "10"), ""},
		{"another type is not less", "row", ignore, single("n", ots.CT_LESS_THAN, "99"), refused},

		{"missing column fails", "row", ignore, single("none", ots.CT_EQUAL, ""), refused},
		{"missing column passes if asked", "row", ignore, single("none", ots.CT_EQUAL, "", false), ""},
		{"missing column fails even unequal", "row", ignore, single("none", ots.CT_NOT_EQUAL, ""), refused},
		{"missing row is missing columns", "none", ignore, single("n", ots.CT_EQUAL, int64(10)), refused},
		{"missing row passes if asked", "none", ignore, single("n", ots.CT_EQUAL, int64(10), false), ""},
		{"existence comes first", "none", exists, single("n", ots.CT_EQUAL, int64(10), false), refused},

		{"and", "row", exists, both(ots.LO_AND, n(ots.CT_EQUAL, 10), single("s", ots.CT_EQUAL, "b")), ""},
		{"and, one wrong", "row", exists, both(ots.LO_AND, n(ots.CT_EQUAL, 10), single("s", ots.CT_EQUAL, "c")), refused},
		{"or, one wrong", "row", exists, both(ots.LO_OR, n(ots.CT_EQUAL, 9), single("s", ots.CT_EQUAL, "b")), ""},
		{"or, both wrong", "row", exists, both(ots.LO_OR, n(ots.CT_EQUAL, 9), single("s", ots.CT_EQUAL, "c")), refused},
		{"not", "row", exists, both(ots.LO_NOT, n(ots.CT_EQUAL, 9)), ""},
		{"not, right", "row", exists, both(ots.LO_NOT, n(ots.CT_EQUAL, 10)), refused},
		{"nested", "row", exists, both(ots.LO_AND, n(ots.CT_EQUAL, 10), both(ots.LO_NOT, single("s", ots.CT_EQUAL, "c"))), ""},
		{"and of three", "row", exists, both(ots.LO_AND, n(ots.CT_EQUAL, 10), n(ots.CT_EQUAL, 10), n(ots.CT_EQUAL, 10)), "OTSParameterInvalid"},
		{"not of two", "row", exists, both(ots.LO_NOT, n(ots.CT_EQUAL, 9), n(ots.CT_EQUAL, 9)), "OTSParameterInvalid"},
		{"and of one", "row", exists, both(ots.LO_AND, n(ots.CT_EQUAL, 10)), "OTSParameterInvalid"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cond := condition(tt.exist, tt.filter)
			for _, write := range []struct {
				name string
				run  func() error
			}{
				{"PutRow", func() error { return c.put(tab, pk(tt.key), cols{"put": true}, cond) }},
				{"UpdateRow", func() error {
					return c.update(tab, pk(tt.key), cond, func(ch *ots.UpdateRowChange) { ch.PutColumn("put", true) })
				}},
				{"DeleteRow", func() error { return c.delete(tab, pk(tt.key), cond) }},
			} {
				if err := c.delete(tab, pk("none"), nil); err != nil {
					t.Fatal(err)
				}
				c.mustPut(tab, pk("row"), row)
				before := c.get(tab, pk(tt.key))
				wantCode(t, write.name, write.run(), tt.want)
				after := c.get(tab, pk(tt.key))
				if changed := (after["put"] == true) || (after == nil) != (before == nil); changed && tt.want != "" {
					t.Errorf("%s was refused, but the row is %v", write.name, after)
				} else if done := write.name == "DeleteRow" && after == nil || after["put"] == true; !done && tt.want == "" {
					t.Errorf("%s was not carried out: the row is %v", write.name, after)
				}
			}
		})
	}
}

func TestConditionOnVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := start(t, tablestore.Config{})
		c.makeTable(tab, stringKey, 0)
		if _, err := c.UpdateTable(&ots.UpdateTableRequest{TableName: tab, TableOption: &ots.TableOption{TimeToAlive: -1, MaxVersion: 3}}); err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			err := c.update(tab, pk("a"), nil, func(ch *ots.UpdateRowChange) { ch.PutColumnWithTimestamp("n", int64(i), nowMS()+int64(i)) })
			if err != nil {
				t.Fatal(err)
			}
		}
		put := func(f ots.ColumnFilter) error {
			return c.update(tab, pk("a"), condition(exists, f), func(ch *ots.UpdateRowChange) { ch.PutColumn("seen", true) })
		}
		wantCode(t, "older version, latest only", put(single("n", ots.CT_EQUAL, int64(0), true, true)), "OTSConditionCheckFail")
		wantCode(t, "older version, any", put(single("n", ots.CT_EQUAL, int64(0), true, false)), "")
		wantCode(t, "latest version", put(single("n", ots.CT_EQUAL, int64(1), true, true)), "")
	})
}

func TestTooManyConditions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := start(t, tablestore.Config{})
		c.makeTable(tab, stringKey, 0)
		c.mustPut(tab, pk("a"), cols{"n": int64(1)})
		nest := func(n int) ots.ColumnFilter {
			f := ots.ColumnFilter(single("n", ots.CT_EQUAL, int64(1)))
			for range n {
				f = both(ots.LO_NOT, f)
			}
			return f
		}
		wantCode(t, "32", c.put(tab, pk("a"), cols{"n": int64(1)}, condition(exists, nest(30))), "")
		wantCode(t, "33", c.put(tab, pk("a"), cols{"n": int64(1)}, condition(exists, nest(32))), "OTSParameterInvalid")
	})
}
