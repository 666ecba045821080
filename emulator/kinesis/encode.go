package kinesis

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"strconv"
	"unicode/utf8"
)

// writer writes one answer in the protocol of its request. Operations describe the answer once; how a key, a blob or
// a time looks on the wire is decided here. CBOR maps and lists are written with indefinite length, as the service's
// own encoder (Jackson) does.
type writer struct {
	b    []byte
	cbor bool
}

// CBOR initial bytes (RFC 8949, section 3).
const (
	cborUint      = 0x00
	cborNegative  = 0x20
	cborBytes     = 0x40
	cborText      = 0x60
	cborOpenList  = 0x9f
	cborOpenMap   = 0xbf
	cborTimeTag   = 0xc1
	cborFalse     = 0xf4
	cborTrue      = 0xf5
	cborEnd       = 0xff
	cborFloat64   = 0xfb
	cborOneByte   = 24
	cborTwoBytes  = 25
	cborFourBytes = 26
	cborEightByte = 27
)

func (w *writer) head(major byte, n uint64) {
	switch {
	case n < cborOneByte:
		w.b = append(w.b, major|byte(n))
	case n <= math.MaxUint8:
		w.b = append(w.b, major|cborOneByte, byte(n))
	case n <= math.MaxUint16:
		w.b = binary.BigEndian.AppendUint16(append(w.b, major|cborTwoBytes), uint16(n))
	case n <= math.MaxUint32:
		w.b = binary.BigEndian.AppendUint32(append(w.b, major|cborFourBytes), uint32(n))
	default:
		w.b = binary.BigEndian.AppendUint64(append(w.b, major|cborEightByte), n)
	}
}

// comma separates JSON members and elements: one is due unless something was just opened.
func (w *writer) comma() {
	if w.cbor || len(w.b) == 0 {
		return
	}
	switch w.b[len(w.b)-1] {
	case '{', '[', ':':
	default:
		w.b = append(w.b, ',')
	}
}

func (w *writer) openMap() {
	w.comma()
	w.b = append(w.b, pick(w.cbor, byte(cborOpenMap), '{'))
}

func (w *writer) closeMap() { w.b = append(w.b, pick(w.cbor, byte(cborEnd), '}')) }

func (w *writer) openList() {
	w.comma()
	w.b = append(w.b, pick(w.cbor, byte(cborOpenList), '['))
}

func (w *writer) closeList() { w.b = append(w.b, pick(w.cbor, byte(cborEnd), ']')) }

func (w *writer) key(k string) {
	w.text(k)
	if !w.cbor {
		w.b = append(w.b, ':')
	}
}

func (w *writer) text(s string) {
	w.comma()
	if w.cbor {
		w.head(cborText, uint64(len(s)))
		w.b = append(w.b, s...)
		return
	}
	w.b = appendJSONString(w.b, s)
}

func (w *writer) int(n int64) {
	w.comma()
	switch {
	case !w.cbor:
		w.b = strconv.AppendInt(w.b, n, 10)
	case n < 0:
		w.head(cborNegative, uint64(-1-n))
	default:
		w.head(cborUint, uint64(n))
	}
}

func (w *writer) bool(v bool) {
	w.comma()
	if w.cbor {
		w.b = append(w.b, pick(v, byte(cborTrue), cborFalse))
		return
	}
	w.b = strconv.AppendBool(w.b, v)
}

// time writes milliseconds since 1970: to JSON as seconds with a fraction, to CBOR as tag 1 and the integer of
// milliseconds. The latter is the service's own dialect; RFC 8949 means seconds by tag 1.
func (w *writer) time(ms int64) {
	w.comma()
	if w.cbor {
		w.b = append(w.b, cborTimeTag)
		w.int(ms)
		return
	}
	w.b = strconv.AppendInt(w.b, ms/1000, 10)
	f := ms % 1000
	w.b = append(w.b, '.', byte('0'+f/100), byte('0'+f/10%10), byte('0'+f%10))
}

func (w *writer) blob(data []byte) {
	w.comma()
	if w.cbor {
		w.head(cborBytes, uint64(len(data)))
		w.b = append(w.b, data...)
		return
	}
	w.b = append(w.b, '"')
	w.b = base64.StdEncoding.AppendEncode(w.b, data)
	w.b = append(w.b, '"')
}

func (w *writer) textField(k, v string)      { w.key(k); w.text(v) }
func (w *writer) intField(k string, v int64) { w.key(k); w.int(v) }
func (w *writer) boolField(k string, v bool) { w.key(k); w.bool(v) }
func (w *writer) timeField(k string, v int64) {
	w.key(k)
	w.time(v)
}

func pick[T any](yes bool, a, b T) T {
	if yes {
		return a
	}
	return b
}

func appendJSONString[S string | []byte](dst []byte, s S) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			_, n := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
			if n > 1 {
				i += n
				continue
			}
			dst = append(append(dst, s[from:i]...), `\ufffd`...)
		} else if c == '"' || c == '\\' {
			dst = append(append(dst, s[from:i]...), '\\', c)
		} else {
			dst = append(append(dst, s[from:i]...), '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		from = i
	}
	return append(append(dst, s[from:]...), '"')
}
