package kinesis

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"

	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardwarden/shardwarden/core"
)

// decodeJSON reads an answer of GetRecords in AWS JSON 1.1, or the event of SubscribeToShard, which has the same members, out of body. Base64
// and escapes are undone where they stand, so body is no JSON afterwards, whatever comes of it.
//
// It takes nothing that the SDK's decoder does not take, and gives the same, but for the arrival times, which are exact: the SDK goes by way
// of a float64, and is a millisecond early now and then.
func (p *page) decodeJSON() error {
	c := jsonCursor{b: p.body}
	p.Lag = -1
	if err := c.object(func(key []byte) error { return p.jsonMember(&c, key) }); err != nil {
		return fmt.Errorf("JSON, at byte %d of %d: %w", c.i, len(c.b), err)
	}
	return nil
}

func (p *page) jsonMember(c *jsonCursor, key []byte) error {
	if c.null() {
		return c.literal("null")
	}
	switch string(key) {
	case "Records":
		return p.jsonRecords(c)
	case "NextShardIterator", "ContinuationSequenceNumber":
		s, err := c.text()
		p.next = view(s)
		return err
	case "MillisBehindLatest":
		n, err := c.integer()
		p.Lag = lag(n)
		return err
	case "ChildShards":
		p.children = p.children[:0]
		return c.array(func() error {
			p.children = append(p.children, types.ChildShard{})
			return jsonChild(c, &p.children[len(p.children)-1])
		})
	}
	return c.skip(0)
}

// jsonRecords is the loop that all the time goes into.
func (p *page) jsonRecords(c *jsonCursor) error {
	p.records, p.read = p.records[:0], 0
	if err := c.expect('['); err != nil {
		return err
	}
	if c.is(']') {
		c.i++
		return nil
	}
	for {
		p.records = append(p.records, core.Record{})
		r := &p.records[len(p.records)-1]
		if err := jsonRecord(c, r); err != nil {
			return err
		}
		if r.Sequence == "" {
			return errNoSequence
		}
		p.read += len(r.Data) + len(r.Key)
		more, err := c.more(']')
		if !more || err != nil {
			return err
		}
	}
}

// member is one of a record.
type member uint8

const (
	memberOther member = iota
	memberData
	memberKey
	memberSequence
	memberArrived
	memberEncryption
)

// recordMember goes over the name of a record's member, up to its value.
func (c *jsonCursor) recordMember() (member, error) {
	c.space()
	// As the service writes it, without space or escapes.
	if rest := c.b[c.i:]; len(rest) > len(`"ApproximateArrivalTimestamp":`) {
		n, m := 0, memberOther
		switch rest[1] {
		case 'D':
			n, m = len(`"Data":`), memberData
		case 'P':
			n, m = len(`"PartitionKey":`), memberKey
		case 'S':
			n, m = len(`"SequenceNumber":`), memberSequence
		case 'A':
			n, m = len(`"ApproximateArrivalTimestamp":`), memberArrived
		}
		if n > 0 && string(rest[:n]) == memberNames[m] {
			c.i += n
			return m, nil
		}
	}
	key, err := c.key()
	switch string(key) {
	case "Data":
		return memberData, err
	case "PartitionKey":
		return memberKey, err
	case "SequenceNumber":
		return memberSequence, err
	case "ApproximateArrivalTimestamp":
		return memberArrived, err
	case "EncryptionType":
		return memberEncryption, err
	}
	return memberOther, err
}

var memberNames = [...]string{memberData: `"Data":`, memberKey: `"PartitionKey":`, memberSequence: `"SequenceNumber":`, memberArrived: `"ApproximateArrivalTimestamp":`}

