package dynamodb

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// obj is a JSON object under construction, members in order.
type obj []pair

type pair struct {
	name string
	v    any
}

// with adds a member when cond holds.
func (o obj) with(cond bool, name string, v any) obj {
	if !cond {
		return o
	}
	return append(o, pair{name, v})
}

// members finds an array of objects by name.
func (o obj) members(name string) []obj {
	for _, p := range o {
		if p.name == name {
			return p.v.([]obj)
		}
	}
	return nil
}

// appendJSON writes v: the types this package answers with, no reflection.
func appendJSON(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case obj:
		b = append(b, '{')
		for i, p := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(b, p.name)
			b = append(b, ':')
			b = appendJSON(b, p.v)
		}
		return append(b, '}')
	case []obj:
		return appendArray(b, v, func(b []byte, o obj) []byte { return appendJSON(b, o) })
	case []item:
		return appendArray(b, v, appendItem)
	case []string:
		return appendArray(b, v, appendString)
	case item:
		return appendItem(b, v)
	case string:
		return appendString(b, v)
	case bool:
		return strconv.AppendBool(b, v)
	case int:
		return strconv.AppendInt(b, int64(v), 10)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case float64:
		return strconv.AppendFloat(b, v, 'f', -1, 64)
	case time.Time: // seconds, with fractions
		return strconv.AppendFloat(b, float64(v.UnixMilli())/1000, 'f', -1, 64)
	}
	panic(fmt.Sprintf("dynamodb emulator: cannot encode a %T", v)) // a mistake in this package
}

func appendArray[E any](b []byte, list []E, one func([]byte, E) []byte) []byte {
	b = append(b, '[')
	for i, e := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = one(b, e)
	}
	return append(b, ']')
}

func appendItem(b []byte, it item) []byte {
	b = append(b, '{')
	var few [24]string // no allocation for items of the usual size
	keys := few[:0]
	for k := range it {
		keys = append(keys, k)
	}
	slices.Sort(keys) // answers are the same in each run
	for i, k := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, k)
		b = append(b, ':')
		b = appendValue(b, it[k])
	}
	return append(b, '}')
}

func appendValue(b []byte, v value) []byte {
	b = append(b, '{', '"')
	b = append(b, v.kind.String()...)
	b = append(b, '"', ':')
	switch v.kind {
	case kindS, kindN:
		b = appendString(b, v.text)
	case kindB:
		b = appendBinary(b, v.text)
	case kindBool:
		b = strconv.AppendBool(b, v.flag)
	case kindNull:
		b = append(b, "true"...)
	case kindM:
		b = appendItem(b, v.m)
	case kindL:
		b = appendArray(b, v.list, appendValue)
	case kindBS:
		b = appendArray(b, v.list, func(b []byte, e value) []byte { return appendBinary(b, e.text) })
	default:
		b = appendArray(b, v.list, func(b []byte, e value) []byte { return appendString(b, e.text) })
	}
	return append(b, '}')
}

func appendBinary(b []byte, s string) []byte {
	b = append(b, '"')
	b = base64.StdEncoding.AppendEncode(b, []byte(s))
	return append(b, '"')
}

func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r != utf8.RuneError || n > 1 {
				i += n
				continue
			}
		}
		b = append(b, s[start:i]...)
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c >= utf8.RuneSelf:
			b = append(b, `\ufffd`...)
		default:
			b = append(b, fmt.Sprintf(`\u%04x`, c)...)
		}
		i++
		start = i
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}
