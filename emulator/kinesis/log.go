package kinesis

import "sort"

// A shard's records lie in blocks: the bytes of many records end to end, and 32 bytes about each of them. Blocks are
// only ever appended to, so a reader may keep a view of a part of one after the server's lock is gone.

const (
	blockRecords = 512
	blockBytes   = 256 << 10
)

// meta describes one record: key, then data, begin at off in its block's bytes.
type meta struct {
	n       uint64 // stream counter, growing
	arrived int64  // milliseconds, never falling
	off     uint32
	dataLen uint32
	keyLen  uint16
}

func (m meta) size() int { return int(m.dataLen) + int(m.keyLen) }

type block struct {
	meta  []meta
	bytes []byte
}

func (b *block) last() meta { return b.meta[len(b.meta)-1] }

// recordLog holds the records of one shard that have not been trimmed.
type recordLog struct {
	blocks []*block
	gone   int   // records at the front of blocks[0] that were trimmed
	latest int64 // arrival of the last record ever appended
}

func (l *recordLog) empty() bool { return len(l.blocks) == 0 }

func (l *recordLog) append(n uint64, arrived int64, key string, data []byte) {
	var b *block
	if k := len(l.blocks); k > 0 {
		b = l.blocks[k-1]
	}
	if b == nil || len(b.meta) >= blockRecords || len(b.bytes)+len(key)+len(data) > blockBytes {
		full := b
		b = &block{}
		if full != nil { // the next one will likely be as large: then nothing is copied, and little is spare
			b.meta = make([]meta, 0, len(full.meta))
			b.bytes = make([]byte, 0, min(len(full.bytes), blockBytes))
		}
		l.blocks = append(l.blocks, b)
	}
	l.latest = max(l.latest, arrived) // the wall clock may go back; places by time are found by bisection
	b.meta = append(b.meta, meta{n: n, arrived: l.latest, off: uint32(len(b.bytes)),
		dataLen: uint32(len(data)), keyLen: uint16(len(key))})
	b.bytes = append(append(b.bytes, key...), data...)
}

// place is a position in the log: a block and a record in it.
type place struct{ block, record int }

// find gives the first record for which from holds; from must be false for a prefix and true for the rest.
func (l *recordLog) find(from func(meta) bool) place {
	b := sort.Search(len(l.blocks), func(i int) bool { return from(l.blocks[i].last()) })
	if b == len(l.blocks) {
		return place{block: b}
	}
	m := l.blocks[b].meta
	first := 0
	if b == 0 {
		first = l.gone
	}
	return place{b, first + sort.Search(len(m)-first, func(i int) bool { return from(m[first+i]) })}
}

func (l *recordLog) at(p place) (meta, bool) {
	if p.block >= len(l.blocks) {
		return meta{}, false
	}
	return l.blocks[p.block].meta[p.record], true
}

// trim drops every record for which keep is false; keep must be false for a prefix.
func (l *recordLog) trim(keep func(meta) bool) {
	if l.empty() || keep(l.blocks[0].meta[l.gone]) {
		return
	}
	p := l.find(keep)
	clear(l.blocks[:p.block])
	l.blocks, l.gone = l.blocks[p.block:], p.record
	if l.empty() {
		l.blocks = nil
	}
}

// span is a run of records in one block.
type span struct {
	meta  []meta
	bytes []byte
}

func (s span) key(m meta) []byte { return s.bytes[m.off : m.off+uint32(m.keyLen)] }

func (s span) data(m meta) []byte {
	off := m.off + uint32(m.keyLen)
	return s.bytes[off : off+m.dataLen]
}

// page is a view of consecutive records.
type page struct {
	spans []span
	count int
	size  int // bytes of keys and data
	last  meta
}

// read gives the records from p on: at most maxRecords of them and, the first one apart, at most maxBytes.
func (l *recordLog) read(p place, maxRecords, maxBytes int) (pg page, next place) {
	for p.block < len(l.blocks) && pg.count < maxRecords {
		b := l.blocks[p.block]
		i := p.record
		for ; i < len(b.meta) && pg.count < maxRecords; i++ {
			m := b.meta[i]
			if pg.count > 0 && pg.size+m.size() > maxBytes {
				break
			}
			pg.count++
			pg.size += m.size()
			pg.last = m
		}
		if i > p.record {
			pg.spans = append(pg.spans, span{meta: b.meta[p.record:i], bytes: b.bytes})
		}
		if i < len(b.meta) {
			return pg, place{p.block, i}
		}
		p = place{block: p.block + 1}
	}
	return pg, p
}
