package tablestore

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
)

// iterator is a place in a shard.
type iterator struct {
	shard string
	next  int64 // number of the record it stands before
	us    int64 // the time that the place stands for
}

// An iterator's text has the form of one seen in the wild: base64 of a length, a text with a time and the id of the
// shard, and integers. It ends with a seal, so that only those made here are taken.

const sealSize = 8

func (s *Server) sealOf(b []byte) []byte {
	m := hmac.New(sha256.New, s.seal[:])
	m.Write(b)
	return m.Sum(nil)[:sealSize]
}

func (s *Server) writeIterator(it iterator) string {
	text := fmt.Sprintf("event_range_%016d%s", it.us, it.shard)
	le := binary.LittleEndian
	b := le.AppendUint32(nil, uint32(len(text)))
	b = append(b, text...)
	b = le.AppendUint64(b, uint64(it.next))
	b = le.AppendUint64(b, uint64(it.us))
	b = append(b, s.sealOf(b)...)
	return base64.StdEncoding.EncodeToString(b)
}

// readIterator is false for anything that writeIterator did not write.
func (s *Server) readIterator(text string) (it iterator, ok bool) {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(b) < 4+8+8+sealSize {
		return it, false
	}
	b, seal := b[:len(b)-sealSize], b[len(b)-sealSize:]
	if !hmac.Equal(seal, s.sealOf(b)) {
		return it, false
	}
	le := binary.LittleEndian
	const prefix = len("event_range_") + 16
	id := b[4+prefix : len(b)-16]
	return iterator{shard: string(id), next: int64(le.Uint64(b[len(b)-16:])), us: int64(le.Uint64(b[len(b)-8:]))}, true
}
