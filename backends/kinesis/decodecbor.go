package kinesis

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardwarden/shardwarden/core"
)

// decodeCBOR reads an answer of GetRecords in CBOR out of body. It takes what the service writes (maps and lists of indefinite length, tag 1
// with whole milliseconds) and what emulators make of it: no tag, seconds, whole or as floats, and data as base64 text
// (docs/reference/spike-cbor.md 3). Texts in chunks are put together where they stand.
func (p *page) decodeCBOR() error {
	c := cborCursor{b: p.body}
	p.Lag = -1
	if err := c.pairs(func(key []byte) error { return p.cborMember(&c, key) }); err != nil {
		return fmt.Errorf("CBOR, at byte %d of %d: %w", c.i, len(c.b), err)
	}
	return nil
}

func (p *page) cborMember(c *cborCursor, key []byte) error {
	if c.null() {
		return nil
	}
	switch string(key) {
	case "Records":
		p.records, p.read = p.records[:0], 0
		return c.items(func() error {
			p.records = append(p.records, core.Record{})
			r := &p.records[len(p.records)-1]
			if err := cborRecord(c, r); err != nil {
				return err
			}
			if r.Sequence == "" {
				return errNoSequence
			}
			p.read += len(r.Data) + len(r.Key)
			return nil
		})
	case "NextShardIterator", "ContinuationSequenceNumber":
		s, err := c.text()
		p.next = view(s)
		return err
	case "MillisBehindLatest":
		f, n, isFloat, err := c.number()
		if isFloat {
			if n = int64(f); float64(n) != f {
				return fmt.Errorf("%v is not a whole number of 64 bits", f)
			}
		}
		p.Lag = lag(n)
		return err
	case "ChildShards":
		p.children = p.children[:0]
		return c.items(func() error {
			p.children = append(p.children, types.ChildShard{})
			return cborChild(c, &p.children[len(p.children)-1])
		})
	}
	return c.skip(0)
}

func cborRecord(c *cborCursor, r *core.Record) error {
	h, err := c.open(cborMap)
	if err != nil {
		return err
	}
	for h.next(c) {
		key, err := c.text()
		if err != nil {
			return err
		}
		switch {
		case c.null():
		case string(key) == "Data":
			r.Data, err = c.blob()
		case string(key) == "PartitionKey":
			var s []byte
			s, err = c.text()
			r.Key = view(s)
		case string(key) == "SequenceNumber":
			var s []byte
			s, err = c.text()
			r.Sequence = view(s)
		case string(key) == "ApproximateArrivalTimestamp":
			r.Arrived, err = c.millis()
		default:
			err = c.skip(0)
		}
		if err != nil {
			return err
		}
	}
	return h.err
}

func cborChild(c *cborCursor, s *types.ChildShard) error {
	return c.pairs(func(key []byte) error {
		if c.null() {
			return nil
		}
		switch string(key) {
		case "ShardId":
			return c.owned(&s.ShardId)
		case "ParentShards":
			s.ParentShards = nil
			return c.items(func() error {
				var parent *string
				err := c.owned(&parent)
				if err == nil {
					s.ParentShards = append(s.ParentShards, *parent)
				}
				return err
			})
		case "HashKeyRange":
			s.HashKeyRange = &types.HashKeyRange{}
			return c.pairs(func(key []byte) error {
				switch {
				case c.null():
					return nil
				case string(key) == "StartingHashKey":
					return c.owned(&s.HashKeyRange.StartingHashKey)
				case string(key) == "EndingHashKey":
					return c.owned(&s.HashKeyRange.EndingHashKey)
				}
				return c.skip(0)
			})
		}
		return c.skip(0)
	})
}

// The major types of RFC 8949, section 3.1, and what of the last is used here.
const (
	cborUint, cborNegative, cborBytes, cborText, cborList, cborMap, cborTag, cborSimple = 0, 1, 2, 3, 4, 5, 6, 7

	cborNull, cborUndefined, cborBreak = 0xf6, 0xf7, 0xff
	cborIndefinite                     = 31
)

// cborCursor walks over CBOR once. It never goes beyond b.
type cborCursor struct {
	b []byte
	i int
}

var errCBOREnd = errors.New("unexpected end")

