package dynamodb

import (
	"encoding/binary"
	"slices"
	"strings"
)

// schema is the key of a table or index.
type schema struct {
	hash, rng         string // attribute names; rng may be empty
	hashKind, rngKind kind
}

func (k schema) attributes() []string {
	if k.rng == "" {
		return []string{k.hash}
	}
	return []string{k.hash, k.rng}
}

func (k schema) kindOf(attr string) kind {
	if attr == k.rng && k.rng != "" {
		return k.rngKind
	}
	return k.hashKind
}

// The service's limits on key values, in bytes.
const (
	maxHashKey  = 2048
	maxRangeKey = 1024
)

// check tells what is wrong with the key attributes of a whole item; an index
// does not need them all, a table does.
func (k schema) check(it item, index string) error {
	for _, a := range k.attributes() {
		v, ok := it[a]
		where := ""
		if index != "" {
			if !ok {
				continue
			}
			where = " IndexName: " + index + ", IndexKey: " + a
		}
		switch {
		case !ok:
			return badValue("Missing the key %s in the item", a)
		case v.kind != k.kindOf(a) && index == "":
			return badValue("Type mismatch for key %s expected: %s actual: %s", a, k.kindOf(a), v.kind)
		case v.kind != k.kindOf(a):
			return badValue("Type mismatch for Index Key %s Expected: %s Actual: %s IndexName: %s", a, k.kindOf(a), v.kind, index)
		case v.text == "" && index == "":
			return badValue("The AttributeValue for a key attribute cannot contain an empty string value. Key: %s", a)
		case v.text == "":
			return badValue("The AttributeValue for a key attribute cannot contain an empty string value.%s", where)
		case a == k.hash && len(v.text) > maxHashKey:
			return badValue("Size of hashkey has exceeded the maximum size limit of %d bytes", maxHashKey)
		case a != k.hash && len(v.text) > maxRangeKey:
			return badValue("Aggregated size of all range keys has exceeded the size limit of %d bytes", maxRangeKey)
		}
	}
	return nil
}

// checkKey tells what is wrong with the Key parameter of a request.
func (k schema) checkKey(key item) error {
	if len(key) != len(k.attributes()) {
		return invalid("The provided key element does not match the schema")
	}
	for _, a := range k.attributes() {
		if v, ok := key[a]; !ok || v.kind != k.kindOf(a) {
			return invalid("The provided key element does not match the schema")
		}
	}
	return k.check(key, "")
}

// of picks the key out of an item.
func (k schema) of(it item) item {
	key := item{}
	for _, a := range k.attributes() {
		if v, ok := it[a]; ok {
			key[a] = v
		}
	}
	return key
}

// position is a byte string by which rows are kept: rows of one hash key
// together and in order of the range key, hash keys in no order of their own,
// as in the service. ok is false when the item lacks a key attribute (then
// an index does not hold it).
func (k schema) position(it item) (p string, ok bool) {
	h, ok := it[k.hash]
	if !ok {
		return "", false
	}
	p = partition(h)
	if k.rng == "" {
		return p, true
	}
	r, ok := it[k.rng]
	if !ok {
		return "", false
	}
	return p + sortable(r), true
}

// partition is the part of a position that the hash key gives: a hash, then
// the key itself, ended so that no key is a prefix of another.
func partition(h value) string {
	return string(binary.BigEndian.AppendUint64(nil, spread(h))) + escaped(sortable(h))
}

// spread hashes a hash key. It is the same in every process, so that a seeded
// run repeats.
func spread(h value) uint64 {
	const prime = 1099511628211
	x := uint64(14695981039346656037)
	for _, c := range []byte(h.text) {
		x = (x ^ uint64(c)) * prime
	}
	// FNV's high bits mix too little for short keys that differ at the end.
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return x ^ x>>32
}

func sortable(v value) string {
	if v.kind == kindN {
		return sortableNumber(v.text)
	}
	return v.text
}

// escaped ends a string so that order is kept when more follows it.
func escaped(s string) string {
	return strings.ReplaceAll(s, "\x00", "\x00\xff") + "\x00\x01"
}

// segmentOf says which of n segments of a parallel scan a position lies in.
func segmentOf(pos string, n int) int {
	h := binary.BigEndian.Uint64([]byte(pos[:8]))
	return int((h >> 32) * uint64(n) >> 32)
}

// ordered is a list of rows kept by position.
type ordered struct{ entries []entry }

type entry struct {
	pos string
	row *row
}

func (o *ordered) find(pos string) (int, bool) {
	return slices.BinarySearchFunc(o.entries, pos, func(e entry, pos string) int { return strings.Compare(e.pos, pos) })
}

func (o *ordered) get(pos string) *row {
	if i, ok := o.find(pos); ok {
		return o.entries[i].row
	}
	return nil
}

func (o *ordered) insert(pos string, r *row) {
	if i, ok := o.find(pos); !ok {
		o.entries = slices.Insert(o.entries, i, entry{pos, r})
	}
}

func (o *ordered) remove(pos string) {
	if i, ok := o.find(pos); ok {
		o.entries = slices.Delete(o.entries, i, i+1)
	}
}
