package dynamodb

import (
	"slices"
	"strconv"
)

// condition is a parsed ConditionExpression, FilterExpression or legacy
// condition. holds may be asked of a nil item: that there is none.
type condition interface{ holds(it item) bool }

type (
	both    struct{ a, b condition }
	either  struct{ a, b condition }
	inverse struct{ c condition }

	comparison struct {
		op   string // = <> < <= > >=
		a, b operand
	}
	between struct{ x, low, high operand }
	oneIn   struct {
		x    operand
		list []operand
	}
	exists struct{ path path } // attribute_exists
	typeIs struct {
		path path
		kind kind
	}
	beginsWith struct{ a, b operand }
	contains   struct{ a, b operand }
)

func (c both) holds(it item) bool    { return c.a.holds(it) && c.b.holds(it) }
func (c either) holds(it item) bool  { return c.a.holds(it) || c.b.holds(it) }
func (c inverse) holds(it item) bool { return !c.c.holds(it) }

func (c comparison) holds(it item) bool {
	a, aok := c.a.eval(it)
	b, bok := c.b.eval(it)
	return compareBy(c.op, a, aok, b, bok)
}

// compareBy compares as the service does: what is missing equals nothing, so
// that <> holds of it; values of different types are unequal and unordered.
func compareBy(op string, a value, aok bool, b value, bok bool) bool {
	switch op {
	case "=":
		return aok && bok && a.equal(b)
	case "<>":
		return !aok || !bok || !a.equal(b)
	}
	if !aok || !bok {
		return false
	}
	c, ok := a.compare(b)
	if !ok {
		return false
	}
	switch op {
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	}
	return c >= 0
}

func (c between) holds(it item) bool {
	return comparison{">=", c.x, c.low}.holds(it) && comparison{"<=", c.x, c.high}.holds(it)
}

func (c oneIn) holds(it item) bool {
	return slices.ContainsFunc(c.list, func(o operand) bool { return comparison{"=", c.x, o}.holds(it) })
}

func (c exists) holds(it item) bool {
	_, ok := c.path.get(it)
	return ok
}

func (c typeIs) holds(it item) bool {
	v, ok := c.path.get(it)
	return ok && v.kind == c.kind
}

func (c beginsWith) holds(it item) bool { return bothOf(c.a, c.b, it, value.beginsWith) }
func (c contains) holds(it item) bool   { return bothOf(c.a, c.b, it, value.contains) }

func bothOf(a, b operand, it item, f func(a, b value) bool) bool {
	x, ok1 := a.eval(it)
	y, ok2 := b.eval(it)
	return ok1 && ok2 && f(x, y)
}

// operand is a document path, size(path), or a literal.
type operand struct {
	path path // nil for a literal
	size bool
	v    value
}

func (o operand) literal() bool { return o.path == nil }

func (o operand) eval(it item) (value, bool) {
	if o.literal() {
		return o.v, true
	}
	v, ok := o.path.get(it)
	if !o.size || !ok {
		return v, ok
	}
	n, ok := v.elements()
	return numberValue(strconv.Itoa(n)), ok
}

func (o operand) same(p operand) bool {
	if o.literal() || p.literal() {
		return false
	}
	return o.size == p.size && slices.Equal(o.path, p.path)
}

// maxOperands is the service's limit on operands of IN.
const maxOperands = 100

// orRule is the rule of a whole condition: OR binds weaker than AND, AND than NOT.
func orRule(p *parser) condition {
	c := p.and()
	for p.keyword("OR") {
		c = either{c, p.and()}
	}
	return c
}

func (p *parser) and() condition {
	c := p.not()
	for p.keyword("AND") {
		c = both{c, p.not()}
	}
	return c
}

func (p *parser) not() condition {
	if p.keyword("NOT") {
		return inverse{p.not()}
	}
	return p.primary()
}

func (p *parser) primary() condition {
	if p.punct("(") {
		open := p.i
		c := orRule(p)
		p.want(")")
		// The service refuses a pair that holds nothing but another pair.
		if p.err == nil && p.toks[open].text == "(" && p.matching(open) == p.i-2 {
			p.fail("The expression has redundant parentheses;")
		}
		return c
	}
	if fn := p.call(); fn != "" && fn != "size" {
		return p.function(fn)
	}
	a := p.operand()
	switch t := p.peek(); {
	case t.kind == tokPunct && slices.Contains([]string{"=", "<>", "<", "<=", ">", ">="}, t.text):
		p.i++
		c := comparison{t.text, a, p.operand()}
		if t.text != "=" && t.text != "<>" {
			p.orderable(t.text, c.a, c.b)
		}
		p.distinct(t.text, c.a, c.b)
		return c
	case p.keyword("BETWEEN"):
		c := between{x: a, low: p.operand()}
		if !p.keyword("AND") {
			p.syntax()
		}
		c.high = p.operand()
		p.orderable("BETWEEN", c.x, c.low, c.high)
		p.bounds(c.low, c.high)
		return c
	case p.keyword("IN"):
		p.want("(")
		c := oneIn{a, list(p, p.operand)}
		p.want(")")
		if len(c.list) > maxOperands {
			p.fail("The number of operands of IN is over the limit; operands: %d, limit: %d", len(c.list), maxOperands)
		}
		return c
	}
	p.syntax()
	return nil
}

