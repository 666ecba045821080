package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardwarden/shardwarden/backends/kinesis/kpl/kpltest"
)

// Records with a schema come as JSON, out of an aggregated record too; others, and what cannot be decoded, as they are.
func TestConsumeGlue(t *testing.T) {
	t.Parallel()
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct{ SchemaVersionId string }
		_ = json.NewDecoder(r.Body).Decode(&in)
		if in.SchemaVersionId != "41414141-4141-4141-4141-414141414141" {
			w.WriteHeader(400)
			_, _ = fmt.Fprint(w, `{"__type":"EntityNotFoundException"}`)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"SchemaVersionId": in.SchemaVersionId, "SchemaArn": "arn:aws:glue:us-east-1:000000000000:schema/r/points", "DataFormat": "AVRO", "VersionNumber": 1,
			"SchemaDefinition": `{"type":"record","name":"P","fields":[{"name":"x","type":"int"},{"name":"y","type":["null","string"]}]}`,
		})
	}))
	defer registry.Close()
	known, unknown := "\x03\x00"+strings.Repeat("A", 16), "\x03\x00"+strings.Repeat("B", 16)
	c := newCloud(t)
	c.stream("orders", 1)
	for _, data := range []string{
		known + "\x02\x00", "plain",
		string(kpltest.Aggregate(kpltest.Record{Key: "a", Data: []byte(known + "\x04\x02\x02<")}, kpltest.Record{Key: "b", Data: []byte("inside")})),
		unknown + "\x02",
	} {
		if _, err := c.client.PutRecord(t.Context(), &sdk.PutRecordInput{StreamName: aws.String("orders"), PartitionKey: aws.String("k"), Data: []byte(data)}); err != nil {
			t.Fatal(err)
		}
	}
	p, _ := startConsume(t, []string{"AWS_ENDPOINT_URL_GLUE=" + registry.URL}, "kinesis", "--region", "us-east-1", "--endpoint-url", c.kurl, "--dynamodb-endpoint-url", c.durl,
		"--stream", "orders", "--app", "values", "--glue", "--text", "--max", "5")
	lines := p.rest()
	p.wantExit(0)
	if len(lines) != 5 {
		t.Fatalf("%d lines:\n%s", len(lines), strings.Join(lines, "\n"))
	}
	for i, want := range []string{
		`"sub":0,"key":"k",*,"schema":"points","schema_version":"41414141-4141-4141-4141-414141414141","data":{"x":1,"y":null}}`,
		`"sub":0,"key":"k",*,"text":"plain"}`,
		`"sub":0,"key":"a",*,"schema":"points","schema_version":"41414141-4141-4141-4141-414141414141","data":{"x":2,"y":"<"}}`,
		`"sub":1,"key":"b",*,"text":"inside"}`,
		`"sub":0,"key":"k",*,"schema":"","schema_version":"42424242-4242-4242-4242-424242424242","error":"*"}`,
	} {
		rest := lines[i]
		for part := range strings.SplitSeq(want, "*") {
			_, after, ok := strings.Cut(rest, part)
			if !ok {
				t.Errorf("line %d is\n%s\nwant %s", i, lines[i], want)
				break
			}
			rest = after
		}
	}
}