// head is the beginning of an item: its type and its argument, which is a number, a length or bits; more is the low five bits.
func (c *cborCursor) head() (major byte, arg uint64, more byte, err error) {
	if c.i >= len(c.b) {
		return 0, 0, 0, errCBOREnd
	}
	first := c.b[c.i]
	major, more = first>>5, first&0x1f
	if more < 24 {
		c.i++
		return major, uint64(more), more, nil
	}
	rest := c.b[c.i+1:]
	size := 0
	switch {
	case more == 24 && len(rest) >= 1:
		arg, size = uint64(rest[0]), 1
	case more == 25 && len(rest) >= 2:
		arg, size = uint64(binary.BigEndian.Uint16(rest)), 2
	case more == 26 && len(rest) >= 4:
		arg, size = uint64(binary.BigEndian.Uint32(rest)), 4
	case more == 27 && len(rest) >= 8:
		arg, size = binary.BigEndian.Uint64(rest), 8
	case more < 28:
		return 0, 0, 0, errCBOREnd
	case more == cborIndefinite && (major >= cborBytes && major <= cborMap):
	default:
		return 0, 0, 0, fmt.Errorf("byte %#x begins nothing", first)
	}
	c.i += 1 + size
	return major, arg, more, nil
}

// untagged is head without the tags before it, which say nothing that the member's name does not.
func (c *cborCursor) untagged() (major byte, arg uint64, more byte, err error) {
	for {
		if major, arg, more, err = c.head(); major != cborTag || err != nil {
			return major, arg, more, err
		}
	}
}

// null goes over null, if that is what comes.
func (c *cborCursor) null() bool {
	if c.i < len(c.b) && (c.b[c.i] == cborNull || c.b[c.i] == cborUndefined) {
		c.i++
		return true
	}
	return false
}

// group is a list or map that is being read.
type group struct {
	left       uint64
	indefinite bool
	err        error
}

func (c *cborCursor) open(want byte) (group, error) {
	major, n, more, err := c.untagged()
	switch {
	case err != nil:
		return group{}, err
	case major != want:
		return group{}, wrongType(want, major)
	case more == cborIndefinite:
		return group{indefinite: true}, nil
	case n > uint64(len(c.b)-c.i): // each takes a byte at least
		return group{}, errCBOREnd
	}
	return group{left: n}, nil
}

// next reports whether another item, or pair of items, comes.
func (g *group) next(c *cborCursor) bool {
	if !g.indefinite {
		g.left--
		return g.left+1 > 0
	}
	if c.i >= len(c.b) {
		g.err = errCBOREnd
		return false
	}
	if c.b[c.i] == cborBreak {
		c.i++
		return false
	}
	return true
}

func (c *cborCursor) items(item func() error) error {
	g, err := c.open(cborList)
	if err != nil {
		return err
	}
	for g.next(c) {
		if err := item(); err != nil {
			return err
		}
	}
	return g.err
}

func (c *cborCursor) pairs(member func(key []byte) error) error {
	g, err := c.open(cborMap)
	if err != nil {
		return err
	}
	for g.next(c) {
		key, err := c.text()
		if err != nil {
			return err
		}
		if err := member(key); err != nil {
			return err
		}
	}
	return g.err
}

var cborNames = [8]string{"a number", "a negative number", "bytes", "text", "a list", "a map", "a tag", "a simple value"}

func wrongType(want, got byte) error {
	return fmt.Errorf("%s where %s is expected", cborNames[got], cborNames[want])
}

func (c *cborCursor) text() ([]byte, error) {
	// Nearly all texts are shorter than 256 bytes: no need to ask further.
	if rest := c.b[c.i:]; len(rest) > 1 {
		n, start := int(rest[0])-cborText<<5, 1
		if n == 24 {
			n, start = int(rest[1]), 2
		} else if uint(n) > 24 {
			n = len(rest)
		}
		if end := start + n; end <= len(rest) {
			c.i += end
			return rest[start:end:end], nil
		}
	}
	major, s, err := c.string()
	if err == nil && major != cborText {
		err = wrongType(cborText, major)
	}
	return s, err
}

// blob is bytes, or text that holds them as base64.
func (c *cborCursor) blob() ([]byte, error) {
	major, s, err := c.string()
	if err == nil && major == cborText {
		var ok bool
		if s, ok = decodeBase64(s); !ok {
			err = errors.New("data as text that is not base64")
		}
	}
	return s, err
}

