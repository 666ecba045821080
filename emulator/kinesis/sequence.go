package kinesis

// sequence is what a sequence number says. As on the service it is a number of 56 digits that grows within a shard
// and from a shard to its children, is unique in the stream, and encodes its shard. Here it does so because it leads
// with the stream's time of creation and then a counter that the whole stream shares:
//
//	bits 184-187  2, which makes all of them 56 digits long
//	bits 140-183  creation of the stream, milliseconds
//	bits  76-139  counter of the stream
//	bits  44-75   shard
//	bits   0-43   2, the version the service's numbers end in
type sequence struct {
	stream int64
	n      uint64
	shard  uint32
}

const sequenceTag = 2

func (q sequence) limbs() [3]uint64 {
	return [3]uint64{
		sequenceTag<<56 | uint64(q.stream)<<12 | q.n>>52,
		q.n<<12 | uint64(q.shard)>>20,
		uint64(q.shard)<<44 | sequenceTag,
	}
}

func (q sequence) append(dst []byte) []byte { return appendDecimal(dst, q.limbs()) }

func (q sequence) String() string { return string(q.append(make([]byte, 0, 56))) }

func parseSequence(s string) (sequence, bool) {
	l, ok := parseDecimal(s)
	if !ok || l[0]>>56 != sequenceTag || l[2]&(1<<44-1) != sequenceTag {
		return sequence{}, false
	}
	return sequence{
		stream: int64(l[0] >> 12 & (1<<44 - 1)),
		n:      l[0]<<52 | l[1]>>12,
		shard:  uint32(l[1]<<20 | l[2]>>44),
	}, true
}
