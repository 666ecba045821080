package tablestore_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	ots "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/shardwarden/shardwarden/emulator/tablestore"
)

func put(table string, k *ots.PrimaryKey, e ots.RowExistenceExpectation) *ots.PutRowChange {
	ch := &ots.PutRowChange{TableName: table, PrimaryKey: k}
	ch.SetCondition(e)
	ch.AddColumn("n", int64(1))
	return ch
}

// batch writes rows of one table and gives the codes of the answers, "" for done, in the order of the rows.
func (c *client) batch(table string, changes ...ots.RowChange) (string, error) {
	in := &ots.BatchWriteRowRequest{}
	for _, ch := range changes {
		in.AddRowChange(ch)
	}
	out, err := c.BatchWriteRow(in)
	if err != nil {
		return "", err
	}
	codes := make([]string, len(changes))
	for _, r := range out.TableToRowsResult[table] {
		if r.IsSucceed {
			codes[r.Index] = "ok"
		} else {
			codes[r.Index] = r.Error.Code
		}
	}
	return strings.Join(codes, " "), nil
}

func TestBatchWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := start(t, tablestore.Config{})
		c.makeTable(tab, stringKey, 24)
		c.mustPut(tab, pk("a"), nil)
		upd := &ots.UpdateRowChange{TableName: tab, PrimaryKey: pk("u")}
		upd.SetCondition(ignore)
		upd.PutColumn("n", int64(2))
		del := &ots.DeleteRowChange{TableName: tab, PrimaryKey: pk("a")}
		del.SetCondition(exists)
		got, err := c.batch(tab, put(tab, pk("a"), ignore), put(tab, pk("b"), notExist), put(tab, pk("b2"), exists), upd, put(tab, pk(int64(1)), ignore))
		if err != nil || got != "ok ok OTSConditionCheckFail ok OTSInvalidPK" {
			t.Errorf("%q, %v", got, err)
		}
		if got, err := c.batch(tab, del); err != nil || got != "ok" {
			t.Errorf("delete: %q, %v", got, err)
		}
		if got, err := c.batch("none", put("none", pk("a"), ignore)); err != nil || got != "OTSObjectNotExist" {
			t.Errorf("no such table: %q, %v", got, err)
		}
		records, _ := c.drain(tab, *c.shards(tab)[0].SelfShard)
		wantTexts(t, "stream", records, `"PutRow" a`, `"PutRow" a n=1`, `"PutRow" b n=1`, `"UpdateRow" u n=2`, `"DeleteRow" a`)

		got, err = c.batch(tab, put(tab, pk("d"), ignore), put(tab, pk("d"), ignore))
		if err != nil || got != "ok ok" {
			t.Errorf("one row twice without conditions: %q, %v", got, err)
		}
		_, err = c.batch(tab, put(tab, pk("d"), ignore), put(tab, pk("d"), exists))
		wantCode(t, "one row twice with a condition", err, "OTSParameterInvalid")
		var many []ots.RowChange
		for i := range 201 {
			many = append(many, put(tab, pk(fmt.Sprint("m", i)), ignore))
		}
		_, err = c.batch(tab, many...)
		wantCode(t, "201 rows", err, "OTSParameterInvalid")
		if _, err = c.batch(tab, many[:200]...); err != nil {
			t.Errorf("200 rows: %v", err)
		}
		atomic := &ots.BatchWriteRowRequest{IsAtomic: true}
		atomic.AddRowChange(put(tab, pk("d"), ignore))
		_, err = c.BatchWriteRow(atomic)
		wantCode(t, "atomic", err, "OTSParameterInvalid")
	})
}

func TestBatchGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := start(t, tablestore.Config{})
		c.makeTable(tab, stringKey, 0)
		c.mustPut(tab, pk("a"), cols{"n": int64(1)})
		c.mustPut(tab, pk("c"), cols{"n": int64(3)})
		get := func(table string, keys ...string) (out []string, err error) {
			q := &ots.MultiRowQueryCriteria{TableName: table, MaxVersion: 1}
			for _, k := range keys {
				q.AddRow(pk(k))
			}
			resp, err := c.BatchGetRow(&ots.BatchGetRowRequest{MultiRowQueryCriteria: []*ots.MultiRowQueryCriteria{q}})
			if err != nil {
				return nil, err
			}
			for _, r := range resp.TableToRowsResult[table] {
				switch {
				case !r.IsSucceed:
					out = append(out, r.Error.Code)
				case len(r.Columns) == 0:
					out = append(out, "none")
				default:
					out = append(out, fmt.Sprint(r.Columns[0].Value))
				}
			}
			return out, nil
		}
		if got, err := get(tab, "a", "b", "c"); err != nil || strings.Join(got, " ") != "1 none 3" {
			t.Errorf("%q, %v", got, err)
		}
		if got, err := get("none", "a"); err != nil || strings.Join(got, " ") != "OTSObjectNotExist" {
			t.Errorf("no such table: %q, %v", got, err)
		}
		if err := s.SetFault(tablestore.Fault{Kind: tablestore.FailRows, Key: "a", Code: "OTSNotEnoughCapacityUnit"}); err != nil {
			t.Fatal(err)
		}
		if got, err := get(tab, "a", "b", "c"); err != nil || strings.Join(got, " ") != "OTSNotEnoughCapacityUnit none 3" {
			t.Errorf("with a fault: %q, %v", got, err)
		}
		_, err := get(tab, make([]string, 101)...)
		wantCode(t, "101 rows", err, "OTSParameterInvalid")
	})
}
