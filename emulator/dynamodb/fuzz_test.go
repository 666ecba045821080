package dynamodb

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
)

// FuzzRequest sends any body to any operation: the answer is always JSON with
// a status of the protocol, and nothing panics.
func FuzzRequest(f *testing.F) {
	ops := slices.Sorted(maps.Keys(operations))
	for i := range ops {
		f.Add(uint8(i), `{"TableName":"leases"}`)
	}
	seed := func(op, body string) { f.Add(uint8(slices.Index(ops, op)), body) }
	seed("CreateTable", eventsTable)
	seed("UpdateItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"k"}},"UpdateExpression":"SET a.b[1] = if_not_exists(c, :v) + :v ADD d :v","ConditionExpression":"attribute_not_exists(x) AND size(l) > :v","ExpressionAttributeValues":{":v":{"N":"1"}},"ReturnValues":"ALL_NEW"}`)
	seed("UpdateItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"k"}},"AttributeUpdates":{"a":{"Action":"ADD","Value":{"L":[{"M":{}}]}}},"Expected":{"b":{"ComparisonOperator":"NE","Value":{"S":"x"}}}}`)
	seed("PutItem", `{"TableName":"leases","Item":{"leaseKey":{"S":"\ud800\u0000"},"b":{"B":"AA=="},"n":{"N":"-1.5e-3"},"s":{"BS":["AA=="]},"o":{"NULL":true}}}`)
	seed("Scan", `{"TableName":"leases","Segment":0,"TotalSegments":3,"Limit":2,"ExclusiveStartKey":{"leaseKey":{"S":"k"}},"FilterExpression":"a BETWEEN :a AND :b","ExpressionAttributeValues":{":a":{"N":"1"},":b":{"N":"2"}}}`)
	seed("Query", `{"TableName":"leases","IndexName":"LeaseOwnerToLeaseKeyIndex","KeyConditionExpression":"leaseOwner = :o AND begins_with(leaseKey, :o)","ExpressionAttributeValues":{":o":{"S":"A"}},"ExclusiveStartKey":{"leaseKey":{"S":"k"},"leaseOwner":{"S":"A"}}}`)
	seed("BatchWriteItem", `{"RequestItems":{"leases":[{"PutRequest":{"Item":{"leaseKey":{"S":"k"}}}},{"DeleteRequest":null}]}}`)
	seed("BatchGetItem", `{"RequestItems":{"leases":null}}`)
	seed("TransactWriteItems", `{"TransactItems":[{"Update":{"TableName":"leases","Key":{"leaseKey":{"S":"k"}},"UpdateExpression":"REMOVE a"}},{"Put":null}]}`)
	seed("TransactGetItems", `{"TransactItems":[{"Get":{"TableName":"leases","Key":{"leaseKey":{"S":"k"}}}}]}`)
	seed("UpdateTable", `{"TableName":"leases","GlobalSecondaryIndexUpdates":[{"Delete":{"IndexName":"LeaseOwnerToLeaseKeyIndex"}}]}`)
	f.Fuzz(func(t *testing.T, op uint8, body string) {
		s := leases(t, 2)
		w := post(t, s, ops[int(op)%len(ops)], body)
		if !json.Valid(w.Body.Bytes()) {
			t.Fatalf("the answer is no JSON: %q", w.Body)
		}
		if w.Code != 200 && w.Code != 400 {
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
		for _, it := range s.Items("leases") {
			if _, err := json.Marshal(it); err != nil {
				t.Fatalf("a stored item cannot be dumped: %v", err)
			}
		}
	})
}

// FuzzExpression parses anything as each kind of expression; what parses is
// evaluated, too.
func FuzzExpression(f *testing.F) {
	for _, s := range []string{
		"attribute_exists(a) AND NOT (#n = :n OR size(l) >= :n)", "a IN (:n, :s) OR b BETWEEN :n AND :n", "contains(s, :s) AND begins_with(s, :s) AND attribute_type(s, :t)",
		"SET a = a + :n, l[3] = list_append(l, l), m.x = if_not_exists(m.x, :n) REMOVE l[0], #n ADD n :n DELETE ss :ss", "a, l[1].x, m.#n", "((a=:n))", "a[", "SET", "#", ":",
	} {
		f.Add(s)
	}
	it := item{"a": numberValue("1"), "s": stringValue("xy"), "ss": setOf(kindSS, []string{"x"}), "n": numberValue("2"),
		"l": {kind: kindL, list: []value{numberValue("1"), {kind: kindM, m: item{"x": stringValue("y")}}}}, "m": {kind: kindM, m: item{"x": numberValue("3")}}}
	f.Fuzz(func(t *testing.T, src string) {
		sc := func() *scope {
			return &scope{names: map[string]string{"#n": "status"}, values: item{":n": numberValue("1"), ":s": stringValue("x"), ":t": stringValue("SS"), ":ss": setOf(kindSS, []string{"x"})}}
		}
		if c, err := parse(sc(), "ConditionExpression", src, orRule); err == nil {
			c.holds(it)
			c.holds(nil)
		}
		if ps, err := parse(sc(), "ProjectionExpression", src, projection); err == nil {
			project(it, ps)
		}
		if u, err := parse(sc(), "UpdateExpression", src, updateRule); err == nil {
			before := string(appendItem(nil, it))
			if out, err := u.apply(it); err == nil {
				project(out, u.paths())
			}
			if after := string(appendItem(nil, it)); after != before {
				t.Fatalf("%q changed the old item: %s", src, after)
			}
		}
	})
}

// FuzzNumber holds parseNumber to its promise: what it accepts is canonical.
func FuzzNumber(f *testing.F) {
	for _, s := range []string{"0", "-0.0", "1e5", "1.50", "+1E-130", "9e125", "00012.3400e-2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := parseNumber(s)
		if err != nil {
			return
		}
		if again, err := parseNumber(n); err != nil || again != n {
			t.Fatalf("%q became %q, which becomes %q (%v)", s, n, again, err)
		}
		if compareNumbers(n, negate(negate(n))) != 0 {
			t.Fatalf("negating %q twice changes it", n)
		}
	})
}
