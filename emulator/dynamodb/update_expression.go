package dynamodb

import (
	"maps"
	"slices"
	"strings"
)

// update is a parsed UpdateExpression, or the legacy AttributeUpdates turned
// into one. Every right-hand side sees the item as it was.
type update struct {
	sets    []assignment
	adds    []delta
	deletes []delta
	removes []path
}

type assignment struct {
	to   path
	from term
}

type delta struct {
	to path
	by value
}

// paths lists what the update touches.
func (u *update) paths() []path {
	var ps []path
	for _, s := range u.sets {
		ps = append(ps, s.to)
	}
	ps = append(ps, u.removes...)
	for _, d := range slices.Concat(u.adds, u.deletes) {
		ps = append(ps, d.to)
	}
	return ps
}

// term is the right-hand side of SET.
type term interface {
	eval(it item) (value, error)
}

type (
	literal   struct{ v value }
	reference struct{ path path }
	ifMissing struct {
		path path
		term term
	}
	joined struct{ a, b term } // list_append
	sum    struct {
		a, b  term
		minus bool
	}
)

func errOperandType() error {
	return invalid("An operand in the update expression has an incorrect data type")
}

func (t literal) eval(item) (value, error) { return t.v, nil }

func (t reference) eval(it item) (value, error) {
	v, ok := t.path.get(it)
	if !ok {
		return v, invalid("The provided expression refers to an attribute that does not exist in the item")
	}
	return v, nil
}

func (t ifMissing) eval(it item) (value, error) {
	if v, ok := t.path.get(it); ok {
		return v, nil
	}
	return t.term.eval(it)
}

func evalBoth(a, b term, k kind, it item) (x, y value, err error) {
	if x, err = a.eval(it); err != nil {
		return
	}
	if y, err = b.eval(it); err != nil {
		return
	}
	if x.kind != k || y.kind != k {
		err = errOperandType()
	}
	return
}

func (t joined) eval(it item) (value, error) {
	x, y, err := evalBoth(t.a, t.b, kindL, it)
	return value{kind: kindL, list: slices.Concat(x.list, y.list)}, err
}

func (t sum) eval(it item) (value, error) {
	x, y, err := evalBoth(t.a, t.b, kindN, it)
	if err != nil {
		return value{}, err
	}
	if t.minus {
		y.text = negate(y.text)
	}
	n, err := addNumbers(x.text, y.text)
	return numberValue(n), err
}

// apply answers the item after the update; old is left as it is.
func (u *update) apply(old item) (item, error) {
	it := maps.Clone(old)
	if it == nil {
		it = item{}
	}
	// Values first: all of them see the old item.
	values := make([]value, len(u.sets))
	for i, s := range u.sets {
		v, err := s.from.eval(old)
		if err != nil {
			return nil, err
		}
		values[i] = v
	}
	for i, s := range u.sets {
		if err := s.to.set(it, values[i]); err != nil {
			return nil, err
		}
	}
	for _, d := range u.adds {
		v, err := d.added(old)
		if err == nil {
			err = d.to.set(it, v)
		}
		if err != nil {
			return nil, err
		}
	}
	// Removal comes last and from the back, so that indexes mean the old list.
	removes := slices.Clone(u.removes)
	for _, d := range u.deletes {
		v, ok := d.to.get(old)
		if !ok {
			continue
		}
		left, err := d.without(v)
		if err != nil {
			return nil, err
		}
		if len(left.list) == 0 {
			removes = append(removes, d.to) // there are no empty sets
		} else if err := d.to.set(it, left); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(removes, func(p, q path) int { return comparePaths(q, p) })
	for _, p := range removes {
		if err := p.remove(it); err != nil {
			return nil, err
		}
	}
	return it, nil
}

// added is the ADD action: a number or the members of a set.
func (d delta) added(it item) (value, error) {
	v, ok := d.to.get(it)
	if !ok {
		return d.by, nil
	}
	if v.kind != d.by.kind {
		return v, errOperandType()
	}
	if v.kind == kindN {
		n, err := addNumbers(v.text, d.by.text)
		return numberValue(n), err
	}
	out := value{kind: v.kind, list: slices.Clone(v.list)}
	for _, e := range d.by.list {
		if !v.has(e) {
			out.list = append(out.list, e)
		}
	}
	return out, nil
}

// without is the DELETE action on a set.
func (d delta) without(v value) (value, error) {
	if v.kind != d.by.kind {
		return v, errOperandType()
	}
	out := value{kind: v.kind}
	for _, e := range v.list {
		if !d.by.has(e) {
			out.list = append(out.list, e)
		}
	}
	return out, nil
}

// updateRule is the rule of an UpdateExpression: each section once, any order.
func updateRule(p *parser) *update {
	u := &update{}
	seen := map[string]bool{}
	for p.err == nil && (len(seen) == 0 || p.peek().kind != tokEnd) {
		section := strings.ToUpper(p.peek().text)
		if seen[section] {
			p.fail("The %q section can only be used once in an update expression;", section)
			break
		}
		seen[section] = true
		switch {
		case p.keyword("SET"):
			u.sets = list(p, p.assignment)
		case p.keyword("REMOVE"):
			u.removes = list(p, p.path)
		case p.keyword("ADD"):
			u.adds = list(p, func() delta { return p.delta("ADD") })
		case p.keyword("DELETE"):
			u.deletes = list(p, func() delta { return p.delta("DELETE") })
		default:
			p.syntax()
		}
	}
	p.noClash(u.paths())
	return u
}

func (p *parser) assignment() assignment {
	a := assignment{to: p.path()}
	p.want("=")
	a.from = p.sum()
	return a
}

func (p *parser) sum() term {
	if p.punct("(") {
		t := p.sum()
		p.want(")")
		return t
	}
	a := p.term()
	minus := p.punct("-")
	if !minus && !p.punct("+") {
		return a
	}
	b := p.term()
	op := "+"
	if minus {
		op = "-"
	}
	p.literalsAre(op, kindN, a, b)
	return sum{a, b, minus}
}

func (p *parser) literalsAre(fn string, k kind, terms ...term) {
	for _, t := range terms {
		if l, ok := t.(literal); ok && p.err == nil && l.v.kind != k {
			p.wrongType(fn, l.v.kind)
		}
	}
}

func (p *parser) term() term {
	if p.err != nil {
		return literal{}
	}
	switch fn := p.call(); fn {
	case "":
		if p.peek().kind == tokValue {
			return literal{p.literal()}
		}
		return reference{p.path()}
	case "if_not_exists":
		p.i += 2
		t := ifMissing{path: p.path()}
		p.want(",")
		t.term = p.term()
		p.want(")")
		return t
	case "list_append":
		p.i += 2
		a := p.term()
		p.want(",")
		b := p.term()
		p.want(")")
		p.literalsAre(fn, kindL, a, b)
		return joined{a, b}
	default:
		p.misused(fn)
		return literal{}
	}
}

func (p *parser) delta(op string) delta {
	d := delta{to: p.path(), by: p.literal()}
	k := d.by.kind
	if p.err == nil && !k.isSet() && (op == "DELETE" || k != kindN) {
		p.fail("Incorrect operand type for operator or function; operator: %s, operand type: %s, typeSet: ALLOWED_FOR_%s_OPERAND", op, k.longName(), op)
	}
	return d
}
