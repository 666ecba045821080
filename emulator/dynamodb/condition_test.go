package dynamodb

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The oracle below evaluates generated conditions on the dumped form of an
// item ({"S": "x"}), sharing nothing with the evaluator under test.

// node is a generated condition: how it is written and what it means.
type node struct {
	text  string
	prec  int // 3 atom, 2 NOT, 1 AND, 0 OR
	truth func(it map[string]any) bool
}

type exprGen struct {
	names  map[string]string
	values item
	n      int
}

func (g *exprGen) value(v value) string {
	g.n++
	k := fmt.Sprintf(":v%d", g.n)
	g.values[k] = v
	return k
}

// word writes a keyword in some case.
func word(t *rapid.T, w string) string {
	if rapid.Bool().Draw(t, "lower") {
		return strings.ToLower(w)
	}
	return w
}

func (g *exprGen) name(t *rapid.T, n string) string {
	if reserved[strings.ToUpper(n)] || rapid.Bool().Draw(t, "placeholder") {
		g.n++
		k := fmt.Sprintf("#n%d", g.n)
		g.names[k] = n
		return k
	}
	return n
}

var attrNames = []string{"a", "b", "c", "status"}

// scalarGen draws few different values so that comparisons often hold.
func scalarGen() *rapid.Generator[value] {
	return rapid.Custom(func(t *rapid.T) value {
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0, 1:
			return stringValue(rapid.SampledFrom([]string{"", "x", "xy", "y"}).Draw(t, "s"))
		case 2, 3:
			return numberValue(rapid.SampledFrom([]string{"0", "1", "2", "10", "-1", "1.5"}).Draw(t, "n"))
		case 4:
			return value{kind: kindB, text: rapid.SampledFrom([]string{"x", "xy"}).Draw(t, "b")}
		}
		return value{kind: kindBool, flag: rapid.Bool().Draw(t, "bool")}
	})
}

func valueGen(depth int) *rapid.Generator[value] {
	return rapid.Custom(func(t *rapid.T) value {
		switch k := rapid.IntRange(0, 7).Draw(t, "shape"); {
		case k == 0:
			return value{kind: kindNull, flag: true}
		case k == 1:
			return setGen().Draw(t, "set")
		case k == 2 && depth > 0:
			return value{kind: kindL, list: rapid.SliceOfN(valueGen(depth-1), 0, 3).Draw(t, "list")}
		case k == 3 && depth > 0:
			return value{kind: kindM, m: item(rapid.MapOfN(rapid.SampledFrom(attrNames), valueGen(depth-1), 0, 2).Draw(t, "map"))}
		}
		return scalarGen().Draw(t, "scalar")
	})
}

func setGen() *rapid.Generator[value] {
	return rapid.Custom(func(t *rapid.T) value {
		if rapid.Bool().Draw(t, "numbers") {
			return setOf(kindNS, rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"0", "1", "2"}), 1, 3, rapid.ID).Draw(t, "ns"))
		}
		return setOf(kindSS, rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "y", "xy"}), 1, 3, rapid.ID).Draw(t, "ss"))
	})
}

func setOf(k kind, texts []string) value {
	v := value{kind: k}
	for _, s := range texts {
		v.list = append(v.list, value{kind: memberKind[k], text: s})
	}
	return v
}

func itemGen() *rapid.Generator[item] {
	return rapid.Custom(func(t *rapid.T) item {
		return item(rapid.MapOfN(rapid.SampledFrom(attrNames), valueGen(2), 0, 4).Draw(t, "item"))
	})
}

// dumb values: lookup answers nil for what is missing.

func lookup(v any, steps []any) any {
	for i, s := range steps {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		if i > 0 { // below the item each value is wrapped in its type
			for k, in := range m {
				if k != "M" && k != "L" {
					return nil
				}
				v = in
			}
		}
		switch s := s.(type) {
		case string:
			m, ok := v.(map[string]any)
			if !ok || m[s] == nil {
				return nil
			}
			v = m[s]
		case int:
			l, ok := v.([]any)
			if !ok || s >= len(l) {
				return nil
			}
			v = l[s]
		}
	}
	return v
}

func typeOf(v any) (string, any) {
	for k, in := range v.(map[string]any) {
		return k, in
	}
	return "", nil
}

// written is a text that two values share exactly when they are equal.
func written(v any) string {
	k, in := typeOf(v)
	switch in := in.(type) {
	case map[string]any:
		var parts []string
		for _, n := range slices.Sorted(maps.Keys(in)) {
			parts = append(parts, strconv.Quote(n)+"="+written(in[n]))
		}
		return k + "{" + strings.Join(parts, ",") + "}"
	case []any:
		var parts []string
		for _, e := range in {
			parts = append(parts, written(e))
		}
		return k + "[" + strings.Join(parts, ",") + "]"
	case []string:
		return fmt.Sprintf("%s%q", k, slices.Sorted(slices.Values(in)))
	case string:
		if k == "N" {
			return "N" + rat(in).RatString()
		}
	}
	return fmt.Sprintf("%s:%v", k, in)
}

