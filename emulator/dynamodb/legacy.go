package dynamodb

import (
	"maps"
	"slices"
	"strings"
)

// The legacy parameters, which the Java clients of lease tables still send:
// Expected, AttributeUpdates, ScanFilter, QueryFilter, KeyConditions,
// AttributesToGet, ConditionalOperator. Each is turned into what an
// expression parses to.

// legacyExpected is one entry of Expected.
type legacyExpected struct {
	Value              *value
	Exists             *bool
	ComparisonOperator string
	AttributeValueList []value
}

// legacyFilter is one entry of ScanFilter, QueryFilter and KeyConditions.
type legacyFilter struct {
	ComparisonOperator string
	AttributeValueList []value
}

// legacyUpdate is one entry of AttributeUpdates.
type legacyUpdate struct {
	Action string
	Value  *value
}

var legacyOperators = []string{"EQ", "NE", "LE", "LT", "GE", "GT", "BETWEEN", "IN", "BEGINS_WITH", "CONTAINS", "NOT_CONTAINS", "NULL", "NOT_NULL"}

// legacyCondition is one operator on one top-level attribute.
func legacyCondition(attr, op string, args []value) (condition, error) {
	if err := oneOf("comparisonOperator", op, legacyOperators...); err != nil {
		return nil, err
	}
	ok := len(args) == 1
	switch op {
	case "NULL", "NOT_NULL":
		ok = len(args) == 0
	case "BETWEEN":
		ok = len(args) == 2
	case "IN":
		ok = len(args) > 0 && len(args) <= maxOperands
	}
	if !ok {
		return nil, badValue("Invalid number of argument(s) for the %s ComparisonOperator", op)
	}
	for _, a := range args {
		// Sets, maps and lists have no order, prefix or membership of their own.
		switch op {
		case "LE", "LT", "GE", "GT", "BETWEEN", "CONTAINS", "NOT_CONTAINS":
			ok = a.kind.ordered()
		case "BEGINS_WITH":
			ok = a.kind == kindS || a.kind == kindB
		}
		if !ok {
			return nil, badValue("ComparisonOperator %s is not valid for %s AttributeValue type", op, a.kind)
		}
	}
	x := operand{path: path{{name: attr}}}
	arg := func(i int) operand { return operand{v: args[i]} }
	switch op {
	case "NULL":
		return inverse{exists{x.path}}, nil
	case "NOT_NULL":
		return exists{x.path}, nil
	case "BETWEEN":
		c, sameType := args[0].compare(args[1])
		if !sameType {
			return nil, badValue("AttributeValues inside AttributeValueList must be of same type")
		}
		if c > 0 {
			return nil, badValue("The BETWEEN condition was provided a range where the lower bound is greater than the upper bound")
		}
		return between{x, arg(0), arg(1)}, nil
	case "IN":
		in := oneIn{x: x}
		for i := range args {
			in.list = append(in.list, arg(i))
		}
		return in, nil
	case "BEGINS_WITH":
		return beginsWith{x, arg(0)}, nil
	case "CONTAINS":
		return contains{x, arg(0)}, nil
	case "NOT_CONTAINS":
		return inverse{contains{x, arg(0)}}, nil
	}
	sign := map[string]string{"EQ": "=", "NE": "<>", "LE": "<=", "LT": "<", "GE": ">=", "GT": ">"}[op]
	return comparison{sign, x, arg(0)}, nil
}

// condition turns one Expected entry into a condition. The messages are the
// service's.
func (e legacyExpected) condition(attr string) (condition, error) {
	if e.ComparisonOperator != "" {
		switch {
		case e.Exists != nil:
			return nil, badValue("Exists and ComparisonOperator cannot be used together for Attribute: %s", attr)
		case e.Value != nil && e.AttributeValueList != nil:
			return nil, badValue("Value and AttributeValueList cannot be used together for Attribute: %s", attr)
		}
		args := e.AttributeValueList
		// A single argument may stand in Value; KCL 1.x sends its NE so.
		if e.Value != nil {
			args = []value{*e.Value}
		}
		if len(args) == 0 && e.ComparisonOperator != "NULL" && e.ComparisonOperator != "NOT_NULL" {
			return nil, badValue("Value or AttributeValueList must be used with ComparisonOperator: %s for Attribute: %s", e.ComparisonOperator, attr)
		}
		return legacyCondition(attr, e.ComparisonOperator, args)
	}
	if e.AttributeValueList != nil {
		return nil, badValue("AttributeValueList can only be used with a ComparisonOperator for Attribute: %s", attr)
	}
	if e.Exists != nil && !*e.Exists {
		if e.Value != nil {
			return nil, badValue("Value cannot be used when Exists is false for Attribute: %s", attr)
		}
		return legacyCondition(attr, "NULL", nil)
	}
	if e.Value == nil {
		exists := "null"
		if e.Exists != nil {
			exists = "true"
		}
		return nil, badValue("Value must be provided when Exists is %s for Attribute: %s", exists, attr)
	}
	return legacyCondition(attr, "EQ", []value{*e.Value})
}

