package dynamodb

import (
	"bytes"
	"slices"
	"strings"
)

// kind is the type of an attribute value.
type kind byte

const (
	kindNone kind = iota
	kindS
	kindN
	kindB
	kindBool
	kindNull
	kindM
	kindL
	kindSS
	kindNS
	kindBS
)

var kindNames = [...]string{"", "S", "N", "B", "BOOL", "NULL", "M", "L", "SS", "NS", "BS"}

func (k kind) String() string { return kindNames[k] }

func kindOf(name string) kind {
	for i, n := range kindNames {
		if n == name {
			return kind(i)
		}
	}
	return kindNone
}

func (k kind) isSet() bool { return k == kindSS || k == kindNS || k == kindBS }

// ordered reports whether values of this type can be compared with < and >.
func (k kind) ordered() bool { return k == kindS || k == kindN || k == kindB }

// longName is what the service calls the type in messages about expressions.
func (k kind) longName() string {
	return map[kind]string{kindS: "STRING", kindN: "NUMBER", kindB: "BINARY", kindBool: "BOOLEAN", kindNull: "NULL",
		kindM: "MAP", kindL: "LIST", kindSS: "STRING_SET", kindNS: "NUMBER_SET", kindBS: "BINARY_SET"}[k]
}

// value is one attribute value. Values and items are immutable once stored
// or parsed: a change makes a copy of what lies on its path, so readers need
// no lock.
type value struct {
	kind kind
	flag bool    // BOOL
	text string  // S; N as canonical text; B as raw bytes
	list []value // L, and the members of a set in their order of arrival
	m    item    // M
}

type item map[string]value

func stringValue(s string) value { return value{kind: kindS, text: s} }
func numberValue(s string) value { return value{kind: kindN, text: s} } // s canonical

func (v value) equal(w value) bool {
	if v.kind != w.kind {
		return false
	}
	switch v.kind {
	case kindBool:
		return v.flag == w.flag
	case kindM:
		return v.m.equal(w.m)
	case kindL:
		return slices.EqualFunc(v.list, w.list, value.equal)
	case kindSS, kindNS, kindBS:
		if len(v.list) != len(w.list) {
			return false
		}
		return !slices.ContainsFunc(v.list, func(e value) bool { return !w.has(e) })
	}
	return v.text == w.text
}

func (i item) equal(j item) bool {
	if len(i) != len(j) {
		return false
	}
	for k, v := range i {
		if w, ok := j[k]; !ok || !v.equal(w) {
			return false
		}
	}
	return true
}

// has reports whether a list or set holds e.
func (v value) has(e value) bool { return slices.ContainsFunc(v.list, e.equal) }

// compare orders two values of the same ordered type; ok is false otherwise.
func (v value) compare(w value) (c int, ok bool) {
	if v.kind != w.kind || !v.kind.ordered() {
		return 0, false
	}
	if v.kind == kindN {
		return compareNumbers(v.text, w.text), true
	}
	return strings.Compare(v.text, w.text), true
}

// size is the number of bytes the service counts for the value ("Item sizes
// and formats" in the Developer Guide; its figure for numbers is approximate).
func (v value) size() int {
	switch v.kind {
	case kindN:
		n := len(strings.TrimRight(v.text, "0"))
		return (n+1)/2 + 1
	case kindBool, kindNull:
		return 1
	case kindM:
		return 3 + len(v.m) + v.m.size()
	case kindL:
		n := 3 + len(v.list)
		for _, e := range v.list {
			n += e.size()
		}
		return n
	case kindSS, kindNS, kindBS:
		n := 0
		for _, e := range v.list {
			n += e.size()
		}
		return n
	}
	return len(v.text)
}

func (i item) size() int {
	n := 0
	for k, v := range i {
		n += len(k) + v.size()
	}
	return n
}

// elements is what the size function of expressions answers; ok is false for
// the types it is not defined for.
func (v value) elements() (n int, ok bool) {
	switch v.kind {
	case kindS, kindB:
		return len(v.text), true
	case kindM:
		return len(v.m), true
	case kindL, kindSS, kindNS, kindBS:
		return len(v.list), true
	}
	return 0, false
}

// contains is the contains function and the legacy CONTAINS operator.
func (v value) contains(w value) bool {
	switch v.kind {
	case kindS, kindB:
		return v.kind == w.kind && strings.Contains(v.text, w.text)
	case kindL:
		return v.has(w)
	case kindSS, kindNS, kindBS:
		return v.has(w)
	}
	return false
}

func (v value) beginsWith(w value) bool {
	return (v.kind == kindS || v.kind == kindB) && v.kind == w.kind && strings.HasPrefix(v.text, w.text)
}

// plain is the value in the form of the AWS JSON protocol, for dumps.
func (v value) plain() map[string]any {
	var x any
	switch v.kind {
	case kindS, kindN:
		x = v.text
	case kindB:
		x = []byte(v.text)
	case kindBool:
		x = v.flag
	case kindNull:
		x = true
	case kindM:
		x = v.m.plain()
	case kindL:
		l := make([]any, len(v.list))
		for i, e := range v.list {
			l[i] = e.plain()
		}
		x = l
	case kindBS:
		l := make([][]byte, len(v.list))
		for i, e := range v.list {
			l[i] = bytes.Clone([]byte(e.text))
		}
		x = l
	default:
		l := make([]string, len(v.list))
		for i, e := range v.list {
			l[i] = e.text
		}
		x = l
	}
	return map[string]any{v.kind.String(): x}
}

func (i item) plain() map[string]any {
	m := make(map[string]any, len(i))
	for k, v := range i {
		m[k] = v.plain()
	}
	return m
}