// string is text or bytes, as a part of b.
func (c *cborCursor) string() (major byte, s []byte, err error) {
	major, n, more, err := c.untagged()
	switch {
	case err != nil:
		return major, nil, err
	case major != cborText && major != cborBytes:
		return major, nil, wrongType(cborText, major)
	case more == cborIndefinite:
		s, err = c.chunks(major)
		return major, s, err
	}
	s, err = c.take(n)
	return major, s, err
}

// chunks puts a string of indefinite length together at the place of its first chunk.
func (c *cborCursor) chunks(want byte) ([]byte, error) {
	start, out := c.i, c.i
	for {
		if c.i < len(c.b) && c.b[c.i] == cborBreak {
			c.i++
			return c.b[start:out:out], nil
		}
		major, n, more, err := c.head()
		switch {
		case err != nil:
			return nil, err
		case major != want || more == cborIndefinite:
			return nil, errors.New("a string in chunks of another kind")
		}
		s, err := c.take(n)
		if err != nil {
			return nil, err
		}
		out += copy(c.b[out:], s)
	}
}

func (c *cborCursor) take(n uint64) ([]byte, error) {
	if n > uint64(len(c.b)-c.i) {
		return nil, errCBOREnd
	}
	s := c.b[c.i : c.i+int(n) : c.i+int(n)]
	c.i += int(n)
	return s, nil
}

func (c *cborCursor) owned(to **string) error {
	s, err := c.text()
	*to = new(string(s))
	return err
}

// number is a whole number or a float.
func (c *cborCursor) number() (f float64, n int64, isFloat bool, err error) {
	major, arg, more, err := c.untagged()
	switch {
	case err != nil:
		return 0, 0, false, err
	case major == cborUint && arg <= math.MaxInt64:
		return 0, int64(arg), false, nil
	case major == cborNegative && arg <= math.MaxInt64:
		return 0, -1 - int64(arg), false, nil
	case major == cborSimple && more == 27:
		return math.Float64frombits(arg), 0, true, nil
	case major == cborSimple && more == 26:
		return float64(math.Float32frombits(uint32(arg))), 0, true, nil
	case major == cborSimple && more == 25:
		return halfFloat(uint16(arg)), 0, true, nil
	case major == cborUint || major == cborNegative:
		return 0, 0, false, errors.New("a number of more than 63 bits")
	}
	return 0, 0, false, wrongType(cborUint, major)
}

// halfFloat is a float of 16 bits: RFC 8949, appendix D.
func halfFloat(h uint16) float64 {
	exp, mant := int(h>>10&0x1f), float64(h&0x3ff)
	var v float64
	switch exp {
	case 0:
		v = math.Ldexp(mant, -24)
	case 31:
		if v = math.Inf(1); mant != 0 {
			v = math.NaN()
		}
	default:
		v = math.Ldexp(mant+1024, exp-25)
	}
	if h&0x8000 != 0 {
		return -v
	}
	return v
}

// secondsBelow tells seconds from milliseconds: as seconds it is the year 5138, as milliseconds 1973.
const secondsBelow = 1e11

// millis is a time.
func (c *cborCursor) millis() (int64, error) {
	f, n, isFloat, err := c.number()
	switch {
	case err != nil:
		return 0, err
	case !isFloat && -secondsBelow < n && n < secondsBelow:
		return n * 1000, nil
	case !isFloat:
		return floatMillis(float64(n))
	case -secondsBelow < f && f < secondsBelow:
		return floatMillis(math.Round(f * 1000))
	}
	return floatMillis(f)
}

// skip goes over an item, of any kind.
func (c *cborCursor) skip(depth int) error {
	if depth > deepest {
		return fmt.Errorf("nested more than %d deep", deepest)
	}
	start := c.i
	major, _, _, err := c.untagged()
	if err != nil {
		return err
	}
	switch major {
	case cborBytes, cborText:
		c.i = start
		_, _, err = c.string()
	case cborList:
		c.i = start
		return c.items(func() error { return c.skip(depth + 1) })
	case cborMap:
		c.i = start
		g, err := c.open(cborMap)
		for err == nil && g.next(c) {
			if err = c.skip(depth + 1); err == nil {
				err = c.skip(depth + 1)
			}
		}
		if err == nil {
			err = g.err
		}
		return err
	}
	return err
}
