package dynamodb

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// scope holds the placeholders of one request and which of them its
// expressions used: the service refuses a request with an unused one.
type scope struct {
	names       map[string]string
	values      item
	usedNames   []string
	usedValues  []string
	attributes  []string // top-level attributes the last expression names
	expressions int
}

func newScope(names map[string]string, values item) (*scope, error) {
	if names != nil && len(names) == 0 {
		return nil, invalid("ExpressionAttributeNames must not be empty")
	}
	if values != nil && len(values) == 0 {
		return nil, invalid("ExpressionAttributeValues must not be empty")
	}
	for k := range names {
		if t := lex(k); len(t) != 2 || t[0].kind != tokName {
			return nil, invalid("ExpressionAttributeNames contains invalid key: Syntax error; key: %q", k)
		}
		if names[k] == "" {
			return nil, invalid("ExpressionAttributeNames contains invalid value: the name of %s is empty", k)
		}
	}
	for k := range values {
		if t := lex(k); len(t) != 2 || t[0].kind != tokValue {
			return nil, invalid("ExpressionAttributeValues contains invalid key: Syntax error; key: %q", k)
		}
	}
	return &scope{names: names, values: values}, nil
}

// done checks that every placeholder was used.
func (s *scope) done() error {
	if s.expressions == 0 {
		if s.names != nil {
			return invalid("ExpressionAttributeNames can only be specified when using expressions")
		}
		if s.values != nil {
			return invalid("ExpressionAttributeValues can only be specified when using expressions")
		}
	}
	for _, k := range slices.Sorted(maps.Keys(s.names)) {
		if !slices.Contains(s.usedNames, k) {
			return invalid("Value provided in ExpressionAttributeNames unused in expressions: keys: {%s}", k)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(s.values)) {
		if !slices.Contains(s.usedValues, k) {
			return invalid("Value provided in ExpressionAttributeValues unused in expressions: keys: {%s}", k)
		}
	}
	return nil
}

// maxExpression is the service's limit on the length of an expression string.
const maxExpression = 4096

// parser walks one expression. The first error sticks and moves it to the
// end, so that rules need not check after each step.
type parser struct {
	*scope
	label string // which expression, for messages
	src   string
	toks  []token
	i     int
	err   error
}

// parse runs one rule over a whole expression.
func parse[T any](s *scope, label, src string, rule func(*parser) T) (T, error) {
	s.expressions++
	s.attributes = nil
	p := &parser{scope: s, label: label, src: src}
	if strings.TrimSpace(src) == "" {
		var zero T
		return zero, invalid("Invalid %s: The expression can not be empty;", label)
	}
	if len(src) > maxExpression {
		var zero T
		return zero, invalid("Invalid %s: Expression size has exceeded the maximum allowed size; expression size: %d", label, len(src))
	}
	p.toks = lex(src)
	t := rule(p)
	if p.err == nil && p.peek().kind != tokEnd {
		p.syntax()
	}
	return t, p.err
}

func (p *parser) peek() token { return p.toks[p.i] }

func (p *parser) next() token {
	t := p.toks[p.i]
	if t.kind != tokEnd {
		p.i++
	}
	return t
}

func (p *parser) fail(format string, a ...any) {
	if p.err == nil {
		p.err = invalid("Invalid %s: %s", p.label, fmt.Sprintf(format, a...))
	}
	p.i = len(p.toks) - 1
}

func (p *parser) syntax() {
	t := p.peek()
	from := 0
	if p.i > 0 {
		from = p.toks[p.i-1].pos
	}
	to := t.pos + len(t.text)
	if p.i+1 < len(p.toks) {
		to = p.toks[p.i+1].pos + len(p.toks[p.i+1].text)
	}
	p.fail("Syntax error; token: %q, near: %q", t.text, p.src[from:min(to, len(p.src))])
}

// punct consumes an operator if it is next.
func (p *parser) punct(text string) bool {
	if t := p.peek(); t.kind != tokPunct || t.text != text {
		return false
	}
	p.i++
	return true
}

func (p *parser) want(text string) {
	if !p.punct(text) {
		p.syntax()
	}
}

// keyword consumes a keyword, in any case, if it is next.
func (p *parser) keyword(word string) bool {
	if t := p.peek(); t.kind != tokWord || !strings.EqualFold(t.text, word) {
		return false
	}
	p.i++
	return true
}

// call reports the name of the function call that is next.
func (p *parser) call() string {
	if t := p.peek(); t.kind == tokWord && p.toks[p.i+1].kind == tokPunct && p.toks[p.i+1].text == "(" {
		return t.text
	}
	return ""
}

// list reads one or more elements with commas between.
func list[T any](p *parser, one func() T) []T {
	l := []T{one()}
	for p.punct(",") {
		l = append(l, one())
	}
	return l
}

func (p *parser) path() path {
	d := path{{name: p.attribute()}}
	p.attributes = append(p.attributes, d[0].name)
	for p.err == nil {
		switch {
		case p.punct("."):
			d = append(d, step{name: p.attribute()})
		case p.punct("["):
			t := p.next()
			n, err := strconv.Atoi(t.text)
			if t.kind != tokIndex || err != nil {
				p.i--
				p.syntax()
			}
			p.want("]")
			d = append(d, step{index: n, list: true})
		default:
			if len(d) > maxNesting {
				p.fail("The document path has too many nesting elements; nesting levels: %d", len(d))
			}
			return d
		}
	}
	return d
}

// attribute reads one name of a path: bare, or by placeholder.
func (p *parser) attribute() string {
	t := p.peek()
	switch t.kind {
	case tokName:
		p.i++
		name, ok := p.names[t.text]
		if !ok {
			p.fail("An expression attribute name used in the document path is not defined; attribute name: %s", t.text)
			return "?"
		}
		p.usedNames = append(p.usedNames, t.text)
		return name
	case tokWord:
		if reserved[strings.ToUpper(t.text)] {
			p.fail("Attribute name is a reserved keyword; reserved keyword: %s", t.text)
			return "?"
		}
		p.i++
		return t.text
	}
	p.syntax()
	return "?"
}

// literal reads a :placeholder.
func (p *parser) literal() value {
	t := p.peek()
	if t.kind != tokValue {
		p.syntax()
		return value{}
	}
	p.i++
	v, ok := p.values[t.text]
	if !ok {
		p.fail("An expression attribute value used in expression is not defined; attribute value: %s", t.text)
		return value{}
	}
	p.usedValues = append(p.usedValues, t.text)
	return v
}

func (p *parser) wrongType(fn string, k kind) {
	p.fail("Incorrect operand type for operator or function; operator or function: %s, operand type: %s", fn, k)
}

// noClash refuses paths that overlap or conflict.
func (p *parser) noClash(paths []path) {
	if err := clashing(paths); err != nil && p.err == nil {
		p.fail("%s", err)
	}
}

// projection is the rule of a ProjectionExpression.
func projection(p *parser) []path {
	paths := list(p, p.path)
	p.noClash(paths)
	return paths
}
