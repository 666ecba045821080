package plainbuffer

import "encoding/binary"

// Encode gives a buffer with these rows. Without rows it is the header alone; the service then sends no bytes at all.
func Encode(rows ...Row) []byte {
	b := AppendHeader(nil)
	for i := range rows {
		b = AppendRow(b, &rows[i])
	}
	return b
}

// AppendHeader appends what every buffer begins with.
func AppendHeader(b []byte) []byte { return binary.LittleEndian.AppendUint32(b, header) }

// AppendRow appends one row with its checksums. It writes what the row says, sensible or not.
func AppendRow(b []byte, r *Row) []byte {
	b = append(b, tagPrimaryKey)
	crc := byte(0)
	b, crc = appendCells(b, r.PrimaryKey, crc)
	if len(r.Cells) > 0 {
		b = append(b, tagAttributes)
		b, crc = appendCells(b, r.Cells, crc)
	}
	if r.Deleted {
		b = append(b, tagDeleted)
	}
	if r.HasSequence {
		b = appendSequence(b, r.Sequence)
	}
	return append(b, tagRowChecksum, endRow(crc, r.Deleted))
}

// Lengths of a sequence in the extension: tag and 4 bytes, tag and 8 bytes, tag and 4 bytes; around it a tag and its
// length.
const (
	sequenceSize  = 5 + 9 + 5
	extensionSize = 5 + sequenceSize
)

func appendSequence(b []byte, s Sequence) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(append(b, tagExtension), extensionSize)
	b = le.AppendUint32(append(b, tagSequence), sequenceSize)
	b = le.AppendUint32(append(b, tagEpoch), uint32(s.Epoch))
	b = le.AppendUint64(append(b, tagTime), uint64(s.Timestamp))
	return le.AppendUint32(append(b, tagRowIndex), uint32(s.RowIndex))
}

func appendCells(b []byte, cells []Cell, rowCRC byte) ([]byte, byte) {
	le := binary.LittleEndian
	for i := range cells {
		c := &cells[i]
		b = le.AppendUint32(append(b, tagCell, tagName), uint32(len(c.Name)))
		b = append(b, c.Name...)
		if c.Value.Kind != None {
			b = le.AppendUint32(append(b, tagValue), uint32(c.Value.wireSize()))
			b = AppendValue(b, c.Value)
		}
		if c.Op != Put {
			b = append(b, tagOp, byte(c.Op))
		}
		if c.HasTimestamp {
			b = le.AppendUint64(append(b, tagTimestamp), uint64(c.Timestamp))
		}
		crc := c.checksum()
		b = append(b, tagCellChecksum, crc)
		rowCRC = crcByte(rowCRC, crc)
	}
	return b, rowCRC
}

// wireSize is the length of what AppendValue appends.
func (v Value) wireSize() int {
	switch v.Kind {
	case Integer, Double:
		return 9
	case Boolean:
		return 2
	case String, Blob:
		return 5 + len(v.data)
	}
	return 1
}

// AppendValue appends type byte and content, without a length before them: as values stand in filters.
func AppendValue(b []byte, v Value) []byte {
	b = append(b, byte(v.Kind-1))
	switch v.Kind {
	case Integer, Double:
		return binary.LittleEndian.AppendUint64(b, v.bits)
	case Boolean:
		return append(b, byte(v.bits))
	case String, Blob:
		return append(binary.LittleEndian.AppendUint32(b, uint32(len(v.data))), v.data...)
	}
	return b
}
