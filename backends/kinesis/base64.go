package kinesis

import "encoding/binary"

// base64Bad marks what is not of the alphabet; the values of four characters take 24 bits.
const base64Bad = 1 << 31

// base64At holds, for each of the four places of a group, what a character contributes.
var base64At = func() (t [4][256]uint32) {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	for place := range t {
		for c := range t[place] {
			t[place][c] = base64Bad
		}
		for v := range alphabet {
			t[place][alphabet[v]] = uint32(v) << (18 - 6*place)
		}
	}
	return t
}()

func base64Group(b []byte) uint32 {
	_ = b[3]
	return base64At[0][b[0]] | base64At[1][b[1]] | base64At[2][b[2]] | base64At[3][b[3]]
}

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
	// Eight characters a step. Eight bytes are written for six, which never reaches what is not yet read.
	in, out := 0, 0
	for ; in+8 <= n-4; in, out = in+8, out+6 {
		s := b[in : in+8 : in+8]
		v, w := base64Group(s[:4]), base64Group(s[4:])
		if (v|w)&base64Bad != 0 {
			return nil, false
		}
		binary.BigEndian.PutUint64(b[out:], uint64(v)<<40|uint64(w)<<16)
	}
	for ; in < n-4; in, out = in+4, out+3 {
		v := base64Group(b[in : in+4])
		if v&base64Bad != 0 {
			return nil, false
		}
		b[out], b[out+1], b[out+2] = byte(v>>16), byte(v>>8), byte(v)
	}
	last := [4]byte(b[n-4:])
	size := 3
	switch {
	case last[2] == '=' && last[3] == '=':
		last[2], last[3], size = 'A', 'A', 1
	case last[3] == '=':
		last[3], size = 'A', 2
	}
	v := base64Group(last[:])
	if v&base64Bad != 0 {
		return nil, false
	}
	for i := range size {
		b[out+i] = byte(v >> (16 - 8*i))
	}
	out += size
	return b[:out:out], true
}
