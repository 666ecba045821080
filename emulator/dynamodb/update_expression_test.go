package dynamodb

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// dumbUpdate is what a generated update means for one top-level attribute:
// from the old dumped value (nil: missing) to the new one (nil: removed).
type dumbUpdate func(old any, it map[string]any) (any, bool)

func plainN(s string) any { return map[string]any{"N": s} }

func isKind(v any, k string) bool {
	if v == nil {
		return false
	}
	got, _ := typeOf(v)
	return got == k
}

// number draws a literal number and its text.
func (g *exprGen) number(t *rapid.T) (placeholder, text string) {
	text = rapid.SampledFrom([]string{"1", "2.5", "-3", "100"}).Draw(t, "by")
	return g.value(numberValue(text)), text
}

func dumbSum(a, b string, sign string) any {
	x, y := rat(a), rat(b)
	if sign == "-" {
		y.Neg(y)
	}
	return plainN(strings.TrimSuffix(strings.TrimRight(x.Add(x, y).FloatString(6), "0"), "."))
}

// action draws one action on an attribute: section, text, meaning. A meaning
// that answers false expects the request to be refused.
func (g *exprGen) action(t *rapid.T, attr string) (section, text string, mean dumbUpdate) {
	name := g.name(t, attr)
	switch rapid.IntRange(0, 7).Draw(t, "action") {
	case 0:
		v := valueGen(1).Draw(t, "v")
		return "SET", name + " = " + g.value(v), func(any, map[string]any) (any, bool) { return v.plain(), true }
	case 1: // copied from another attribute
		from := rapid.SampledFrom(attrNames).Draw(t, "from")
		return "SET", name + "=" + g.name(t, from), func(_ any, it map[string]any) (any, bool) { return it[from], it[from] != nil }
	case 2:
		sign := rapid.SampledFrom([]string{"+", "-"}).Draw(t, "sign")
		p, by := g.number(t)
		return "SET", name + " = " + g.name(t, attr) + " " + sign + " " + p, func(old any, _ map[string]any) (any, bool) {
			if !isKind(old, "N") {
				return nil, false
			}
			_, n := typeOf(old)
			return dumbSum(n.(string), by, sign), true
		}
	case 3:
		v := valueGen(1).Draw(t, "default")
		return "SET", name + " = if_not_exists(" + g.name(t, attr) + ", " + g.value(v) + ")", func(old any, _ map[string]any) (any, bool) {
			if old != nil {
				return old, true
			}
			return v.plain(), true
		}
	case 4:
		l := rapid.SliceOfN(scalarGen(), 0, 2).Draw(t, "tail")
		p := g.value(value{kind: kindL, list: l})
		return "SET", name + " = list_append(" + g.name(t, attr) + "," + p + ")", func(old any, _ map[string]any) (any, bool) {
			if !isKind(old, "L") {
				return nil, false
			}
			_, in := typeOf(old)
			out := slices.Clone(in.([]any))
			for _, e := range l {
				out = append(out, e.plain())
			}
			return map[string]any{"L": out}, true
		}
	case 5:
		return "REMOVE", name, func(any, map[string]any) (any, bool) { return nil, true }
	case 6:
		if rapid.Bool().Draw(t, "number") {
			p, by := g.number(t)
			return "ADD", name + " " + p, func(old any, _ map[string]any) (any, bool) {
				switch {
				case old == nil:
					return plainN(by), true
				case !isKind(old, "N"):
					return nil, false
				}
				_, n := typeOf(old)
				return dumbSum(n.(string), by, "+"), true
			}
		}
		s := setGen().Draw(t, "add")
		return "ADD", name + " " + g.value(s), dumbSet(s, func(had, given bool) bool { return had || given })
	}
	s := setGen().Draw(t, "delete")
	return "DELETE", name + " " + g.value(s), dumbSet(s, func(had, given bool) bool { return had && !given })
}

