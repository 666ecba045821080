package dynamodb

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A table with a numeric range key and an index of each projection, filled at
// random and read in every way, against a plain map.

const eventsTable = `{"TableName":"events","BillingMode":"PAY_PER_REQUEST",
	"AttributeDefinitions":[{"AttributeName":"h","AttributeType":"S"},{"AttributeName":"r","AttributeType":"N"},{"AttributeName":"o","AttributeType":"S"}],
	"KeySchema":[{"AttributeName":"h","KeyType":"HASH"},{"AttributeName":"r","KeyType":"RANGE"}],
	"GlobalSecondaryIndexes":[
		{"IndexName":"byOwner","Projection":{"ProjectionType":"ALL"},"KeySchema":[{"AttributeName":"o","KeyType":"HASH"},{"AttributeName":"r","KeyType":"RANGE"}]},
		{"IndexName":"ownerOnly","Projection":{"ProjectionType":"INCLUDE","NonKeyAttributes":["v"]},"KeySchema":[{"AttributeName":"o","KeyType":"HASH"}]}]}`

type event struct {
	h, o, v string
	r       int
}

func (e event) json() string {
	s := fmt.Sprintf(`"h":{"S":%s},"r":{"N":"%d"},"v":{"S":%q},"w":{"S":"w"}`, appendString(nil, e.h), e.r, e.v)
	if e.o != "" {
		s += fmt.Sprintf(`,"o":{"S":%q}`, e.o)
	}
	return "{" + s + "}"
}

type eventKey struct {
	h string
	r int
}

// readAll follows a Scan or Query to its end and answers what it showed, in
// order, as "h/r/o/v" with "-" for what is absent.
func readAll(t *rapid.T, s *Server, op string, params map[string]any) (seen []string) {
	for range 200 {
		body, err := json.Marshal(params)
		if err != nil {
			t.Fatal(err)
		}
		w := post(t, s, op, string(body))
		if w.Code != 200 {
			t.Fatalf("%s %s: %s", op, body, w.Body)
		}
		var o struct {
			Items               []map[string]map[string]string
			Count, ScannedCount int
			LastEvaluatedKey    map[string]any
		}
		if err := json.Unmarshal(w.Body.Bytes(), &o); err != nil {
			t.Fatal(err)
		}
		if o.Count != len(o.Items) || o.ScannedCount < o.Count {
			t.Fatalf("%s: Count %d, ScannedCount %d with %d items", op, o.Count, o.ScannedCount, len(o.Items))
		}
		if limit, ok := params["Limit"].(int); ok && o.ScannedCount > limit {
			t.Fatalf("%s looked at %d rows with Limit %d", op, o.ScannedCount, limit)
		}
		for _, it := range o.Items {
			var parts []string
			for _, a := range []string{"h", "r", "o", "v", "w"} {
				p := cmp.Or(it[a]["S"], it[a]["N"], "-")
				parts = append(parts, p)
			}
			seen = append(seen, strings.Join(parts, "/"))
		}
		if o.LastEvaluatedKey == nil {
			return seen
		}
		params["ExclusiveStartKey"] = o.LastEvaluatedKey
	}
	t.Fatalf("%s does not end", op)
	return nil
}

func TestReadsAgreeWithAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := New(Config{})
		mustPost(t, s, "CreateTable", eventsTable)
		model := map[eventKey]event{}
		hashes := rapid.SampledFrom([]string{"a", "b", "ab", "a\x00", "é"})
		for range rapid.IntRange(0, 40).Draw(t, "writes") {
			e := event{h: hashes.Draw(t, "h"), r: rapid.IntRange(-12, 12).Draw(t, "r"), o: rapid.SampledFrom([]string{"", "A", "B"}).Draw(t, "o"), v: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "v")}
			k := eventKey{e.h, e.r}
			switch rapid.IntRange(0, 3).Draw(t, "op") {
			case 0:
				delete(model, k)
				mustPost(t, s, "DeleteItem", fmt.Sprintf(`{"TableName":"events","Key":{"h":{"S":%s},"r":{"N":"%d"}}}`, appendString(nil, e.h), e.r))
			default:
				model[k] = e
				mustPost(t, s, "PutItem", `{"TableName":"events","Item":`+e.json()+`}`)
			}
		}
		all := slices.Collect(maps.Values(model))
		show := func(e event, attrs string) string {
			parts := []string{e.h, fmt.Sprint(e.r), cmp.Or(e.o, "-"), e.v, "w"}
			for i, a := range []string{"h", "r", "o", "v", "w"} {
				if !strings.Contains(attrs, a) {
					parts[i] = "-"
				}
			}
			return strings.Join(parts, "/")
		}
		pick := func(attrs string, want func(event) bool, order func(a, b event) int) []string {
			var out []string
			for _, e := range slices.SortedFunc(slices.Values(slices.DeleteFunc(slices.Clone(all), func(e event) bool { return !want(e) })), order) {
				out = append(out, show(e, attrs))
			}
			return out
		}
		anyOrder := func(a, b event) int { return cmp.Compare(show(a, "hr"), show(b, "hr")) }
		limit := func(p map[string]any) map[string]any {
			if n := rapid.IntRange(0, 4).Draw(t, "limit"); n > 0 {
				p["Limit"] = n
			}
			p["TableName"] = "events"
			return p
		}
		same := func(what string, got, want []string, ordered bool) {
			if !ordered {
				slices.Sort(got)
				want = slices.Sorted(slices.Values(want))
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%s\ngot  %q\nwant %q", what, got, want)
			}
		}
		str := func(v string) any { return map[string]string{"S": v} }
		n := func(v int) any { return map[string]string{"N": fmt.Sprint(v)} }

		same("scan", readAll(t, s, "Scan", limit(map[string]any{})), pick("hrovw", func(event) bool { return true }, anyOrder), false)
		same("scan of v = x, projected", readAll(t, s, "Scan", limit(map[string]any{"FilterExpression": "v = :x", "ProjectionExpression": "r, h", "ExpressionAttributeValues": map[string]any{":x": str("x")}})),
			pick("hr", func(e event) bool { return e.v == "x" }, anyOrder), false)
		segments := rapid.IntRange(1, 5).Draw(t, "segments")
		var parts []string
		for i := range segments {
			parts = append(parts, readAll(t, s, "Scan", limit(map[string]any{"Segment": i, "TotalSegments": segments}))...)
		}
		same("scan in segments", parts, pick("hrovw", func(event) bool { return true }, anyOrder), false)
		same("scan of an index", readAll(t, s, "Scan", limit(map[string]any{"IndexName": "byOwner"})), pick("hrovw", func(e event) bool { return e.o != "" }, anyOrder), false)

		h, backward := hashes.Draw(t, "query"), rapid.Bool().Draw(t, "backward")
		byRange := func(a, b event) int {
			if backward {
				a, b = b, a
			}
			return cmp.Compare(a.r, b.r)
		}
		low := rapid.IntRange(-12, 12).Draw(t, "low")
		high := rapid.IntRange(low, 12).Draw(t, "high")
		same("query of a range", readAll(t, s, "Query", limit(map[string]any{"KeyConditionExpression": "h = :h AND r BETWEEN :l AND :m", "ScanIndexForward": !backward,
			"ExpressionAttributeValues": map[string]any{":h": str(h), ":l": n(low), ":m": n(high)}})),
			pick("hrovw", func(e event) bool { return e.h == h && e.r >= low && e.r <= high }, byRange), true)
		same("query in the old style", readAll(t, s, "Query", limit(map[string]any{"ScanIndexForward": !backward, "KeyConditions": map[string]any{
			"h": map[string]any{"ComparisonOperator": "EQ", "AttributeValueList": []any{str(h)}},
			"r": map[string]any{"ComparisonOperator": "GE", "AttributeValueList": []any{n(low)}}}})),
			pick("hrovw", func(e event) bool { return e.h == h && e.r >= low }, byRange), true)
		byOwner := readAll(t, s, "Query", limit(map[string]any{"IndexName": "byOwner", "KeyConditionExpression": "o = :o AND r < :m",
			"ExpressionAttributeValues": map[string]any{":o": str("A"), ":m": n(high)}}))
		same("query of an index", slices.Clone(byOwner), pick("hrovw", func(e event) bool { return e.o == "A" && e.r < high }, anyOrder), false)
		rangeOf := func(s string) int {
			r, err := strconv.Atoi(strings.Split(s, "/")[1])
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		if !slices.IsSortedFunc(byOwner, func(a, b string) int { return cmp.Compare(rangeOf(a), rangeOf(b)) }) {
			t.Fatalf("the index is not in order of its range key: %q", byOwner)
		}
		same("query of a narrow index", readAll(t, s, "Query", limit(map[string]any{"IndexName": "ownerOnly", "KeyConditionExpression": "o = :o",
			"ExpressionAttributeValues": map[string]any{":o": str("B")}})),
			pick("hrov", func(e event) bool { return e.o == "B" }, anyOrder), false)
	})
}

