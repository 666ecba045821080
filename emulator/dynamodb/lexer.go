package dynamodb

import "strings"

// tokenKind tells the tokens of the expression language apart.
type tokenKind byte

const (
	tokEnd   tokenKind = iota
	tokWord            // a bare attribute name, keyword or function name
	tokName            // #placeholder
	tokValue           // :placeholder
	tokIndex           // digits, inside [ ]
	tokPunct           // operators and punctuation
	tokBad
)

type token struct {
	kind tokenKind
	text string
	pos  int
}

func isWordByte(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// lex splits an expression; a byte that fits nowhere becomes a tokBad, which
// no rule of the parser accepts.
func lex(s string) []token {
	toks := make([]token, 0, len(s)/4+2)
	for i := 0; i < len(s); {
		start, c := i, s[i]
		kind := tokPunct
		i++
		switch {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			continue
		case c >= '0' && c <= '9':
			kind = tokIndex
			for i < len(s) && s[i] >= '0' && s[i] <= '9' {
				i++
			}
		case c == '#' || c == ':' || isWordByte(c):
			kind = tokWord
			for i < len(s) && isWordByte(s[i]) {
				i++
			}
			if c == '#' || c == ':' {
				kind = tokName
				if c == ':' {
					kind = tokValue
				}
				if i == start+1 {
					kind = tokBad
				}
			}
		case c == '<' && i < len(s) && (s[i] == '=' || s[i] == '>'), c == '>' && i < len(s) && s[i] == '=':
			i++
		case strings.IndexByte("=<>()[],.+-", c) >= 0:
		default:
			kind = tokBad
		}
		toks = append(toks, token{kind, s[start:i], start})
	}
	return append(toks, token{kind: tokEnd, text: "<EOF>", pos: len(s)})
}
