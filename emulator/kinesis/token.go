package kinesis

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"time"
)

// Iterators and page tokens are opaque to clients. Both carry all they need, so the server keeps nothing for them,
// and a checksum, so that a token which is not the server's is told from one that has expired.

func sealToken(body []byte) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(body, crc32.ChecksumIEEE(body)))
}

func openToken(s string) ([]byte, bool) {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil || len(b) < 4 {
		return nil, false
	}
	body := b[:len(b)-4]
	return body, crc32.ChecksumIEEE(body) == binary.BigEndian.Uint32(b[len(b)-4:])
}

// iterator is a position in a shard: before the first record whose counter is next or more.
type iterator struct {
	created    int64 // of the stream
	issued     int64 // ms
	next       uint64
	shard      uint32
	generation uint32 // see Server.ExpireIterators
	stream     string
}

func (it iterator) seal() string {
	b := make([]byte, 0, 48+len(it.stream))
	b = binary.BigEndian.AppendUint64(b, 1) // the layout; the service's iterators begin with zeros too
	b = binary.BigEndian.AppendUint64(b, uint64(it.created))
	b = binary.BigEndian.AppendUint64(b, uint64(it.issued))
	b = binary.BigEndian.AppendUint64(b, it.next)
	b = binary.BigEndian.AppendUint32(b, it.shard)
	b = binary.BigEndian.AppendUint32(b, it.generation)
	return sealToken(append(b, it.stream...))
}

func openIterator(s string) (iterator, bool) {
	b, ok := openToken(s)
	if !ok || len(b) < 40 || binary.BigEndian.Uint64(b) != 1 {
		return iterator{}, false
	}
	return iterator{
		created:    int64(binary.BigEndian.Uint64(b[8:])),
		issued:     int64(binary.BigEndian.Uint64(b[16:])),
		next:       binary.BigEndian.Uint64(b[24:]),
		shard:      binary.BigEndian.Uint32(b[32:]),
		generation: binary.BigEndian.Uint32(b[36:]),
		stream:     string(b[40:]),
	}, true
}

// ExpireIterators makes every iterator handed out so far an expired one.
func (s *Server) ExpireIterators() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.iterators++
}

// pageToken continues a listing.
type pageToken struct {
	Of      string // what is listed, "shards" or "streams"
	After   string // the last one given
	Issued  int64  // ms
	Stream  string `json:",omitempty"`
	Created int64  `json:",omitempty"`
	Filter  *shardFilter
}

// tokenLife is how long a page token can be used (API reference of ListShards).
const tokenLife = 300 * time.Second

func (t pageToken) seal() string {
	b, err := json.Marshal(t)
	if err != nil {
		panic(err) // strings and numbers only
	}
	return sealToken(b)
}

func openPageToken(s, of string, now int64) (pageToken, error) {
	var t pageToken
	b, ok := openToken(s)
	if !ok || json.Unmarshal(b, &t) != nil || t.Of != of {
		return t, invalidArgument("NextToken %s is invalid.", s)
	}
	if now-t.Issued > tokenLife.Milliseconds() {
		return t, refuse("ExpiredNextTokenException", "NextToken %s expired: it is older than %v.", s, tokenLife)
	}
	return t, nil
}
