// Package kpltest makes aggregated records, for tests of what reads them. It is no producer: it knows nothing of shards, sizes and time.
package kpltest

import (
	"crypto/md5"

	"google.golang.org/protobuf/encoding/protowire"
)

// Record is a user record.
type Record struct {
	Key     string
	HashKey string // empty: none
	Data    []byte
}

// Aggregate is a container that holds records, each key once in its table, as the KPL writes it.
func Aggregate(records ...Record) []byte {
	var keys, hashKeys, body []byte
	index := func(table *[]byte, field protowire.Number, seen map[string]uint64, s string) uint64 {
		n, ok := seen[s]
		if !ok {
			n = uint64(len(seen))
			seen[s] = n
			*table = protowire.AppendString(protowire.AppendTag(*table, field, protowire.BytesType), s)
		}
		return n
	}
	seenKeys, seenHashKeys := map[string]uint64{}, map[string]uint64{}
	for _, r := range records {
		b := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), index(&keys, 1, seenKeys, r.Key))
		if r.HashKey != "" {
			b = protowire.AppendVarint(protowire.AppendTag(b, 2, protowire.VarintType), index(&hashKeys, 2, seenHashKeys, r.HashKey))
		}
		b = protowire.AppendBytes(protowire.AppendTag(b, 3, protowire.BytesType), r.Data)
		body = protowire.AppendBytes(protowire.AppendTag(body, 3, protowire.BytesType), b)
	}
	return Seal(append(append(keys, hashKeys...), body...))
}

// Seal puts a message of any content between the marks of a container: the magic number and the digest.
func Seal(message []byte) []byte {
	sum := md5.Sum(message)
	return append(append([]byte{0xF3, 0x89, 0x9A, 0xC2}, message...), sum[:]...)
}
