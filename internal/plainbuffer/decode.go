package plainbuffer

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrCorrupt says that bytes are not a PlainBuffer: cut off, with a wrong checksum, or of another form. Reading the
// same bytes again can't help; asking for them again may.
var ErrCorrupt = errors.New("corrupt PlainBuffer")

func corrupt(at int, format string, args ...any) error {
	return fmt.Errorf("%w: at byte %d: %s", ErrCorrupt, at, fmt.Sprintf(format, args...))
}

// Decoder reads a buffer row by row. It copies nothing: the buffer must not change while what was decoded is in use.
// The zero value has no rows.
type Decoder struct {
	data    []byte
	at      int
	started bool
}

// NewDecoder makes a decoder of a whole buffer. A buffer of no bytes has no rows, as the service sends it.
func NewDecoder(data []byte) *Decoder { return &Decoder{data: data} }

// Next decodes the next row into r, using r's slices again, and says whether there was one. After an error the
// contents of r mean nothing.
func (d *Decoder) Next(r *Row) (bool, error) {
	if !d.started {
		d.started = true
		if len(d.data) == 0 {
			return false, nil
		}
		h, err := d.u32("header")
		if err != nil {
			return false, err
		}
		if h != header {
			return false, corrupt(0, "header is %#x, want %#x", h, header)
		}
	}
	if d.at == len(d.data) {
		return false, nil
	}
	if err := d.row(r); err != nil {
		d.data, d.at = nil, 0 // nothing after it can be trusted
		return false, err
	}
	return true, nil
}

// DecodeRow decodes a buffer that holds exactly one row, as those of single rows, keys and stream records do.
func DecodeRow(data []byte, r *Row) error {
	d := Decoder{data: data}
	switch ok, err := d.Next(r); {
	case err != nil:
		return err
	case !ok:
		return corrupt(len(data), "there is no row, want one")
	case d.at != len(data):
		return corrupt(d.at, "%d bytes after the only row", len(data)-d.at)
	}
	return nil
}

// DecodeValue decodes type byte and content that fill data: as values stand in filters.
func DecodeValue(data []byte) (Value, error) {
	d := Decoder{data: data}
	v, err := d.value()
	if err == nil && d.at != len(data) {
		err = corrupt(d.at, "%d bytes after the value", len(data)-d.at)
	}
	return v, err
}

func (d *Decoder) row(r *Row) error {
	r.reset()
	tag, err := d.tag("row")
	if err != nil {
		return err
	}
	if tag != tagPrimaryKey {
		return corrupt(d.at-1, "tag %#02x, want that of a primary key", tag)
	}
	crc := byte(0)
	if tag, crc, err = d.cells(&r.PrimaryKey, crc); err != nil {
		return err
	}
	if tag == tagAttributes {
		if tag, crc, err = d.cells(&r.Cells, crc); err != nil {
			return err
		}
	}
	if tag == tagDeleted {
		r.Deleted = true
		if tag, err = d.tag("row after delete marker"); err != nil {
			return err
		}
	}
	if tag == tagExtension {
		if err := d.extension(r); err != nil {
			return err
		}
		if tag, err = d.tag("row after extension"); err != nil {
			return err
		}
	}
	if tag != tagRowChecksum {
		return corrupt(d.at-1, "tag %#02x, want that of a row checksum", tag)
	}
	return d.checksum("checksum of a row", endRow(crc, r.Deleted))
}

// cells reads cells up to the first tag of something else, which it gives back with the row's checksum so far.
func (d *Decoder) cells(to *[]Cell, crc byte) (tag, rowCRC byte, err error) {
	for {
		if tag, err = d.tag("row"); err != nil || tag != tagCell {
			return tag, crc, err
		}
		var c Cell
		if err := d.cell(&c, &crc); err != nil {
			return 0, 0, err
		}
		*to = append(*to, c)
	}
}