func dumbCompare(op string, a, b any) bool {
	equal := a != nil && b != nil && written(a) == written(b)
	switch {
	case op == "=":
		return equal
	case op == "<>":
		return !equal
	case a == nil || b == nil:
		return false
	}
	ka, va := typeOf(a)
	kb, vb := typeOf(b)
	if ka != kb {
		return false
	}
	var c int
	switch ka {
	case "S":
		c = strings.Compare(va.(string), vb.(string))
	case "B":
		c = strings.Compare(string(va.([]byte)), string(vb.([]byte)))
	case "N":
		c = rat(va.(string)).Cmp(rat(vb.(string)))
	default:
		return false
	}
	return map[string]bool{"<": c < 0, "<=": c <= 0, ">": c > 0, ">=": c >= 0}[op]
}

func dumbSize(v any) any {
	if v == nil {
		return nil
	}
	_, in := typeOf(v)
	n := -1
	switch in := in.(type) {
	case string:
		if k, _ := typeOf(v); k == "S" {
			n = len(in)
		}
	case []byte:
		n = len(in)
	case []string:
		n = len(in)
	case []any:
		n = len(in)
	case map[string]any:
		n = len(in)
	}
	if n < 0 {
		return nil
	}
	return map[string]any{"N": strconv.Itoa(n)}
}

func dumbContains(a, b any) bool {
	if a == nil || b == nil {
		return false
	}
	ka, va := typeOf(a)
	kb, vb := typeOf(b)
	switch va := va.(type) {
	case string:
		return ka == "S" && kb == "S" && strings.Contains(va, vb.(string))
	case []byte:
		return kb == "B" && strings.Contains(string(va), string(vb.([]byte)))
	case []string:
		for _, e := range va {
			if ka[:1] == kb && dumbCompare("=", map[string]any{kb: e}, b) {
				return true
			}
		}
	case []any:
		for _, e := range va {
			if written(e) == written(b) {
				return true
			}
		}
	}
	return false
}

// dumbTerm is a generated operand.
type dumbTerm struct {
	text  string
	value func(it map[string]any) any
}

func (g *exprGen) path(t *rapid.T) (string, []any) {
	n := rapid.SampledFrom(attrNames).Draw(t, "attr")
	text, steps := g.name(t, n), []any{n}
	for range rapid.IntRange(0, 2).Draw(t, "depth") {
		if rapid.Bool().Draw(t, "index") {
			i := rapid.IntRange(0, 2).Draw(t, "i")
			text += fmt.Sprintf("[%d]", i)
			steps = append(steps, i)
		} else {
			n := rapid.SampledFrom(attrNames).Draw(t, "member")
			text += "." + g.name(t, n)
			steps = append(steps, n)
		}
	}
	return text, steps
}

func (g *exprGen) pathTerm(t *rapid.T) dumbTerm {
	text, steps := g.path(t)
	if rapid.IntRange(0, 4).Draw(t, "size") == 0 {
		return dumbTerm{"size(" + text + ")", func(it map[string]any) any { return dumbSize(lookup(it, steps)) }}
	}
	return dumbTerm{text, func(it map[string]any) any { return lookup(it, steps) }}
}

func (g *exprGen) literal(v value) dumbTerm {
	return dumbTerm{g.value(v), func(map[string]any) any { return v.plain() }}
}

func orderedGen() *rapid.Generator[value] {
	return scalarGen().Filter(func(v value) bool { return v.kind.ordered() })
}

