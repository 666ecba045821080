package dynamodb

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// failer is what a testing.TB and a rapid.T have in common.
type failer interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// post sends one request to the handler itself, without a client or socket,
// so that the figures are the server's alone.
func post(tb failer, s *Server, op, body string) *httptest.ResponseRecorder {
	r, err := http.NewRequest("POST", "/", strings.NewReader(body))
	if err != nil {
		tb.Fatal(err)
	}
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810."+op)
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKID/20260101/us-east-1/dynamodb/aws4_request")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func mustPost(tb failer, s *Server, op, body string) string {
	tb.Helper()
	w := post(tb, s, op, body)
	if w.Code != 200 {
		tb.Fatalf("%s: status %d: %s", op, w.Code, w.Body)
	}
	return w.Body.String()
}

const leaseTable = `{"TableName":"leases","BillingMode":"PAY_PER_REQUEST",
	"AttributeDefinitions":[{"AttributeName":"leaseKey","AttributeType":"S"},{"AttributeName":"leaseOwner","AttributeType":"S"}],
	"KeySchema":[{"AttributeName":"leaseKey","KeyType":"HASH"}],
	"GlobalSecondaryIndexes":[{"IndexName":"LeaseOwnerToLeaseKeyIndex","Projection":{"ProjectionType":"KEYS_ONLY"},
		"KeySchema":[{"AttributeName":"leaseOwner","KeyType":"HASH"},{"AttributeName":"leaseKey","KeyType":"RANGE"}]}]}`

// leases makes a server with a lease table of n rows as the KCL writes them.
func leases(tb failer, n int) *Server {
	s := New(Config{})
	mustPost(tb, s, "CreateTable", leaseTable)
	for i := range n {
		mustPost(tb, s, "PutItem", fmt.Sprintf(`{"TableName":"leases","Item":{"leaseKey":{"S":"shardId-%012d"},"leaseOwner":{"S":"worker-%d"},
			"leaseCounter":{"N":"0"},"checkpoint":{"S":"49590338271490256608559692538361571095921575989136588898"},"checkpointSubSequenceNumber":{"N":"0"},
			"ownerSwitchesSinceCheckpoint":{"N":"0"},"startingHashKey":{"S":"0"},"endingHashKey":{"S":"340282366920938463463374607431768211455"},
			"entityType":{"S":"LEASE"},"parentShardId":{"SS":["shardId-000000000000"]}}}`, i, i%10))
	}
	return s
}

func BenchmarkConditionalUpdate(b *testing.B) {
	s := leases(b, 1000)
	n := 0
	for b.Loop() {
		mustPost(b, s, "UpdateItem", fmt.Sprintf(`{"TableName":"leases","Key":{"leaseKey":{"S":"shardId-%012d"}},
			"UpdateExpression":"SET leaseCounter = :next","ConditionExpression":"leaseCounter = :seen AND attribute_not_exists(checkpointOwner)",
			"ExpressionAttributeValues":{":seen":{"N":"%d"},":next":{"N":"%d"}},"ReturnValuesOnConditionCheckFailure":"ALL_OLD"}`,
			n%1000, n/1000, n/1000+1))
		n++
	}
}

func BenchmarkScanOfThousandLeases(b *testing.B) {
	s := leases(b, 1000)
	for b.Loop() {
		mustPost(b, s, "Scan", `{"TableName":"leases"}`)
	}
}

func BenchmarkQueryOfHundredOnIndex(b *testing.B) {
	s := leases(b, 1000)
	for b.Loop() {
		mustPost(b, s, "Query", `{"TableName":"leases","IndexName":"LeaseOwnerToLeaseKeyIndex","KeyConditionExpression":"leaseOwner = :o","ExpressionAttributeValues":{":o":{"S":"worker-3"}}}`)
	}
}
