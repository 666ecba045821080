//go:build amd64 && !purego

package kinesis

import processor "golang.org/x/sys/cpu"

// decodeBlocksAVX2 decodes characters of standard base64 in place, 32 at a time, as long as there are so many and all are of the alphabet. It
// returns how many it has decoded. It writes 32 bytes for each 24, which never reaches what is not yet read.
//
//go:noescape
func decodeBlocksAVX2(p *byte, n int) (done int)

var hasAVX2 = processor.X86.HasAVX2

// decodeBlocks decodes as much of b as goes fast, in place: done characters, a multiple of four.
func decodeBlocks(b []byte) (done int) {
	if !hasAVX2 || len(b) == 0 {
		return 0
	}
	return decodeBlocksAVX2(&b[0], len(b))
}