// dumbSet keeps what keep says of each member of either set.
func dumbSet(s value, keep func(had, given bool) bool) dumbUpdate {
	k := s.kind.String()
	_, in := typeOf(s.plain())
	given := in.([]string)
	return func(old any, _ map[string]any) (any, bool) {
		var had []string
		if old != nil {
			if !isKind(old, k) {
				return nil, false
			}
			_, in := typeOf(old)
			had = in.([]string)
		}
		var out []string
		for _, e := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(had, given)))) {
			if keep(slices.Contains(had, e), slices.Contains(given, e)) {
				out = append(out, e)
			}
		}
		if out == nil {
			return nil, true
		}
		return map[string]any{k: out}, true
	}
}

func TestUpdatesAgreeWithOracle(t *testing.T) {
	refused := 0
	rapid.Check(t, func(t *rapid.T) {
		g := &exprGen{names: map[string]string{}, values: item{}}
		sections := map[string][]string{}
		means := map[string]dumbUpdate{}
		for _, attr := range rapid.SliceOfNDistinct(rapid.SampledFrom(attrNames), 1, 3, rapid.ID).Draw(t, "attrs") {
			section, text, mean := g.action(t, attr)
			sections[section] = append(sections[section], text)
			means[attr] = mean
		}
		var parts []string
		for _, s := range rapid.Permutation(slices.Sorted(maps.Keys(sections))).Draw(t, "order") {
			parts = append(parts, word(t, s)+" "+strings.Join(sections[s], ", "))
		}
		text := strings.Join(parts, " ")
		sc := &scope{names: g.names, values: g.values}
		u, err := parse(sc, "UpdateExpression", text, updateRule)
		if err == nil {
			err = sc.done()
		}
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		it := itemGen().Draw(t, "item")
		before := it.plain()
		want, ok := it.plain(), true
		for attr, mean := range means {
			v, good := mean(before[attr], before)
			ok = ok && good
			if v == nil {
				delete(want, attr)
			} else {
				want[attr] = v
			}
		}
		got, err := u.apply(it)
		if (err == nil) != ok {
			t.Fatalf("%s on %v: error %v, want success %v", text, before, err, ok)
		}
		if !ok {
			refused++
			return
		}
		if g, w := written(map[string]any{"M": got.plain()}), written(map[string]any{"M": want}); g != w {
			t.Fatalf("%s\non   %v\nmade %s\nwant %s", text, before, g, w)
		}
		if written(map[string]any{"M": it.plain()}) != written(map[string]any{"M": before}) {
			t.Fatalf("%s changed the old item", text)
		}
	})
	if refused == 0 {
		t.Error("no generated update was refused: the generator no longer covers errors")
	}
}

// applyText applies an expression to an item given as JSON.
func applyText(t *testing.T, on, expr, values string) (string, error) {
	t.Helper()
	var it, vals item
	if err := it.UnmarshalJSON([]byte(on)); err != nil {
		t.Fatal(err)
	}
	if values != "" {
		if err := vals.UnmarshalJSON([]byte(values)); err != nil {
			t.Fatal(err)
		}
	}
	u, err := parse(&scope{values: vals}, "UpdateExpression", expr, updateRule)
	if err != nil {
		return "", err
	}
	before := string(appendItem(nil, it))
	out, err := u.apply(it)
	if after := string(appendItem(nil, it)); after != before {
		t.Errorf("%s changed the stored item: %s", expr, after)
	}
	return string(appendItem(nil, out)), err
}

