package plainbuffer

import "encoding/binary"

// crcTables are those of CRC-8 with polynomial 0x07: initial value 0, nothing reflected, nothing added at the end.
// Table n moves a byte over n bytes that follow it, so that eight bytes can be taken at once: they don't wait for each
// other, which makes decoding twice as fast.
var crcTables = func() (t [8][256]byte) {
	for i := range t[0] {
		x := byte(i)
		for range 8 {
			if x&0x80 != 0 {
				x = x<<1 ^ 0x07
			} else {
				x <<= 1
			}
		}
		t[0][i] = x
	}
	for n := 1; n < len(t); n++ {
		for i, x := range t[n-1] {
			t[n][i] = t[0][x]
		}
	}
	return t
}()

func crcByte(crc, b byte) byte { return crcTables[0][crc^b] }

func crcBytes(crc byte, p []byte) byte {
	t := &crcTables
	for ; len(p) >= 8; p = p[8:] {
		crc = t[7][p[0]^crc] ^ t[6][p[1]] ^ t[5][p[2]] ^ t[4][p[3]] ^ t[3][p[4]] ^ t[2][p[5]] ^ t[1][p[6]] ^ t[0][p[7]]
	}
	for _, b := range p {
		crc = t[0][crc^b]
	}
	return crc
}

func crc32Bits(crc byte, n uint32) byte {
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], n)
	return crcBytes(crc, b[:])
}

func crc64Bits(crc byte, n uint64) byte {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], n)
	return crcBytes(crc, b[:])
}

// checksum is the cell's. Here the timestamp comes before the op byte; in the bytes of the cell it comes after.
func (c *Cell) checksum() byte {
	crc := crcBytes(0, c.Name)
	if c.Value.Kind != None {
		crc = c.Value.checksum(crc)
	}
	if c.HasTimestamp {
		crc = crc64Bits(crc, uint64(c.Timestamp))
	}
	if c.Op != Put {
		crc = crcByte(crc, byte(c.Op))
	}
	return crc
}

func (v Value) checksum(crc byte) byte {
	crc = crcByte(crc, byte(v.Kind-1))
	switch v.Kind {
	case Integer, Double:
		return crc64Bits(crc, v.bits)
	case Boolean:
		return crcByte(crc, byte(v.bits))
	case String, Blob:
		return crcBytes(crc32Bits(crc, uint32(len(v.data))), v.data)
	}
	return crc
}

// endRow ends the checksum of a row, which is over the checksums of its cells and the marker. The extension is not
// covered.
func endRow(crc byte, deleted bool) byte {
	if deleted {
		return crcByte(crc, 1)
	}
	return crcByte(crc, 0)
}
