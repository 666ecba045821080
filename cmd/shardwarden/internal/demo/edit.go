package demo

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"reflect"

	"github.com/shardwarden/shardwarden/backends/tablestore"
)

// edit is what record id is on a stage of rows: one change of the row of its key.
type edit struct {
	kind    tablestore.ChangeType
	columns map[string]any // what is written; nil: the column is deleted
}

// The columns of a row. n numbers the changes of a key; the stream gives its former value too, so that deletions have a number.
const (
	keyBucket    = "bucket"
	keyID        = "id"
	columnNumber = "n"
	columnText   = "text"
)

var columnsBeside = []string{"weight", "open", "mark", "count"}

// buckets are the values of the first key column, by which rows are spread over partitions.
const buckets = 1 << 32

func bucket(key string) int64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key)) // never fails
	return int64(h.Sum32())
}

// editOf makes the change. About a fifth are deletions, a half updates of two or three columns, the rest write the row as a whole, as does each
// first change of a key and each behind a deletion.
func editOf(seed uint64, id recordID) edit {
	switch draw := drawOf(seed, id); {
	case deletes(seed, id):
		return edit{kind: tablestore.Delete}
	case id.n == 0 || draw >= 70 || deletes(seed, recordID{id.key, id.n - 1}):
		e := edit{tablestore.Put, named(seed, id)}
		for i, name := range columnsBeside {
			if i != draw%4 { // a row that was there loses it
				e.columns[name] = valueOf(name, seed, id)
			}
		}
		return e
	default:
		e := edit{tablestore.Update, named(seed, id)}
		e.columns[columnsBeside[draw%4]] = valueOf(columnsBeside[draw%4], seed, id)
		e.columns[columnsBeside[(draw+1)%4]] = nil
		return e
	}
}

// drawOf is a number below 100 that decides what a change is.
func drawOf(seed uint64, id recordID) int {
	return rand.New(rand.NewPCG(^seed, uint64(id.key)<<32|uint64(id.n))).IntN(100)
}

// deletes reports whether a change deletes its row. Two in a row never do.
func deletes(seed uint64, id recordID) bool {
	return id.n > 0 && drawOf(seed, id) < 20 && !deletes(seed, recordID{id.key, id.n - 1})
}

func named(seed uint64, id recordID) map[string]any {
	return map[string]any{columnNumber: int64(id.n), columnText: string(data(seed, id))}
}

func valueOf(column string, seed uint64, id recordID) any {
	dice := rand.New(rand.NewPCG(seed, ^(uint64(id.key)<<32 | uint64(id.n))))
	switch column {
	case "weight":
		return dice.Float64()
	case "open":
		return dice.IntN(2) == 0
	case "mark":
		return []byte{byte(dice.IntN(256)), byte(dice.IntN(256)), 0}
	}
	return dice.Int64()
}

// is reports whether a change of the stream is this edit, with nothing added and nothing left out.
func (e edit) is(c *tablestore.Change) bool {
	if c.Type != e.kind || len(c.Columns) != len(e.columns) {
		return false
	}
	for _, got := range c.Columns {
		want, ok := e.columns[got.Name]
		switch {
		case !ok:
			return false
		case want == nil && got.Op != tablestore.DeleteColumn, want != nil && (got.Op != tablestore.PutColumn || !reflect.DeepEqual(got.Value, want)):
			return false
		}
	}
	return true
}

// idOf reads off which change this is; false where it is none of a producer.
func idOf(c *tablestore.Change) (recordID, bool) {
	if len(c.Key) != 2 {
		return recordID{}, false
	}
	name, _ := c.Key[1].Value.(string)
	number, ok := numberIn(c.Columns, 0)
	if !ok {
		number, ok = numberIn(c.Old, 1)
	}
	key, known := keyNumber(name)
	return recordID{key, int32(number)}, ok && known && c.Key[0].Value == bucket(name)
}

func numberIn(columns []tablestore.Column, plus int64) (int64, bool) {
	for _, c := range columns {
		if n, ok := c.Value.(int64); ok && c.Name == columnNumber {
			return n + plus, true
		}
	}
	return 0, false
}

// keyNumber is the inverse of keyName.
func keyNumber(name string) (int32, bool) {
	var key int32
	_, err := fmt.Sscanf(name, "key-%d", &key)
	return key, err == nil && keyName(key) == name
}