// joinLegacy joins the conditions of a map by the ConditionalOperator.
func joinLegacy[E any](entries map[string]E, operator string, one func(attr string, e E) (condition, error)) (condition, error) {
	if err := oneOf("conditionalOperator", operator, "OR", "AND"); err != nil {
		return nil, err
	}
	if operator != "" && len(entries) < 2 {
		return nil, badValue("ConditionalOperator can only be used when Filter or Expected has two or more elements")
	}
	var all condition
	for _, attr := range slices.Sorted(maps.Keys(entries)) {
		c, err := one(attr, entries[attr])
		switch {
		case err != nil:
			return nil, err
		case all == nil:
			all = c
		case operator == "OR":
			all = either{all, c}
		default:
			all = both{all, c}
		}
	}
	return all, nil
}

func expectedCondition(expected map[string]legacyExpected, operator string) (condition, error) {
	return joinLegacy(expected, operator, func(attr string, e legacyExpected) (condition, error) { return e.condition(attr) })
}

func filterCondition(filters map[string]legacyFilter, operator string) (condition, error) {
	return joinLegacy(filters, operator, func(attr string, f legacyFilter) (condition, error) {
		return legacyCondition(attr, f.ComparisonOperator, f.AttributeValueList)
	})
}

// legacyChange turns AttributeUpdates into an update. It needs the old item:
// PUT replaces, ADD adds to a number, set or list, DELETE removes an
// attribute or members of a set.
func legacyChange(updates map[string]legacyUpdate) (*update, error) {
	u := &update{}
	for _, attr := range slices.Sorted(maps.Keys(updates)) {
		a, to := updates[attr], path{{name: attr}}
		if err := oneOf("attributeUpdates."+attr+".member.action", a.Action, "ADD", "PUT", "DELETE"); err != nil {
			return nil, err
		}
		switch {
		case a.Value == nil && a.Action == "DELETE":
			u.removes = append(u.removes, to)
		case a.Value == nil:
			return nil, badValue("Only DELETE action is allowed when no attribute value is specified")
		case a.Action == "ADD" && a.Value.kind == kindL:
			u.sets = append(u.sets, assignment{to, joined{ifMissing{to, literal{value{kind: kindL}}}, literal{*a.Value}}})
		case a.Action == "ADD" && (a.Value.kind == kindN || a.Value.kind.isSet()):
			u.adds = append(u.adds, delta{to, *a.Value})
		case a.Action == "DELETE" && a.Value.kind.isSet():
			u.deletes = append(u.deletes, delta{to, *a.Value})
		case a.Action == "" || a.Action == "PUT":
			u.sets = append(u.sets, assignment{to, literal{*a.Value}})
		default:
			return nil, badValue("Action %s is not supported for the type %s", a.Action, a.Value.kind)
		}
	}
	return u, nil
}

func legacyPaths(attrs []string) ([]path, error) {
	var ps []path
	for i, a := range attrs {
		if slices.Contains(attrs[:i], a) {
			return nil, badValue("Duplicate value in attribute name: %s", a)
		}
		ps = append(ps, path{{name: a}})
	}
	return ps, nil
}

// noMix refuses expressions together with legacy parameters. Each argument
// is a name and whether the request has it; legacy ones come first.
func noMix(legacy, expressions []string) error {
	if len(legacy) == 0 || len(expressions) == 0 {
		return nil
	}
	return invalid("Can not use both expression and non-expression parameters in the same request: Non-expression parameters: {%s} Expression parameters: {%s}",
		strings.Join(legacy, ", "), strings.Join(expressions, ", "))
}

// given collects the names of those parameters that are present.
func given(present ...any) (names []string) {
	for i := 0; i+1 < len(present); i += 2 {
		if present[i+1].(bool) {
			names = append(names, present[i].(string))
		}
	}
	return
}