func TestLargePagesEndAtAMegabyte(t *testing.T) {
	s := leases(t, 0)
	for i := range 9 {
		mustPost(t, s, "PutItem", fmt.Sprintf(`{"TableName":"leases","Item":{"leaseKey":{"S":"k%d"},"v":{"S":"%s"}}}`, i, strings.Repeat("x", 300<<10)))
	}
	pages, items := 0, 0
	start := ""
	for {
		var o struct {
			Count            int
			LastEvaluatedKey json.RawMessage
		}
		if err := json.Unmarshal([]byte(mustPost(t, s, "Scan", `{"TableName":"leases","Select":"COUNT"`+start+`}`)), &o); err != nil {
			t.Fatal(err)
		}
		pages++
		items += o.Count
		if o.Count > 3 {
			t.Errorf("a page of %d items of 300 KB", o.Count)
		}
		if o.LastEvaluatedKey == nil {
			break
		}
		start = `,"ExclusiveStartKey":` + string(o.LastEvaluatedKey)
	}
	if pages != 3 || items != 9 {
		t.Errorf("%d pages, %d items, want 3 and 9", pages, items)
	}
}

func TestSegmentsShareTheWork(t *testing.T) {
	s := leases(t, 1000)
	for seg := range 4 {
		var o struct{ Count int }
		if err := json.Unmarshal([]byte(mustPost(t, s, "Scan", fmt.Sprintf(`{"TableName":"leases","Segment":%d,"TotalSegments":4}`, seg))), &o); err != nil {
			t.Fatal(err)
		}
		if o.Count < 150 || o.Count > 350 {
			t.Errorf("segment %d of 4 holds %d of 1000", seg, o.Count)
		}
	}
}

// One key may begin another: the order is of the keys, not of what is stored
// after them.
func TestIndexIsInOrderOfItsRangeKey(t *testing.T) {
	s := leases(t, 0)
	var want []string
	for i := range 120 {
		k := strings.Repeat("k", 1+i%3) + strings.Repeat("1", i/3)
		want = append(want, k)
		mustPost(t, s, "PutItem", `{"TableName":"leases","Item":{"leaseOwner":{"S":"A"},"leaseKey":{"S":"`+k+`"}}}`)
	}
	slices.Sort(want)
	for _, forward := range []bool{true, false} {
		var o struct {
			Items []map[string]struct{ S string }
		}
		if err := json.Unmarshal([]byte(mustPost(t, s, "Query", fmt.Sprintf(`{"TableName":"leases","IndexName":"LeaseOwnerToLeaseKeyIndex","ScanIndexForward":%v,
			"KeyConditionExpression":"leaseOwner = :o","ExpressionAttributeValues":{":o":{"S":"A"}}}`, forward))), &o); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, it := range o.Items {
			got = append(got, it["leaseKey"].S)
		}
		if !forward {
			slices.Reverse(got)
		}
		if !slices.Equal(got, want) {
			t.Errorf("forward %v: got %q", forward, got)
		}
	}
}

func TestConsumedCapacity(t *testing.T) {
	s := leases(t, 100)
	for _, c := range []struct{ op, body, want string }{
		{"GetItem", `"Key":{"leaseKey":{"S":"shardId-000000000000"}}`, `"CapacityUnits":0.5}`},
		{"GetItem", `"ConsistentRead":true,"Key":{"leaseKey":{"S":"shardId-000000000000"}}`, `"CapacityUnits":1}`},
		{"UpdateItem", `"Key":{"leaseKey":{"S":"shardId-000000000000"}},"UpdateExpression":"ADD leaseCounter :n","ExpressionAttributeValues":{":n":{"N":"1"}}`, `"CapacityUnits":1}`},
		// Another owner: out of one place of the index, into another.
		{"UpdateItem", `"Key":{"leaseKey":{"S":"shardId-000000000000"}},"UpdateExpression":"SET leaseOwner = :o","ExpressionAttributeValues":{":o":{"S":"B"}}`, `"CapacityUnits":3}`},
		{"Scan", `"ConsistentRead":true`, `"CapacityUnits":8}`}, // 100 rows of about 300 bytes
		{"Query", `"IndexName":"LeaseOwnerToLeaseKeyIndex","KeyConditionExpression":"leaseOwner = :o","ExpressionAttributeValues":{":o":{"S":"worker-1"}}`, `"CapacityUnits":0.5}`},
	} {
		got := mustPost(t, s, c.op, `{"TableName":"leases","ReturnConsumedCapacity":"TOTAL",`+c.body+`}`)
		if !strings.Contains(got, `"ConsumedCapacity":{"TableName":"leases",`+c.want) {
			t.Errorf("%s %s: want %s in %.0s...%s", c.op, c.body, c.want, got, got[max(0, len(got)-120):])
		}
	}
	got := mustPost(t, s, "DeleteItem", `{"TableName":"leases","ReturnConsumedCapacity":"INDEXES","Key":{"leaseKey":{"S":"shardId-000000000001"}}}`)
	if want := `{"ConsumedCapacity":{"TableName":"leases","CapacityUnits":2,"Table":{"CapacityUnits":1},"GlobalSecondaryIndexes":{"LeaseOwnerToLeaseKeyIndex":{"CapacityUnits":1}}}}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