func TestUpdateInsideDocuments(t *testing.T) {
	const on = `{"l":{"L":[{"N":"0"},{"N":"1"},{"N":"2"},{"N":"3"}]},"m":{"M":{"x":{"N":"5"},"s":{"SS":["a","b"]}}}}`
	const vals = `{":v":{"N":"9"},":s":{"SS":["a","b"]}}`
	for _, c := range []struct{ name, expr, want string }{
		{"indexes of REMOVE mean the old list", "REMOVE l[0], l[2]", `{"l":{"L":[{"N":"1"},{"N":"3"}]},"m":{"M":{"s":{"SS":["a","b"]},"x":{"N":"5"}}}}`},
		{"indexes of SET mean the old list", "REMOVE l[0] SET l[1] = :v", `{"l":{"L":[{"N":"9"},{"N":"2"},{"N":"3"}]},"m":{"M":{"s":{"SS":["a","b"]},"x":{"N":"5"}}}}`},
		{"an index past the end appends", "SET l[77] = :v", `{"l":{"L":[{"N":"0"},{"N":"1"},{"N":"2"},{"N":"3"},{"N":"9"}]},"m":{"M":{"s":{"SS":["a","b"]},"x":{"N":"5"}}}}`},
		{"removing past the end is nothing", "REMOVE l[77]", `{"l":{"L":[{"N":"0"},{"N":"1"},{"N":"2"},{"N":"3"}]},"m":{"M":{"s":{"SS":["a","b"]},"x":{"N":"5"}}}}`},
		{"member set from a member", "SET m.y = m.x + :v", `{"l":{"L":[{"N":"0"},{"N":"1"},{"N":"2"},{"N":"3"}]},"m":{"M":{"s":{"SS":["a","b"]},"x":{"N":"5"},"y":{"N":"14"}}}}`},
		{"an emptied set goes", "DELETE m.s :s", `{"l":{"L":[{"N":"0"},{"N":"1"},{"N":"2"},{"N":"3"}]},"m":{"M":{"x":{"N":"5"}}}}`},
		{"all see the old item", "SET l = m, m = l", `{"l":{"M":{"s":{"SS":["a","b"]},"x":{"N":"5"}}},"m":{"L":[{"N":"0"},{"N":"1"},{"N":"2"},{"N":"3"}]}}`},
	} {
		if got, err := applyText(t, on, c.expr, vals); err != nil || got != c.want {
			t.Errorf("%s: %s\nmade %s %v\nwant %s", c.name, c.expr, got, err, c.want)
		}
	}
	for _, expr := range []string{"SET nope.x = :v", "SET l.x = :v", "SET m[0] = :v", "REMOVE nope.x", "SET m.nope.x = :v", "ADD nope.x :v"} {
		if got, err := applyText(t, on, expr, vals); err == nil || !strings.Contains(err.Error(), "document path provided in the update expression is invalid") {
			t.Errorf("%s: made %s, error %v, want an invalid document path", expr, got, err)
		}
	}
}

