package dynamodb

import (
	"slices"
	"strings"
)

type query struct {
	paging
	KeyConditionExpression *string
	KeyConditions          map[string]legacyFilter
	QueryFilter            map[string]legacyFilter
	ScanIndexForward       *bool

	terms []keyTerm
}

// keyTerm is one condition on a key attribute.
type keyTerm struct {
	attr   string
	c      condition
	equals *value  // when the condition is an equality
	args   []value // to check the type of
}

func (r *query) check() error {
	err := r.parse("QueryFilter", r.QueryFilter,
		given("KeyConditions", r.KeyConditions != nil), given("KeyConditionExpression", r.KeyConditionExpression != nil),
		func(sc *scope) error {
			if r.KeyConditionExpression == nil {
				return nil
			}
			c, err := parse(sc, "KeyConditionExpression", *r.KeyConditionExpression, orRule)
			if err != nil {
				return err
			}
			return r.addTerms(c)
		})
	if err != nil {
		return err
	}
	if r.KeyConditionExpression == nil && r.KeyConditions == nil {
		return invalid("Either the KeyConditions or KeyConditionExpression parameter must be specified in the request.")
	}
	for attr, f := range r.KeyConditions {
		if !slices.Contains([]string{"EQ", "LE", "LT", "GE", "GT", "BEGINS_WITH", "BETWEEN"}, f.ComparisonOperator) {
			if err := oneOf("comparisonOperator", f.ComparisonOperator, legacyOperators...); err != nil {
				return err
			}
			return invalid("Attempted conditional constraint is not an indexable operation")
		}
		c, err := legacyCondition(attr, f.ComparisonOperator, f.AttributeValueList)
		if err != nil {
			return err
		}
		if err := r.addTerms(c); err != nil {
			return err
		}
	}
	return nil
}

// addTerms takes the conditions on keys out of a parsed expression: one or
// two, joined by AND.
func (r *query) addTerms(c condition) error {
	bad := func(format string, a ...any) error {
		return invalid("Invalid KeyConditionExpression: "+format, a...)
	}
	var x operand
	var args []operand
	t := keyTerm{c: c}
	switch c := c.(type) {
	case both:
		if err := r.addTerms(c.a); err != nil {
			return err
		}
		return r.addTerms(c.b)
	case comparison:
		if c.op == "<>" {
			return bad("Invalid operator used in KeyConditionExpression: <>")
		}
		x, args = c.a, []operand{c.b}
		if c.op == "=" && c.b.literal() {
			t.equals = &c.b.v
		}
	case between:
		x, args = c.x, []operand{c.low, c.high}
	case beginsWith:
		x, args = c.a, []operand{c.b}
	case either:
		return bad("Invalid operator used in KeyConditionExpression: OR")
	case inverse:
		return bad("Invalid operator used in KeyConditionExpression: NOT")
	default:
		return bad("Invalid operator used in KeyConditionExpression")
	}
	if x.literal() || x.size || slices.ContainsFunc(args, func(o operand) bool { return !o.literal() }) {
		return bad("Invalid condition in KeyConditionExpression: each condition must compare a key attribute with values")
	}
	if len(x.path) != 1 {
		return bad("KeyConditionExpressions cannot have conditions on nested attributes")
	}
	t.attr = x.path[0].name
	for _, a := range args {
		t.args = append(t.args, a.v)
	}
	if slices.ContainsFunc(r.terms, func(o keyTerm) bool { return o.attr == t.attr }) {
		return bad("KeyConditionExpressions must only contain one condition per key")
	}
	r.terms = append(r.terms, t)
	return nil
}

// hash checks the terms against a schema and answers the hash key's value.
func (r *query) hash(k schema) (value, error) {
	var hash *value
	for _, t := range r.terms {
		if !slices.Contains(k.attributes(), t.attr) {
			missed := k.hash
			if slices.ContainsFunc(r.terms, func(t keyTerm) bool { return t.attr == k.hash }) && k.rng != "" {
				missed = k.rng
			}
			return value{}, invalid("Query condition missed key schema element: %s", missed)
		}
		for _, a := range t.args {
			if a.kind != k.kindOf(t.attr) {
				return value{}, badValue("Condition parameter type does not match schema type")
			}
			if a.text == "" {
				return value{}, badValue("The AttributeValue for a key attribute cannot contain an empty string value. Key: %s", t.attr)
			}
		}
		if t.attr == k.hash {
			if t.equals == nil {
				return value{}, invalid("Query key condition not supported")
			}
			hash = t.equals
		}
	}
	if hash == nil {
		return value{}, invalid("Query condition missed key schema element: %s", k.hash)
	}
	for _, a := range r.filterUses {
		if slices.Contains(k.attributes(), a) {
			return value{}, invalid("Filter Expression can only contain non-primary key attributes: Primary key attribute: %s", a)
		}
	}
	return *hash, nil
}

func (r *query) run(s *Server) (obj, error) {
	s.mu.Lock()
	p, err := r.page(s)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return r.answer(p), nil
}

func (r *query) page(s *Server) (page, error) {
	v, err := s.view(&r.paging)
	if err != nil {
		return page{}, err
	}
	h, err := r.hash(v.keys)
	if err != nil {
		return page{}, err
	}
	after := ""
	if r.ExclusiveStartKey != nil {
		if after, err = v.start(r.ExclusiveStartKey); err != nil {
			return page{}, err
		}
		if !strings.HasPrefix(after, partition(h)) {
			return page{}, invalid("The provided starting key is outside query boundaries based on provided conditions")
		}
	}
	backward := r.ScanIndexForward != nil && !*r.ScanIndexForward
	return v.under(h).walk(&r.paging, after, backward, func(_ string, it item) bool {
		return !slices.ContainsFunc(r.terms, func(t keyTerm) bool { return !t.c.holds(it) })
	}), nil
}
