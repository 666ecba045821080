package tablestore

import (
	"sync"

	"github.com/shardwarden/shardwarden/core"
)

// What a record and a column take in memory beside their texts, for the read-ahead budget.
const (
	recordOverhead = 240
	columnOverhead = 72
)

// arrays are those of the JSON of pages that were released: half of the memory of a page, and so of the garbage collector's work.
var arrays sync.Pool

// largest is how large an array may be that is kept for another page.
const largest = 4 << 20

// newPage makes a page of what an answer to iterator had behind its first skip changes. All JSON stands in one array, which the next page gets
// when this one is released, and all texts in one string.
func newPage(a *answer, iterator string, skip int) *core.Page {
	p := &core.Page{Lag: -1}
	changes := a.changes[skip:]
	if len(changes) == 0 {
		return p
	}
	type ends struct{ data, key, sequence int }
	at := make([]ends, len(changes))
	array, _ := arrays.Get().(*[]byte)
	if array == nil {
		array = new(make([]byte, 0, 2*a.bytes))
	}
	data := (*array)[:0]
	text := make([]byte, 0, 64*len(changes))
	columns := 0
	for i := range changes {
		c := &changes[i]
		data = c.AppendJSON(data)
		at[i].data = len(data)
		text = appendKey(text, c.Key)
		at[i].key = len(text)
		text = c.Sequence.append(text)
		at[i].sequence = len(text)
		columns += len(c.Columns) + len(c.Old)
	}
	texts := string(text)
	p.Records = make([]core.Record, len(changes))
	var last ends
	for i := range changes {
		p.Records[i] = core.Record{
			Data: data[last.data:at[i].data:at[i].data],
			Key:  texts[last.sequence:at[i].key], Sequence: texts[at[i].key:at[i].sequence],
			Arrived: changes[i].Sequence.Timestamp / 1000,
			Native:  &changes[i],
		}
		last = at[i]
	}
	p.After = func(i int) core.Position { return core.Position{Token: iterator, Sub: uint64(skip + i + 1)} }
	if *array = data; cap(data) <= largest {
		p.Release = func() { arrays.Put(array) }
	}
	p.Bytes = len(data) + len(text) + a.bytes + recordOverhead*len(changes) + columnOverhead*columns
	return p
}