// matching finds the ")" of the "(" at token i.
func (p *parser) matching(i int) int {
	depth := 0
	for ; i < len(p.toks); i++ {
		switch {
		case p.toks[i].kind != tokPunct:
		case p.toks[i].text == "(":
			depth++
		case p.toks[i].text == ")":
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

func (p *parser) operand() operand {
	if fn := p.call(); fn == "size" {
		p.i += 2
		o := operand{path: p.path(), size: true}
		p.want(")")
		return o
	} else if fn != "" {
		p.misused(fn)
		return operand{}
	}
	if p.peek().kind == tokValue {
		return operand{v: p.literal()}
	}
	return operand{path: p.path()}
}

var conditionFunctions = []string{"attribute_exists", "attribute_not_exists", "attribute_type", "begins_with", "contains", "size"}

func (p *parser) misused(fn string) {
	if !slices.Contains(conditionFunctions, fn) && fn != "if_not_exists" && fn != "list_append" {
		p.fail("Invalid function name; function: %s", fn)
		return
	}
	p.fail("The function is not allowed to be used this way in an expression; function: %s", fn)
}

func (p *parser) function(fn string) condition {
	if !slices.Contains(conditionFunctions, fn) {
		p.misused(fn)
		return nil
	}
	p.i += 2 // name and parenthesis
	args := list(p, p.operand)
	p.want(")")
	want := 2
	if fn == "attribute_exists" || fn == "attribute_not_exists" {
		want = 1
	}
	if p.err == nil && len(args) != want {
		p.fail("Incorrect number of operands for operator or function; operator or function: %s, number of operands: %d", fn, len(args))
	}
	if p.err != nil {
		return nil
	}
	needPath := func() {
		if args[0].literal() || args[0].size {
			p.fail("Operator or function requires a document path; operator or function: %s", fn)
		}
	}
	switch fn {
	case "attribute_exists":
		needPath()
		return exists{args[0].path}
	case "attribute_not_exists":
		needPath()
		return inverse{exists{args[0].path}}
	case "attribute_type":
		needPath()
		v := args[1].v
		k := kindOf(v.text)
		switch {
		case !args[1].literal() || v.kind != kindS:
			p.wrongType(fn, v.kind)
		case k == kindNone:
			p.fail("Invalid attribute type name found; type: %s, valid types: {B,NULL,SS,BOOL,L,BS,N,NS,S,M}", v.text)
		}
		return typeIs{args[0].path, k}
	case "begins_with":
		for _, a := range args {
			if a.literal() && a.v.kind != kindS && a.v.kind != kindB {
				p.wrongType(fn, a.v.kind)
			}
		}
		p.distinct(fn, args...)
		return beginsWith{args[0], args[1]}
	}
	p.distinct(fn, args...)
	return contains{args[0], args[1]}
}

// orderable refuses literals that have no order.
func (p *parser) orderable(op string, operands ...operand) {
	for _, o := range operands {
		if o.literal() && p.err == nil && !o.v.kind.ordered() {
			p.wrongType(op, o.v.kind)
		}
	}
}

func (p *parser) distinct(op string, operands ...operand) {
	if p.err == nil && operands[0].same(operands[1]) {
		p.fail("The first operand must be distinct from the remaining operands for this operator or function; operator: %s, first operand: %s", op, operands[0].path)
	}
}

func (p *parser) bounds(low, high operand) {
	if p.err != nil || !low.literal() || !high.literal() {
		return
	}
	c, ok := low.v.compare(high.v)
	if !ok {
		p.fail("The BETWEEN operator requires same data type for lower and upper bounds; lower bound operand type: %s, upper bound operand type: %s", low.v.kind, high.v.kind)
	} else if c > 0 {
		p.fail("The BETWEEN operator requires upper bound to be greater than or equal to lower bound; lower bound operand: %s, upper bound operand: %s", low.v.text, high.v.text)
	}
}
