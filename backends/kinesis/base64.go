package kinesis

import "encoding/binary"

// base64Bad marks what is not of the alphabet.
const base64Bad = 1 << 15

// base64Pairs holds the 12 bits of each two characters, the first in the low byte. It is large; what is used of it, the pairs of the alphabet, is
// some 12 kB.
var base64Pairs = func() *[1 << 16]uint16 {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	t := new([1 << 16]uint16)
	for i := range t {
		t[i] = base64Bad
	}
	for first := range alphabet {
		for second := range alphabet {
			t[int(alphabet[second])<<8|int(alphabet[first])] = uint16(first<<6 | second)
		}
	}
	return t
}()

// decodeBase64 decodes standard base64 with padding in place, and returns the part of b that holds the result. As encoding/base64 outside of
// strict mode it does not look at the bits that the padding leaves over; line breaks it does not take.
func decodeBase64(b []byte) ([]byte, bool) {
	n := len(b)
	if n == 0 {
		return b, true
	}
	if n%4 != 0 {
		return nil, false
	}
	// Sixteen characters a step. Eight bytes are written for six, which never reaches what is not yet read.
	done := decodeBlocks(b[:n-4])
	src, dst := b[done:n-4], b[done/4*3:]
	for len(src) >= 16 {
		v, w := binary.LittleEndian.Uint64(src[:8]), binary.LittleEndian.Uint64(src[8:16])
		p, q, r, s := base64Pairs[uint16(v)], base64Pairs[uint16(v>>16)], base64Pairs[uint16(v>>32)], base64Pairs[uint16(v>>48)]
		t, u, x, y := base64Pairs[uint16(w)], base64Pairs[uint16(w>>16)], base64Pairs[uint16(w>>32)], base64Pairs[uint16(w>>48)]
		if (p|q|r|s|t|u|x|y)&base64Bad != 0 {
			return nil, false
		}
		binary.BigEndian.PutUint64(dst[:8], uint64(p)<<52|uint64(q)<<40|uint64(r)<<28|uint64(s)<<16)
		binary.BigEndian.PutUint64(dst[6:14], uint64(t)<<52|uint64(u)<<40|uint64(x)<<28|uint64(y)<<16)
		src, dst = src[16:], dst[12:]
	}
	in := n - 4 - len(src)
	out := in / 4 * 3
	for ; in < n; in, out = in+4, out+3 {
		v := binary.LittleEndian.Uint32(b[in:])
		size := 3
		if in == n-4 {
			// Padding counts as zeros.
			if v>>24 == '=' {
				v, size = v&0xffffff|'A'<<24, 2
				if v>>16&0xff == '=' {
					v, size = v&0xff00ffff|'A'<<16, 1
				}
			}
		}
		p, q := base64Pairs[uint16(v)], base64Pairs[uint16(v>>16)]
		if (p|q)&base64Bad != 0 {
			return nil, false
		}
		group := uint32(p)<<12 | uint32(q)
		for i := range size {
			b[out+i] = byte(group >> (16 - 8*i))
		}
		out += size - 3
	}
	return b[:out:out], true
}
