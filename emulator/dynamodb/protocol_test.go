package dynamodb

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestWireForm(t *testing.T) {
	s := leases(t, 1)
	for _, c := range []struct {
		name, op, body string
		status         int
		typ, says      string
	}{
		{"success", "GetItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"shardId-000000000000"}}}`, 200, "", ""},
		{"failed condition", "PutItem", `{"TableName":"leases","Item":{"leaseKey":{"S":"shardId-000000000000"}},"ConditionExpression":"attribute_not_exists(leaseKey)"}`,
			400, "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException", "The conditional request failed"},
		{"no such table", "GetItem", `{"TableName":"nope","Key":{"leaseKey":{"S":"x"}}}`, 400, "com.amazonaws.dynamodb.v20120810#ResourceNotFoundException", "Requested resource not found"},
		{"validation", "GetItem", `{"TableName":"leases","Key":{}}`, 400, "com.amazon.coral.validate#ValidationException", "does not match the schema"},
		{"operation of the service that is not here", "ExecuteStatement", `{}`, 400, "com.amazon.coral.service#UnknownOperationException", "ExecuteStatement"},
		{"no operation", "", `{}`, 400, "com.amazon.coral.service#UnknownOperationException", ""},
		{"parameter that is not here", "PutItem", `{"TableName":"leases","Item":{"leaseKey":{"S":"x"}},"Frobnicate":1}`, 400, "com.amazon.coral.validate#ValidationException", "parameter Frobnicate of PutItem"},
		{"nested parameter that is not here", "CreateTable", `{"TableName":"t12","StreamSpecification":{"StreamEnabled":true}}`, 400, "com.amazon.coral.validate#ValidationException", "parameter StreamSpecification of CreateTable"},
		{"not JSON", "GetItem", `{"TableName"`, 400, "com.amazon.coral.service#SerializationException", ""},
		{"empty body", "GetItem", ``, 400, "com.amazon.coral.service#SerializationException", ""},
		{"wrong type", "GetItem", `{"TableName":7}`, 400, "com.amazon.coral.service#SerializationException", "TableName"},
		{"more after it", "GetItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"x"}}} {}`, 400, "com.amazon.coral.service#SerializationException", "after the request"},
		{"bad base64", "PutItem", `{"TableName":"leases","Item":{"leaseKey":{"S":"x"},"b":{"B":"%%%"}}}`, 400, "com.amazon.coral.service#SerializationException", "Base64"},
	} {
		w := post(t, s, c.op, c.body)
		var b struct {
			Type    string `json:"__type"`
			Message string `json:"message"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &b); err != nil {
			t.Errorf("%s: answer is no JSON: %s", c.name, w.Body)
		}
		if w.Code != c.status || b.Type != c.typ || !strings.Contains(b.Message, c.says) {
			t.Errorf("%s: %d %s, want %d %s saying %q", c.name, w.Code, w.Body, c.status, c.typ, c.says)
		}
		h := w.Result().Header
		if got, want := h.Get("X-Amz-Crc32"), fmt.Sprint(crc32.ChecksumIEEE(w.Body.Bytes())); got != want {
			t.Errorf("%s: checksum %s, want %s", c.name, got, want)
		}
		if h.Get("Content-Type") != "application/x-amz-json-1.0" || h.Get("X-Amzn-Requestid") == "" {
			t.Errorf("%s: headers %v", c.name, h)
		}
	}
}

func TestUnsignedIsRefused(t *testing.T) {
	s := New(Config{})
	send := func(url string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, url, strings.NewReader(`{}`))
		r.Header.Set("X-Amz-Target", "DynamoDB_20120810.ListTables")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w
	}
	if w := send("/"); w.Code != 400 || !strings.Contains(w.Body.String(), "MissingAuthenticationTokenException") {
		t.Errorf("unsigned: %d %s", w.Code, w.Body)
	}
	if w := send("/?X-Amz-Signature=abc"); w.Code != 200 {
		t.Errorf("presigned: %d %s", w.Code, w.Body)
	}
}

func TestHealth(t *testing.T) {
	w := httptest.NewRecorder()
	New(Config{Region: "eu-west-1"}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != 200 || w.Body.String() != "healthy: dynamodb.eu-west-1.amazonaws.com\n" {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}

// A value must come back as it was sent, whatever is in it.
func TestValuesComeBack(t *testing.T) {
	s := leases(t, 0)
	for _, c := range []struct{ name, sent, want string }{
		{"escapes", `{"S":"a\"b\\c\/\u0041\n\u0001\ud83d\ude00é"}`, `{"S":"a\"b\\c/A\u000a\u0001😀é"}`},
		{"empty string", `{"S":""}`, `{"S":""}`},
		{"number is canonical", `{"N":"1.50E1"}`, `{"N":"15"}`},
		{"38 digits", `{"N":"12345678901234567890123456789012345678"}`, `{"N":"12345678901234567890123456789012345678"}`},
		{"binary", `{"B":"AAEC/w=="}`, `{"B":"AAEC/w=="}`},
		{"empty binary", `{"B":""}`, `{"B":""}`},
		{"bool", `{"BOOL":false}`, `{"BOOL":false}`},
		{"null", `{"NULL":true}`, `{"NULL":true}`},
		{"sets", `{"M":{"s":{"SS":["b","a"]},"n":{"NS":["1.0","2"]},"b":{"BS":["AA==","AQ=="]}}}`, `{"M":{"b":{"BS":["AA==","AQ=="]},"n":{"NS":["1","2"]},"s":{"SS":["b","a"]}}}`},
		{"empty containers", `{"L":[{"L":[]},{"M":{}}]}`, `{"L":[{"L":[]},{"M":{}}]}`},
		{"space and unset members", ` { "S" : "x" , "N" : null } `, `{"S":"x"}`},
	} {
		mustPost(t, s, "PutItem", `{"TableName":"leases","Item":{"leaseKey":{"S":"k"},"v":`+c.sent+`}}`)
		got := mustPost(t, s, "GetItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"k"}},"ProjectionExpression":"v"}`)
		if want := `{"Item":{"v":` + c.want + `}}`; got != want {
			t.Errorf("%s: got %s, want %s", c.name, got, want)
		}
		if !json.Valid([]byte(got)) {
			t.Errorf("%s: not JSON: %s", c.name, got)
		}
	}
}

func TestRequestsRefused(t *testing.T) {
	s := leases(t, 1)
	deep := strings.Repeat(`{"L":[`, 40) + strings.Repeat(`]}`, 40)
	for _, c := range []struct{ name, op, body, says string }{
		{"no table", "GetItem", `{"Key":{"leaseKey":{"S":"x"}}}`, "'TableName' is required"},
		{"short table name", "GetItem", `{"TableName":"ab","Key":{"leaseKey":{"S":"x"}}}`, "length greater than or equal to 3"},
		{"odd table name", "GetItem", `{"TableName":"a b c","Key":{"leaseKey":{"S":"x"}}}`, "regular expression"},
		{"no key", "GetItem", `{"TableName":"leases"}`, "'Key' is required"},
		{"key of another name", "GetItem", `{"TableName":"leases","Key":{"x":{"S":"x"}}}`, "does not match the schema"},
		{"key with more", "DeleteItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"x"},"y":{"S":"x"}}}`, "does not match the schema"},
		{"key of another type", "UpdateItem", `{"TableName":"leases","Key":{"leaseKey":{"N":"1"}}}`, "does not match the schema"},
		{"empty key", "UpdateItem", `{"TableName":"leases","Key":{"leaseKey":{"S":""}}}`, "cannot contain an empty string value. Key: leaseKey"},
		{"long key", "UpdateItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"` + strings.Repeat("x", 2049) + `"}}}`, "Size of hashkey"},
		{"item without key", "PutItem", `{"TableName":"leases","Item":{"x":{"S":"x"}}}`, "Missing the key leaseKey in the item"},
		{"item with key of another type", "PutItem", `{"TableName":"leases","Item":{"leaseKey":{"N":"1"}}}`, "Type mismatch for key leaseKey expected: S actual: N"},
		{"index key of another type", "PutItem", `{"TableName":"leases","Item":{"leaseKey":{"S":"x"},"leaseOwner":{"N":"1"}}}`, "Type mismatch for Index Key leaseOwner"},
		{"index key empty", "UpdateItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"x"}},"UpdateExpression":"SET leaseOwner = :e","ExpressionAttributeValues":{":e":{"S":""}}}`, "empty string value"},
		{"no item", "PutItem", `{"TableName":"leases"}`, "'Item' is required"},
		{"too large", "PutItem", `{"TableName":"leases","Item":{"leaseKey":{"S":"x"},"v":{"S":"` + strings.Repeat("x", 400<<10) + `"}}}`, "Item size has exceeded"},
		{"grown too large", "UpdateItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"x"}},"UpdateExpression":"SET v = :v","ExpressionAttributeValues":{":v":{"S":"` + strings.Repeat("x", 400<<10) + `"}}}`, "Item size to update has exceeded"},
		{"too deep", "PutItem", `{"TableName":"leases","Item":{"leaseKey":{"S":"x"},"v":` + deep + `}}`, "Nesting Levels"},
		{"value of two types", "PutItem", `{"TableName":"leases","Item":{"leaseKey":{"S":"x","N":"1"}}}`, "more than one datatypes"},
		{"value of no type", "PutItem", `{"TableName":"leases","Item":{"leaseKey":{}}}`, "is empty"},
		{"value of unknown type", "PutItem", `{"TableName":"leases","Item":{"leaseKey":{"s":"x"}}}`, "unknown datatype"},
		{"empty set", "PutItem", `{"TableName":"leases","Item":{"leaseKey":{"S":"x"},"v":{"SS":[]}}}`, "An string set  may not be empty"},
		{"empty number set", "PutItem", `{"TableName":"leases","Item":{"leaseKey":{"S":"x"},"v":{"NS":[]}}}`, "An number set  may not be empty"},
		{"empty binary set", "PutItem", `{"TableName":"leases","Item":{"leaseKey":{"S":"x"},"v":{"BS":[]}}}`, "Binary sets should not be empty"},
		{"set with doubles", "PutItem", `{"TableName":"leases","Item":{"leaseKey":{"S":"x"},"v":{"NS":["1","1.0"]}}}`, "duplicates"},
		{"false NULL", "PutItem", `{"TableName":"leases","Item":{"leaseKey":{"S":"x"},"v":{"NULL":false}}}`, "must have the value of true"},
		{"no number", "PutItem", `{"TableName":"leases","Item":{"leaseKey":{"S":"x"},"v":{"N":"x"}}}`, "cannot be converted to a numeric value"},
		{"unnamed attribute", "PutItem", `{"TableName":"leases","Item":{"leaseKey":{"S":"x"},"":{"N":"1"}}}`, "attribute name may not be empty"},
		{"return values of another call", "PutItem", `{"TableName":"leases","Item":{"leaseKey":{"S":"x"}},"ReturnValues":"ALL_NEW"}`, "'returnValues'"},
		{"key attribute updated", "UpdateItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"x"}},"UpdateExpression":"REMOVE leaseKey"}`, "Cannot update attribute leaseKey"},
		{"values without expression", "PutItem", `{"TableName":"leases","Item":{"leaseKey":{"S":"x"}},"ExpressionAttributeValues":{":v":{"N":"1"}}}`, "can only be specified when using expressions"},
		{"names without expression", "GetItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"x"}},"ExpressionAttributeNames":{"#n":"a"}}`, "can only be specified when using expressions"},
		{"unused value", "PutItem", `{"TableName":"leases","Item":{"leaseKey":{"S":"x"}},"ConditionExpression":"attribute_exists(a)","ExpressionAttributeValues":{":v":{"N":"1"}}}`, "unused in expressions: keys: {:v}"},
		{"unused name", "PutItem", `{"TableName":"leases","Item":{"leaseKey":{"S":"x"}},"ConditionExpression":"attribute_exists(a)","ExpressionAttributeNames":{"#v":"b"}}`, "unused in expressions: keys: {#v}"},
		{"empty values", "PutItem", `{"TableName":"leases","Item":{"leaseKey":{"S":"x"}},"ConditionExpression":"attribute_exists(a)","ExpressionAttributeValues":{}}`, "must not be empty"},
		{"bad placeholder", "PutItem", `{"TableName":"leases","Item":{"leaseKey":{"S":"x"}},"ConditionExpression":"a = :v","ExpressionAttributeValues":{"v":{"N":"1"}}}`, "contains invalid key"},
		{"old and new style", "PutItem", `{"TableName":"leases","Item":{"leaseKey":{"S":"x"}},"ConditionExpression":"attribute_exists(a)","Expected":{"a":{"Exists":false}}}`, "Non-expression parameters: {Expected} Expression parameters: {ConditionExpression}"},
		{"old and new style of update", "UpdateItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"x"}},"AttributeUpdates":{"a":{"Action":"DELETE"}},"ConditionExpression":"attribute_exists(a)"}`, "Can not use both"},
		{"limit 0", "Scan", `{"TableName":"leases","Limit":0}`, "'limit'"},
		{"segment alone", "Scan", `{"TableName":"leases","Segment":0}`, "TotalSegments parameter is required"},
		{"segment too high", "Scan", `{"TableName":"leases","Segment":2,"TotalSegments":2}`, "must be less than parameter TotalSegments"},
		{"start key of no schema", "Scan", `{"TableName":"leases","ExclusiveStartKey":{"x":{"S":"x"}}}`, "starting key is invalid"},
		{"consistent on an index", "Query", `{"TableName":"leases","IndexName":"LeaseOwnerToLeaseKeyIndex","ConsistentRead":true,"KeyConditionExpression":"leaseOwner = :o","ExpressionAttributeValues":{":o":{"S":"A"}}}`, "Consistent reads are not supported on global secondary indexes"},
		{"no such index", "Query", `{"TableName":"leases","IndexName":"nope","KeyConditionExpression":"leaseOwner = :o","ExpressionAttributeValues":{":o":{"S":"A"}}}`, "does not have the specified index: nope"},
		{"all attributes of a narrow index", "Query", `{"TableName":"leases","IndexName":"LeaseOwnerToLeaseKeyIndex","Select":"ALL_ATTRIBUTES","KeyConditionExpression":"leaseOwner = :o","ExpressionAttributeValues":{":o":{"S":"A"}}}`, "its projection type is not ALL"},
		{"attribute an index has not", "Query", `{"TableName":"leases","IndexName":"LeaseOwnerToLeaseKeyIndex","ProjectionExpression":"checkpoint","KeyConditionExpression":"leaseOwner = :o","ExpressionAttributeValues":{":o":{"S":"A"}}}`, "does not project [checkpoint]"},
		{"query without condition", "Query", `{"TableName":"leases"}`, "must be specified"},
		{"query of no key", "Query", `{"TableName":"leases","KeyConditionExpression":"checkpoint = :o","ExpressionAttributeValues":{":o":{"S":"A"}}}`, "missed key schema element: leaseKey"},
		{"query of a range of hash keys", "Query", `{"TableName":"leases","KeyConditionExpression":"leaseKey > :o","ExpressionAttributeValues":{":o":{"S":"A"}}}`, "Query key condition not supported"},
		{"query of the wrong type", "Query", `{"TableName":"leases","KeyConditionExpression":"leaseKey = :o","ExpressionAttributeValues":{":o":{"N":"1"}}}`, "type does not match schema type"},
		{"query by OR", "Query", `{"TableName":"leases","KeyConditionExpression":"leaseKey = :o OR leaseKey = :p","ExpressionAttributeValues":{":o":{"S":"A"},":p":{"S":"B"}}}`, "OR"},
		{"query twice a key", "Query", `{"TableName":"leases","KeyConditionExpression":"leaseKey = :o AND leaseKey = :o","ExpressionAttributeValues":{":o":{"S":"A"}}}`, "only contain one condition per key"},
		{"filter on a key", "Query", `{"TableName":"leases","KeyConditionExpression":"leaseKey = :o","FilterExpression":"leaseKey <> :p","ExpressionAttributeValues":{":o":{"S":"A"},":p":{"S":"B"}}}`, "Primary key attribute: leaseKey"},
		{"count with projection", "Scan", `{"TableName":"leases","Select":"COUNT","ProjectionExpression":"a"}`, "only the Count"},
		{"specific without projection", "Scan", `{"TableName":"leases","Select":"SPECIFIC_ATTRIBUTES"}`, "SPECIFIC_ATTRIBUTES"},
		{"filter of the old style that is none", "Scan", `{"TableName":"leases","ScanFilter":{"a":{"ComparisonOperator":"LIKE"}}}`, "'comparisonOperator'"},
		{"operator without filter", "Scan", `{"TableName":"leases","ConditionalOperator":"OR"}`, "cannot be used without Filter or Expected"},
		{"batch of nothing", "BatchWriteItem", `{"RequestItems":{}}`, "RequestItems"},
		{"batch with both", "BatchWriteItem", `{"RequestItems":{"leases":[{}]}}`, "one PutRequest or one DeleteRequest"},
		{"batch with doubles", "BatchWriteItem", `{"RequestItems":{"leases":[{"DeleteRequest":{"Key":{"leaseKey":{"S":"a"}}}},{"PutRequest":{"Item":{"leaseKey":{"S":"a"}}}}]}}`, "duplicates"},
		{"batch get with doubles", "BatchGetItem", `{"RequestItems":{"leases":{"Keys":[{"leaseKey":{"S":"a"}},{"leaseKey":{"S":"a"}}]}}}`, "duplicates"},
		{"transaction of nothing", "TransactWriteItems", `{"TransactItems":[]}`, "transactItems"},
		{"transaction with an empty member", "TransactWriteItems", `{"TransactItems":[{}]}`, "one of Check, Put, Update or Delete"},
		{"check of nothing", "TransactWriteItems", `{"TransactItems":[{"ConditionCheck":{"TableName":"leases","Key":{"leaseKey":{"S":"a"}}}}]}`, "'ConditionExpression' is required"},
		{"transaction with doubles", "TransactWriteItems", `{"TransactItems":[{"Put":{"TableName":"leases","Item":{"leaseKey":{"S":"a"}}}},{"Delete":{"TableName":"leases","Key":{"leaseKey":{"S":"a"}}}}]}`, "multiple operations on one item"},
		{"legacy parameter in a transaction", "TransactWriteItems", `{"TransactItems":[{"Put":{"TableName":"leases","Item":{"leaseKey":{"S":"a"}},"Expected":{}}}]}`, "parameter Expected of TransactWriteItems"},
		{"table with unknown key attribute", "CreateTable", `{"TableName":"new","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"a","AttributeType":"S"}],"KeySchema":[{"AttributeName":"b","KeyType":"HASH"}]}`, "not defined in AttributeDefinitions"},
		{"table with attribute to spare", "CreateTable", `{"TableName":"new","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"a","AttributeType":"S"},{"AttributeName":"b","AttributeType":"S"}],"KeySchema":[{"AttributeName":"a","KeyType":"HASH"}]}`, "Some AttributeDefinitions are not used"},
		{"table without throughput", "CreateTable", `{"TableName":"new","AttributeDefinitions":[{"AttributeName":"a","AttributeType":"S"}],"KeySchema":[{"AttributeName":"a","KeyType":"HASH"}]}`, "must both be specified when BillingMode is PROVISIONED"},
		{"on-demand table with throughput", "CreateTable", `{"TableName":"new","BillingMode":"PAY_PER_REQUEST","ProvisionedThroughput":{"ReadCapacityUnits":1,"WriteCapacityUnits":1},"AttributeDefinitions":[{"AttributeName":"a","AttributeType":"S"}],"KeySchema":[{"AttributeName":"a","KeyType":"HASH"}]}`, "when BillingMode is PAY_PER_REQUEST"},
		{"update of nothing", "UpdateTable", `{"TableName":"leases"}`, "At least one of"},
	} {
		w := post(t, s, c.op, c.body)
		if w.Code != 400 || !strings.Contains(w.Body.String(), `#ValidationException"`) || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s: %d %.300s\nwant a ValidationException saying %q", c.name, w.Code, w.Body, c.says)
		}
	}
	if n := len(s.Items("leases")); n != 1 {
		t.Errorf("the refused requests left %d items, want 1", n)
	}
	if n := len(s.tables); n != 1 {
		t.Errorf("the refused requests left %d tables, want 1", n)
	}
}
