package demo

import (
	"bytes"
	"fmt"
	"math/rand/v2"

	"github.com/shardwarden/shardwarden/backends/tablestore"
	"github.com/shardwarden/shardwarden/core"
)

// item is a record as the demo sees it.
type item struct {
	id       recordID
	sequence string
	foreign  bool               // not what a producer wrote
	change   *tablestore.Change // on a stage of rows: what it is
}

func keyName(key int32) string { return fmt.Sprintf("key-%04d", key) }

// data is what record id holds: its name, and padding of 20 to 200 bytes that the seed decides.
func data(seed uint64, id recordID) []byte {
	dice := rand.New(rand.NewPCG(seed, uint64(id.key)<<32|uint64(id.n)))
	out := fmt.Appendf(nil, "%s %d ", keyName(id.key), id.n)
	return append(out, bytes.Repeat([]byte{byte('a' + dice.IntN(26))}, 20+dice.IntN(181))...)
}

// plain is a stage whose records are what producers wrote, byte for byte.
type plain struct{}

func (plain) items(seed uint64, keys, records int, in []core.Record) []item {
	out := make([]item, len(in))
	for i, r := range in {
		it := item{sequence: string([]byte(r.Sequence))}
		var key int32
		var n int32
		if _, err := fmt.Sscanf(string(r.Data), "key-%d %d ", &key, &n); err != nil || key < 0 || int(key) >= keys || n < 0 || int(n) >= records {
			it.foreign = true
		} else {
			it.id = recordID{key, n}
			it.foreign = r.Key != keyName(key) || !bytes.Equal(r.Data, data(seed, it.id))
		}
		out[i] = it
	}
	return out
}
