// Package plainbuffer reads and writes PlainBuffer, the row format inside the messages of Tablestore.
//
// A buffer is a header and rows. A row has primary key cells, attribute cells, perhaps a marker that it is deleted,
// perhaps an extension (stream records carry their sequence there), and a checksum; each cell has a checksum of its
// own. Integers are little-endian. The layout is that of the vendor's public SDKs.
//
// [Decoder] walks over a buffer without copying: names, strings and blobs of what it gives are views of the buffer.
// Everything is checked, checksums too. What does not fit is an error that wraps [ErrCorrupt] and says where.
package plainbuffer

const header = 0x75

// What a byte between the parts of a buffer announces.
const (
	tagPrimaryKey   = 0x01
	tagAttributes   = 0x02
	tagCell         = 0x03
	tagName         = 0x04
	tagValue        = 0x05
	tagOp           = 0x06
	tagTimestamp    = 0x07
	tagDeleted      = 0x08
	tagRowChecksum  = 0x09
	tagCellChecksum = 0x0A
	tagExtension    = 0x0B
	tagSequence     = 0x0C
	tagEpoch        = 0x0D
	tagTime         = 0x0E
	tagRowIndex     = 0x0F
)