func jsonRecord(c *jsonCursor, r *core.Record) error {
	if err := c.expect('{'); err != nil {
		return err
	}
	if c.is('}') {
		c.i++
		return nil
	}
	for {
		m, err := c.recordMember()
		if err != nil {
			return err
		}
		var s []byte
		switch {
		case c.null():
			err = c.literal("null")
		case m == memberData:
			r.Data, err = c.base64()
		case m == memberKey:
			s, err = c.text()
			r.Key = view(s)
		case m == memberSequence:
			s, err = c.text()
			r.Sequence = view(s)
		case m == memberArrived:
			r.Arrived, err = c.millis()
		case m == memberEncryption:
			_, err = c.text()
		default:
			err = c.skip(0)
		}
		if err != nil {
			return err
		}
		more, err := c.more('}')
		if !more || err != nil {
			return err
		}
	}
}

func jsonChild(c *jsonCursor, s *types.ChildShard) error {
	return c.object(func(key []byte) error {
		if c.null() {
			return c.literal("null")
		}
		switch string(key) {
		case "ShardId":
			return c.owned(&s.ShardId)
		case "ParentShards":
			s.ParentShards = nil
			return c.array(func() error {
				var parent *string
				err := c.owned(&parent)
				if err == nil {
					s.ParentShards = append(s.ParentShards, *parent)
				}
				return err
			})
		case "HashKeyRange":
			s.HashKeyRange = &types.HashKeyRange{}
			return c.object(func(key []byte) error {
				switch {
				case c.null():
					return c.literal("null")
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

// view is b as a string that shares its memory.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// lag is MillisBehindLatest as a duration.
func lag(ms int64) time.Duration {
	if ms < 0 {
		return -1
	}
	return time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}

// jsonCursor walks over JSON once. It never goes beyond b.
type jsonCursor struct {
	b []byte
	i int
}

var errJSONEnd = errors.New("unexpected end")

// deepest is how deep what is skipped may be nested.
const deepest = 100

// space goes to the next byte that means something, and returns it; 0 at the end, which means nothing either.
func (c *jsonCursor) space() byte {
	for c.i < len(c.b) {
		switch ch := c.b[c.i]; ch {
		case ' ', '\t', '\n', '\r':
			c.i++
		default:
			return ch
		}
	}
	return 0
}

func (c *jsonCursor) is(ch byte) bool { return c.space() == ch }

func (c *jsonCursor) null() bool { return c.space() == 'n' }

func (c *jsonCursor) expect(ch byte) error {
	if got := c.space(); got != ch {
		if c.i >= len(c.b) {
			return errJSONEnd
		}
		return fmt.Errorf("%q where %q is expected", got, ch)
	}
	c.i++
	return nil
}

// more goes over a comma, or over what closes a list or object: then there is no more.
func (c *jsonCursor) more(closing byte) (bool, error) {
	switch got := c.space(); got {
	case ',':
		c.i++
		return true, nil
	case closing:
		c.i++
		return false, nil
	}
	return false, c.expect(closing)
}

func (c *jsonCursor) object(member func(key []byte) error) error {
	if err := c.expect('{'); err != nil {
		return err
	}
	if c.is('}') {
		c.i++
		return nil
	}
	for {
		key, err := c.key()
		if err != nil {
			return err
		}
		if err := member(key); err != nil {
			return err
		}
		more, err := c.more('}')
		if !more || err != nil {
			return err
		}
	}
}

func (c *jsonCursor) array(item func() error) error {
	if err := c.expect('['); err != nil {
		return err
	}
	if c.is(']') {
		c.i++
		return nil
	}
	for {
		if err := item(); err != nil {
			return err
		}
		more, err := c.more(']')
		if !more || err != nil {
			return err
		}
	}
}

// key is the name of a member, up to its value.
func (c *jsonCursor) key() ([]byte, error) {
	key, err := c.text()
	if err != nil {
		return nil, err
	}
	return key, c.expect(':')
}

// text is a string, as a part of b.
func (c *jsonCursor) text() ([]byte, error) {
	if err := c.expect('"'); err != nil {
		return nil, err
	}
	n := bytes.IndexByte(c.b[c.i:], '"')
	if n < 0 {
		return nil, errJSONEnd
	}
	s := c.b[c.i : c.i+n : c.i+n]
	if plain(s) {
		c.i += n + 1
		return s, nil
	}
	return c.escaped()
}

// base64 is the data that a string holds, as a part of b. What may not stand in a string is no base64 either.
func (c *jsonCursor) base64() ([]byte, error) {
	if err := c.expect('"'); err != nil {
		return nil, err
	}
	// What goes fast ends before the quote at the latest, so nobody has to look for that first.
	out := c.b[c.i:]
	done := decodeBlocks(out)
	c.i += done
	n := bytes.IndexByte(c.b[c.i:], '"')
	if n < 0 {
		return nil, errJSONEnd
	}
	s := c.b[c.i : c.i+n]
	if bytes.IndexByte(s, '\\') < 0 {
		c.i += n + 1
	} else {
		var err error
		if s, err = c.escaped(); err != nil {
			return nil, err
		}
	}
	rest, ok := decodeBase64(s)
	if !ok {
		return nil, errors.New("data that is not base64")
	}
	size := done / 4 * 3
	size += copy(out[size:], rest)
	return out[:size:size], nil
}

// plain reports whether there is neither an escape nor a control character in s, eight bytes at a time.
func plain(s []byte) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for len(s) >= 8 {
		v := binary.LittleEndian.Uint64(s)
		backslash := v ^ ones*'\\'
		if ((v-ones*0x20)&^v|(backslash-ones)&^backslash)&highs != 0 {
			return false
		}
		s = s[8:]
	}
	for _, ch := range s {
		if ch < 0x20 || ch == '\\' {
			return false
		}
	}
	return true
}

// escaped is a string with escapes, which are undone in place: what they mean is never longer. c stands behind the quote.
func (c *jsonCursor) escaped() ([]byte, error) {
	start, out := c.i, c.i
	for c.i < len(c.b) {
		ch := c.b[c.i]
		c.i++
		switch {
		case ch == '"':
			s := c.b[start:out:out]
			if !utf8.Valid(s) { // the SDK writes replacement characters, which may be longer
				return nil, errors.New("a string with escapes that is not UTF-8")
			}
			return s, nil
		case ch < 0x20:
			return nil, fmt.Errorf("control character %#x in a string", ch)
		case ch != '\\':
			c.b[out] = ch
			out++
			continue
		}
		if c.i == len(c.b) {
			return nil, errJSONEnd
		}
		ch = c.b[c.i]
		c.i++
		switch ch {
		case '"', '\\', '/':
		case 'b':
			ch = '\b'
		case 'f':
			ch = '\f'
		case 'n':
			ch = '\n'
		case 'r':
			ch = '\r'
		case 't':
			ch = '\t'
		case 'u':
			r, ok := c.hex4()
			if !ok {
				return nil, errors.New(`\u without four hexadecimal digits`)
			}
			if utf16.IsSurrogate(r) {
				before := c.i
				low := rune(-1)
				if c.i+2 <= len(c.b) && c.b[c.i] == '\\' && c.b[c.i+1] == 'u' {
					c.i += 2
					if low, ok = c.hex4(); !ok {
						low = -1
					}
				}
				if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
					c.i = before // what follows stands for itself
				}
			}
			out += utf8.EncodeRune(c.b[out:], r)
			continue
		default:
			return nil, fmt.Errorf("unknown escape %q", ch)
		}
		c.b[out] = ch
		out++
	}
	return nil, errJSONEnd
}

func (c *jsonCursor) hex4() (rune, bool) {
	if c.i+4 > len(c.b) {
		return 0, false
	}
	var r rune
	for _, ch := range c.b[c.i : c.i+4] {
		switch {
		case '0' <= ch && ch <= '9':
			ch -= '0'
		case 'a' <= ch && ch <= 'f':
			ch -= 'a' - 10
		case 'A' <= ch && ch <= 'F':
			ch -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(ch)
	}
	c.i += 4
	return r, true
}

// owned is a string with memory of its own.
func (c *jsonCursor) owned(to **string) error {
	s, err := c.text()
	*to = new(string(s))
	return err
}

func (c *jsonCursor) literal(word string) error {
	if !bytes.HasPrefix(c.b[c.i:], []byte(word)) {
		return fmt.Errorf("a word that is not %s", word)
	}
	c.i += len(word)
	return nil
}

// number is the text of a number.
func (c *jsonCursor) number() ([]byte, error) {
	c.space()
	b, i := c.b, c.i
	at := func(ch byte) bool { return i < len(b) && b[i] == ch }
	if at('-') {
		i++
	}
	whole := digits(b[i:])
	ok := whole == 1 || (whole > 1 && b[i] != '0')
	i += whole
	if ok && at('.') {
		n := digits(b[i+1:])
		i, ok = i+1+n, n > 0
	}
	if ok && (at('e') || at('E')) {
		i++
		if at('+') || at('-') {
			i++
		}
		n := digits(b[i:])
		i, ok = i+n, n > 0
	}
	if !ok {
		return nil, errors.New("no value, or a number with a mistake in it")
	}
	c.i, b = i, b[c.i:i]
	return b, nil
}

// digits is how many b begins with.
func digits(b []byte) int {
	for i, ch := range b {
		if ch-'0' > 9 {
			return i
		}
	}
	return len(b)
}

func (c *jsonCursor) integer() (int64, error) {
	s, err := c.number()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(view(s), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a whole number of 64 bits", s)
	}
	return n, nil
}

// millis is a time in seconds, as milliseconds, cut off.
func (c *jsonCursor) millis() (int64, error) {
	s, err := c.number()
	if err != nil {
		return 0, err
	}
	if ms, ok := exactMillis(s); ok {
		return ms, nil
	}
	f, err := strconv.ParseFloat(view(s), 64)
	if err != nil {
		return 0, err
	}
	return floatMillis(f * 1000)
}

// floatMillis cuts off, and refuses what is no time that a time.Time can take in nanoseconds.
func floatMillis(ms float64) (int64, error) {
	if !(math.Abs(ms) < math.MaxInt64/1e6) {
		return 0, fmt.Errorf("%v ms is not a time", ms)
	}
	return int64(ms), nil
}

// exactMillis reads the usual forms of a time in seconds, as 1787036486.712 and 1.787036486712E9, without rounding.
func exactMillis(s []byte) (int64, bool) {
	var n int64
	digits, point := 0, -1
	i := 0
	for ; i < len(s) && s[i]|0x20 != 'e'; i++ {
		switch ch := s[i]; {
		case ch == '.':
			point = digits
		case ch-'0' < 10 && digits < 18:
			n = n*10 + int64(ch-'0')
			digits++
		default:
			return 0, false // negative, or too long
		}
	}
	if point < 0 {
		point = digits
	}
	shift := point - digits + 3 // power of ten from n to milliseconds
	if i < len(s) {
		exp := s[i+1:]
		if len(exp) > 0 && exp[0] == '+' {
			exp = exp[1:]
		}
		if len(exp) != 1 && len(exp) != 2 || exp[0]-'0' > 9 || exp[len(exp)-1]-'0' > 9 {
			return 0, false
		}
		e := 0
		for _, ch := range exp {
			e = e*10 + int(ch-'0')
		}
		shift += e
	}
	const most = int64(math.MaxInt64 / 1_000_000) // as floatMillis
	for ; shift > 0; shift-- {
		if n > most/10 {
			return 0, n == 0
		}
		n *= 10
	}
	for ; shift < 0 && n > 0; shift++ {
		n /= 10
	}
	return n, n <= most
}

// skip goes over a value, of any kind.
func (c *jsonCursor) skip(depth int) error {
	if depth > deepest {
		return fmt.Errorf("nested more than %d deep", deepest)
	}
	switch c.space() {
	case '{':
		return c.object(func([]byte) error { return c.skip(depth + 1) })
	case '[':
		return c.array(func() error { return c.skip(depth + 1) })
	case '"':
		_, err := c.text()
		return err
	case 't':
		return c.literal("true")
	case 'f':
		return c.literal("false")
	case 'n':
		return c.literal("null")
	}
	_, err := c.number()
	return err
}
