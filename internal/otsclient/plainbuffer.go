package otsclient

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Tags and value types of PlainBuffer, the service's row format (docs/reference/tablestore.md 2.6).
const (
	bufferHeader = 0x75

	tagRowPK        = 0x01
	tagRowData      = 0x02
	tagCell         = 0x03
	tagCellName     = 0x04
	tagCellValue    = 0x05
	tagCellType     = 0x06
	tagCellTime     = 0x07
	tagDeleteMarker = 0x08
	tagRowChecksum  = 0x09
	tagCellChecksum = 0x0A
	tagExtension    = 0x0B

	valueInteger       = 0x00
	valueDouble        = 0x01
	valueBoolean       = 0x02
	valueString        = 0x03
	valueBlob          = 0x07
	valueInfMin        = 0x09
	valueInfMax        = 0x0A
	valueAutoIncrement = 0x0B
)

// crcTable is that of CRC-8 with polynomial 7.
var crcTable = func() (t [256]byte) {
	for i := range t {
		x := byte(i)
		for range 8 {
			if x&0x80 != 0 {
				x = x<<1 ^ 0x07
			} else {
				x <<= 1
			}
		}
		t[i] = x
	}
	return t
}()

func crc8(crc byte, data ...byte) byte {
	for _, b := range data {
		crc = crcTable[crc^b]
	}
	return crc
}

// CheckRows walks over a blob of rows as answers hold it, and compares each cell and row with its checksum. The SDK reads over checksums, and
// takes an unknown type of value for an empty one. No bytes are no rows.
func CheckRows(blob []byte) error {
	if len(blob) == 0 {
		return nil
	}
	w := walker{rest: blob}
	if h := w.take(4); w.err == nil && binary.LittleEndian.Uint32(h) != bufferHeader {
		w.fail("begins with %x", h)
	}
	for w.err == nil && len(w.rest) > 0 {
		w.row()
	}
	if w.err != nil {
		return fmt.Errorf("rows at byte %d of %d: %w", len(blob)-len(w.rest), len(blob), w.err)
	}
	return nil
}

var errShort = errors.New("ends in the middle")

type walker struct {
	rest []byte
	err  error // the first one; after it everything is empty
}

func (w *walker) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

func (w *walker) take(n uint32) []byte {
	if w.err == nil && uint64(n) > uint64(len(w.rest)) {
		w.err = errShort
	}
	if w.err != nil {
		return make([]byte, min(n, 8)) // numbers are at most that long
	}
	out := w.rest[:n]
	w.rest = w.rest[n:]
	return out
}

func (w *walker) byte() byte       { return w.take(1)[0] }
func (w *walker) length() uint32   { return binary.LittleEndian.Uint32(w.take(4)) }
func (w *walker) is(tag byte) bool { return w.err == nil && len(w.rest) > 0 && w.rest[0] == tag }

// skip passes a tag, if it is the next one.
func (w *walker) skip(tag byte) bool {
	ok := w.is(tag)
	if ok {
		w.rest = w.rest[1:]
	}
	return ok
}

func (w *walker) want(tag byte) {
	if !w.skip(tag) && w.err == nil {
		if len(w.rest) == 0 {
			w.err = errShort
			return
		}
		w.fail("tag is %#x, want %#x", w.rest[0], tag)
	}
}

func (w *walker) row() {
	var crc byte
	w.want(tagRowPK)
	for w.is(tagCell) {
		crc = crc8(crc, w.cell())
	}
	if w.skip(tagRowData) {
		for w.is(tagCell) {
			crc = crc8(crc, w.cell())
		}
	}
	if w.skip(tagDeleteMarker) {
		crc = crc8(crc, 1)
	} else {
		crc = crc8(crc, 0)
	}
	if w.skip(tagExtension) {
		w.take(w.length())
	}
	w.want(tagRowChecksum)
	if got := w.byte(); w.err == nil && got != crc {
		w.fail("a row's checksum is %02x, computed %02x", got, crc)
	}
}

// cell returns the checksum of a cell.
func (w *walker) cell() (crc byte) {
	w.want(tagCell)
	w.want(tagCellName)
	crc = crc8(crc, w.take(w.length())...)
	if w.skip(tagCellValue) {
		crc = crc8(crc, w.value()...)
	}
	var kind []byte
	if w.skip(tagCellType) {
		kind = w.take(1)
	}
	if w.skip(tagCellTime) {
		crc = crc8(crc, w.take(8)...)
	}
	crc = crc8(crc, kind...) // behind the time, though it stands before it
	w.want(tagCellChecksum)
	if got := w.byte(); w.err == nil && got != crc {
		w.fail("a cell's checksum is %02x, computed %02x", got, crc)
	}
	return crc
}

// value returns type, length where there is one, and content.
func (w *walker) value() []byte {
	n := w.length()
	all := w.take(n)
	if w.err != nil {
		return nil
	}
	if n == 0 {
		w.fail("a value without a type")
		return nil
	}
	want := uint64(1)
	switch all[0] {
	case valueInteger, valueDouble:
		want = 9
	case valueBoolean:
		want = 2
	case valueString, valueBlob:
		if n < 5 {
			w.fail("a text of %d bytes, which has no length", n)
			return nil
		}
		want = 5 + uint64(binary.LittleEndian.Uint32(all[1:5]))
	case valueInfMin, valueInfMax, valueAutoIncrement:
	default:
		w.fail("a value of type %#x", all[0])
	}
	if uint64(n) != want {
		w.fail("a value of type %#x takes %d bytes, announced as %d", all[0], want, n)
	}
	return all
}