func (d *Decoder) cell(c *Cell, rowCRC *byte) error {
	tag, err := d.tag("cell")
	if err != nil {
		return err
	}
	if tag == tagName {
		if c.Name, err = d.sized("name of a cell"); err != nil {
			return err
		}
		if tag, err = d.tag("cell after name"); err != nil {
			return err
		}
	}
	if tag == tagValue {
		if c.Value, err = d.sizedValue(); err != nil {
			return err
		}
		if tag, err = d.tag("cell after value"); err != nil {
			return err
		}
	}
	if tag == tagOp {
		op, err := d.tag("kind of a cell")
		if err != nil {
			return err
		}
		switch c.Op = Op(op); c.Op {
		case DeleteAllVersions, DeleteOneVersion, Increment:
		default:
			return corrupt(d.at-1, "cell %q is of unknown kind %#02x", c.Name, op)
		}
		if tag, err = d.tag("cell after kind"); err != nil {
			return err
		}
	}
	if tag == tagTimestamp {
		n, err := d.u64("timestamp of a cell")
		if err != nil {
			return err
		}
		c.HasTimestamp, c.Timestamp = true, int64(n)
		if tag, err = d.tag("cell after timestamp"); err != nil {
			return err
		}
	}
	if tag != tagCellChecksum {
		return corrupt(d.at-1, "tag %#02x in cell %q, want that of its checksum", tag, c.Name)
	}
	crc := c.checksum()
	*rowCRC = crcByte(*rowCRC, crc)
	return d.checksum("checksum of a cell", crc)
}

func (d *Decoder) sizedValue() (Value, error) {
	size, err := d.u32("length of a value")
	if err != nil {
		return Value{}, err
	}
	start := d.at
	v, err := d.value()
	if err == nil && d.at-start != int(size) {
		err = corrupt(start, "value of type %v is %d bytes long, but its length says %d", v.Kind, d.at-start, size)
	}
	return v, err
}

func (d *Decoder) value() (v Value, err error) {
	b, err := d.tag("value")
	if err != nil {
		return v, err
	}
	v.Kind = Kind(b + 1)
	switch v.Kind {
	case Integer, Double:
		v.bits, err = d.u64("value")
	case Boolean:
		if b, err = d.tag("value"); err == nil && b > 1 {
			err = corrupt(d.at-1, "boolean is %#02x", b)
		}
		v.bits = uint64(b)
	case String, Blob:
		v.data, err = d.sized("value")
	case InfMin, InfMax, AutoIncrement:
	default:
		err = corrupt(d.at-1, "unknown type of value %#02x", b)
	}
	return v, err
}

// extension reads the parts of an extension. Those of an unknown kind are passed over by their length, as in the
// vendor's Java SDK.
func (d *Decoder) extension(r *Row) error {
	data, err := d.sized("extension")
	if err != nil {
		return err
	}
	in := Decoder{data: d.data[:d.at], at: d.at - len(data)}
	for in.at < len(in.data) {
		tag, err := in.tag("extension")
		if err != nil {
			return err
		}
		start := in.at
		part, err := in.sized("part of an extension")
		if err != nil {
			return err
		}
		if tag != tagSequence {
			continue
		}
		le := binary.LittleEndian
		if len(part) != sequenceSize || part[0] != tagEpoch || part[5] != tagTime || part[14] != tagRowIndex {
			return corrupt(start, "sequence of another form: %x", part)
		}
		r.HasSequence = true
		r.Sequence = Sequence{Epoch: int32(le.Uint32(part[1:])), Timestamp: int64(le.Uint64(part[6:])), RowIndex: int32(le.Uint32(part[15:]))}
	}
	return nil
}

func (d *Decoder) checksum(what string, want byte) error {
	got, err := d.tag(what)
	if err == nil && got != want {
		err = corrupt(d.at-1, "%s is %#02x, want %#02x", what, got, want)
	}
	return err
}

func cut(at int, what string) error { return corrupt(at, "it ends within: %s", what) }

func (d *Decoder) tag(in string) (byte, error) {
	if d.at >= len(d.data) {
		return 0, cut(d.at, in)
	}
	d.at++
	return d.data[d.at-1], nil
}

func (d *Decoder) u32(in string) (uint32, error) {
	if len(d.data)-d.at < 4 {
		return 0, cut(d.at, in)
	}
	d.at += 4
	return binary.LittleEndian.Uint32(d.data[d.at-4:]), nil
}

func (d *Decoder) u64(in string) (uint64, error) {
	if len(d.data)-d.at < 8 {
		return 0, cut(d.at, in)
	}
	d.at += 8
	return binary.LittleEndian.Uint64(d.data[d.at-8:]), nil
}

// sized reads a length and gives a view of so many bytes.
func (d *Decoder) sized(in string) ([]byte, error) {
	n, err := d.u32(in)
	if err != nil {
		return nil, err
	}
	if uint64(n) > uint64(len(d.data)-d.at) {
		return nil, corrupt(d.at, "%s is said to be %d bytes long, but %d are left", in, n, len(d.data)-d.at)
	}
	start := d.at
	d.at += int(n)
	return d.data[start:d.at:d.at], nil
}