func TestExpressionsRefused(t *testing.T) {
	vals := item{":n": numberValue("1"), ":m": numberValue("2"), ":s": stringValue("x"), ":b": value{kind: kindBool}, ":ss": setOf(kindSS, []string{"x"})}
	names := map[string]string{"#n": "a", "#m": "b"}
	condition := func(src string) error {
		_, err := parse(&scope{names: names, values: vals}, "ConditionExpression", src, orRule)
		return err
	}
	update := func(src string) error {
		_, err := parse(&scope{names: names, values: vals}, "UpdateExpression", src, updateRule)
		return err
	}
	project := func(src string) error {
		_, err := parse(&scope{names: names, values: vals}, "ProjectionExpression", src, projection)
		return err
	}
	for _, c := range []struct {
		parse     func(string) error
		src, says string
	}{
		{condition, "", "can not be empty"},
		{condition, "  ", "can not be empty"},
		{condition, "a = ", "Syntax error"},
		{condition, "a == :n", "Syntax error"},
		{condition, "a = :n AND", "Syntax error"},
		{condition, "a = :n b", "Syntax error"},
		{condition, "(a = :n", "Syntax error"},
		{condition, "a = :n)", "Syntax error"},
		{condition, "a IN ()", "Syntax error"},
		{condition, "a BETWEEN :n", "Syntax error"},
		{condition, "a[x] = :n", "Syntax error"},
		{condition, "a[-1] = :n", "Syntax error"},
		{condition, "a. = :n", "Syntax error"},
		{condition, ": = a", "Syntax error"},
		{condition, "# = :n", "Syntax error"},
		{condition, "a ; b", "Syntax error"},
		{condition, "a != :n", "Syntax error"},
		{condition, "a = 1", "Syntax error"},
		{condition, "a = 'x'", "Syntax error"},
		{condition, "status = :n", "reserved keyword: status"},
		{condition, "a.Name = :n", "reserved keyword: Name"},
		{condition, "#zz = :n", "attribute name: #zz"},
		{condition, "a = :zz", "attribute value: :zz"},
		{condition, "((a = :n))", "redundant parentheses"},
		{condition, "nofunction(a)", "Invalid function name; function: nofunction"},
		{condition, "Attribute_Exists(a)", "Invalid function name; function: Attribute_Exists"},
		{condition, "size(a)", "Syntax error"},
		{condition, "if_not_exists(a, :n)", "not allowed to be used this way"},
		{condition, "a = attribute_exists(b)", "not allowed to be used this way"},
		{condition, "attribute_exists(a, b)", "Incorrect number of operands"},
		{condition, "attribute_exists(:n)", "requires a document path"},
		{condition, "begins_with(a)", "Incorrect number of operands"},
		{condition, "begins_with(a, :n)", "Incorrect operand type"},
		{condition, "begins_with(a, a)", "must be distinct"},
		{condition, "attribute_type(a, :n)", "Incorrect operand type"},
		{condition, "attribute_type(a, :s)", "Invalid attribute type name"},
		{condition, "a < :b", "Incorrect operand type"},
		{condition, "a < :ss", "Incorrect operand type"},
		{condition, "a = a", "must be distinct"},
		{condition, "a BETWEEN :m AND :n", "upper bound to be greater"},
		{condition, "a BETWEEN :n AND :s", "same data type"},
		{condition, strings.Repeat("a = :n OR ", 500) + "a = :n", "maximum allowed size"},
		{condition, "a IN (" + strings.Repeat(":n,", 100) + ":n)", "over the limit"},
		{update, "", "can not be empty"},
		{update, "a = :n", "Syntax error"},
		{update, "SET", "Syntax error"},
		{update, "SET a", "Syntax error"},
		{update, "SET a = :n,", "Syntax error"},
		{update, "SET a = b = c", "Syntax error"},
		{update, "SET a = :n + :n + :n", "Syntax error"},
		{update, "SET a = :n SET b = :n", `"SET" section can only be used once`},
		{update, "SET a = :n, a = :m", "overlap"},
		{update, "SET a.x = :n, a = :m", "overlap"},
		{update, "SET a.x = :n REMOVE a[0]", "conflict"},
		{update, "SET #n = :n REMOVE a", "overlap"},
		{update, "SET a = b + :s", "Incorrect operand type"},
		{update, "SET a = list_append(b, :n)", "Incorrect operand type"},
		{update, "SET a = size(b)", "not allowed to be used this way"},
		{update, "SET a = nofunction(b)", "Invalid function name"},
		{update, "REMOVE a, status", "reserved keyword: status"},
		{update, "ADD a b", "Syntax error"},
		{update, "ADD a :s", "Incorrect operand type"},
		{update, "DELETE a :n", "Incorrect operand type"},
		{update, "SET a = :zz", "attribute value: :zz"},
		{project, "a,", "Syntax error"},
		{project, "a, b, #n", "overlap"},
		{project, "a.x, a[0]", "conflict"},
		{project, ":n", "Syntax error"},
	} {
		err := c.parse(c.src)
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), "ValidationException: Invalid ") {
			t.Errorf("%.60q: error %v, want one that says %q", c.src, err, c.says)
		}
	}
}

func TestProjection(t *testing.T) {
	var it item
	if err := it.UnmarshalJSON([]byte(`{"a":{"N":"1"},"l":{"L":[{"N":"0"},{"M":{"x":{"N":"1"},"y":{"N":"2"}}},{"N":"2"}]},"m":{"M":{"x":{"N":"1"},"y":{"N":"2"}}}}`)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ src, want string }{
		{"a", `{"a":{"N":"1"}}`},
		{"zz", `{}`},
		{"m.x, a", `{"a":{"N":"1"},"m":{"M":{"x":{"N":"1"}}}}`},
		{"l[2], l[0]", `{"l":{"L":[{"N":"0"},{"N":"2"}]}}`},
		{"l[1].y", `{"l":{"L":[{"M":{"y":{"N":"2"}}}]}}`},
		{"l[9], m.zz, a.b", `{}`},
	} {
		ps, err := parse(&scope{}, "ProjectionExpression", c.src, projection)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(appendItem(nil, project(it, ps))); got != c.want {
			t.Errorf("%s: got %s, want %s", c.src, got, c.want)
		}
	}
}
