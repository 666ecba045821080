//go:build amd64 && !purego

#include "textflag.h"

// Tables of the method of Muła and Lemire, "Faster Base64 Encoding and Decoding Using AVX2 Instructions", https://arxiv.org/abs/1704.00605, section 3.2.

// Of a character's two halves, a bit that both tables have says that it is not of the alphabet.
DATA highHalf<>+0(SB)/8, $0x0804080402011010
DATA highHalf<>+8(SB)/8, $0x1010101010101010
GLOBL highHalf<>(SB), RODATA|NOPTR, $16

DATA lowHalf<>+0(SB)/8, $0x1111111111111115
DATA lowHalf<>+8(SB)/8, $0x1A1B1B1B1A131111
GLOBL lowHalf<>(SB), RODATA|NOPTR, $16

// What to add to a character, by its high half; for '/' by one less.
DATA addend<>+0(SB)/8, $0xB9B9BFBF04131000
DATA addend<>+8(SB)/8, $0
GLOBL addend<>(SB), RODATA|NOPTR, $16

DATA slash<>+0(SB)/8, $0x2F2F2F2F2F2F2F2F
GLOBL slash<>(SB), RODATA|NOPTR, $8

// Two numbers of 6 bits make one of 12, two of these one of 24.
DATA join6<>+0(SB)/8, $0x0140014001400140
GLOBL join6<>(SB), RODATA|NOPTR, $8

DATA join12<>+0(SB)/8, $0x0001100000011000
GLOBL join12<>(SB), RODATA|NOPTR, $8

// The three bytes of each of these, in their order, then without the gaps.
DATA order<>+0(SB)/8, $0x090A040506000102
DATA order<>+8(SB)/8, $0xFFFFFFFF0C0D0E08
GLOBL order<>(SB), RODATA|NOPTR, $16

DATA lanes<>+0(SB)/8, $0x0000000100000000
DATA lanes<>+8(SB)/8, $0x0000000400000002
DATA lanes<>+16(SB)/8, $0x0000000600000005
DATA lanes<>+24(SB)/8, $0x0000000700000007
GLOBL lanes<>(SB), RODATA|NOPTR, $32

// func decodeBlocksAVX2(p *byte, n int) (done int)
TEXT ·decodeBlocksAVX2(SB), NOSPLIT, $0-24
	MOVQ           p+0(FP), SI
	MOVQ           n+8(FP), CX
	MOVQ           SI, DI
	MOVQ           SI, AX
	VBROADCASTI128 highHalf<>(SB), Y8
	VBROADCASTI128 lowHalf<>(SB), Y9
	VBROADCASTI128 addend<>(SB), Y10
	VPBROADCASTQ   slash<>(SB), Y11
	VPBROADCASTQ   join6<>(SB), Y12
	VPBROADCASTQ   join12<>(SB), Y13
	VBROADCASTI128 order<>(SB), Y14
	VMOVDQU        lanes<>(SB), Y15

block:
	CMPQ       CX, $32
	JLT        end
	VMOVDQU    (SI), Y0
	VPSRLD     $4, Y0, Y1
	VPAND      Y11, Y1, Y1
	VPAND      Y11, Y0, Y2
	VPSHUFB    Y1, Y8, Y3
	VPSHUFB    Y2, Y9, Y4
	VPTEST     Y3, Y4
	JNZ        end
	VPCMPEQB   Y11, Y0, Y5
	VPADDB     Y1, Y5, Y5
	VPSHUFB    Y5, Y10, Y5
	VPADDB     Y5, Y0, Y0
	VPMADDUBSW Y12, Y0, Y0
	VPMADDWD   Y13, Y0, Y0
	VPSHUFB    Y14, Y0, Y0
	VPERMD     Y0, Y15, Y0
	VMOVDQU    Y0, (DI)
	ADDQ       $32, SI
	ADDQ       $24, DI
	SUBQ       $32, CX
	JMP        block

end:
	VZEROUPPER
	SUBQ AX, SI
	MOVQ SI, done+16(FP)
	RET