func (g *exprGen) atom(t *rapid.T) node {
	switch rapid.IntRange(0, 6).Draw(t, "form") {
	case 0, 1:
		op := rapid.SampledFrom([]string{"=", "<>", "<", "<=", ">", ">="}).Draw(t, "op")
		a := g.pathTerm(t)
		from := orderedGen()
		if op == "=" || op == "<>" {
			from = valueGen(1)
		}
		b := g.literal(from.Draw(t, "literal"))
		return node{a.text + rapid.SampledFrom([]string{"", " "}).Draw(t, "space") + op + b.text, 3, func(it map[string]any) bool { return dumbCompare(op, a.value(it), b.value(it)) }}
	case 2:
		x := g.pathTerm(t)
		low, high := orderedGen().Draw(t, "low"), orderedGen().Draw(t, "high")
		if low.kind != high.kind {
			high = low
		}
		if dumbCompare(">", low.plain(), high.plain()) {
			low, high = high, low
		}
		l, h := g.literal(low), g.literal(high)
		return node{x.text + " " + word(t, "BETWEEN") + " " + l.text + " " + word(t, "AND") + " " + h.text, 3, func(it map[string]any) bool {
			return dumbCompare(">=", x.value(it), l.value(it)) && dumbCompare("<=", x.value(it), h.value(it))
		}}
	case 3:
		x := g.pathTerm(t)
		var texts []string
		var terms []dumbTerm
		for range rapid.IntRange(1, 3).Draw(t, "n") {
			o := g.literal(valueGen(1).Draw(t, "in"))
			texts, terms = append(texts, o.text), append(terms, o)
		}
		return node{x.text + " " + word(t, "IN") + " (" + strings.Join(texts, ",") + ")", 3, func(it map[string]any) bool {
			for _, o := range terms {
				if dumbCompare("=", x.value(it), o.value(it)) {
					return true
				}
			}
			return false
		}}
	case 4:
		text, steps := g.path(t)
		if rapid.Bool().Draw(t, "not") {
			return node{"attribute_not_exists(" + text + ")", 3, func(it map[string]any) bool { return lookup(it, steps) == nil }}
		}
		return node{"attribute_exists ( " + text + " )", 3, func(it map[string]any) bool { return lookup(it, steps) != nil }}
	case 5:
		text, steps := g.path(t)
		k := rapid.SampledFrom(kindNames[1:]).Draw(t, "type")
		return node{"attribute_type(" + text + "," + g.value(stringValue(k)) + ")", 3, func(it map[string]any) bool {
			v := lookup(it, steps)
			if v == nil {
				return false
			}
			got, _ := typeOf(v)
			return got == k
		}}
	}
	text, steps := g.path(t)
	if rapid.Bool().Draw(t, "begins") {
		o := g.literal(stringValue(rapid.SampledFrom([]string{"", "x", "xy"}).Draw(t, "prefix")))
		return node{"begins_with(" + text + ", " + o.text + ")", 3, func(it map[string]any) bool {
			v := lookup(it, steps)
			if v == nil {
				return false
			}
			k, in := typeOf(v)
			_, p := typeOf(o.value(it))
			return k == "S" && strings.HasPrefix(in.(string), p.(string))
		}}
	}
	o := g.literal(scalarGen().Draw(t, "part"))
	return node{"contains(" + text + ", " + o.text + ")", 3, func(it map[string]any) bool { return dumbContains(lookup(it, steps), o.value(it)) }}
}

// paren wraps a node where precedence asks for it, and now and then where it
// does not.
func paren(t *rapid.T, n node, need int) string {
	if n.prec < need || !strings.HasPrefix(n.text, "(") && rapid.IntRange(0, 5).Draw(t, "parens") == 0 {
		return "(" + n.text + ")"
	}
	return n.text
}

func (g *exprGen) condition(t *rapid.T, depth int) node {
	switch k := rapid.IntRange(0, 4).Draw(t, "node"); {
	case depth == 0 || k == 0:
		return g.atom(t)
	case k == 1:
		in := g.condition(t, depth-1)
		return node{word(t, "NOT") + " " + paren(t, in, 2), 2, func(it map[string]any) bool { return !in.truth(it) }}
	case k == 2:
		a, b := g.condition(t, depth-1), g.condition(t, depth-1)
		return node{paren(t, a, 0) + " " + word(t, "OR") + " " + paren(t, b, 1), 0, func(it map[string]any) bool { return a.truth(it) || b.truth(it) }}
	default:
		a, b := g.condition(t, depth-1), g.condition(t, depth-1)
		return node{paren(t, a, 1) + " " + word(t, "AND") + " " + paren(t, b, 2), 1, func(it map[string]any) bool { return a.truth(it) && b.truth(it) }}
	}
}

func TestConditionsAgreeWithOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := &exprGen{names: map[string]string{}, values: item{}}
		n := g.condition(t, 3)
		s := &scope{names: g.names, values: g.values}
		c, err := parse(s, "ConditionExpression", n.text, orRule)
		if err != nil {
			t.Fatalf("%s: %v", n.text, err)
		}
		if err := s.done(); err != nil {
			t.Fatalf("%s: %v", n.text, err)
		}
		for i := range 5 {
			it := itemGen().Draw(t, fmt.Sprint("item", i))
			if got, want := c.holds(it), n.truth(it.plain()); got != want {
				t.Fatalf("%s\nwith %v\non %v\nholds: %v, want %v", n.text, g.values.plain(), it.plain(), got, want)
			}
		}
		if got, want := c.holds(nil), n.truth(map[string]any{}); got != want {
			t.Fatalf("%s on no item: %v, want %v", n.text, got, want)
		}
	})
}
