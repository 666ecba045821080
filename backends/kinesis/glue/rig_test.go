package glue

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/shardwarden/shardwarden/core"
)

// fakeRegistry answers GetSchemaVersion in the service's own protocol. It is an aws.HTTPClient and an http.Handler.
type fakeRegistry struct {
	mu      sync.Mutex
	schemas map[string]map[string]any // by version id
	calls   int
	trouble func(w http.ResponseWriter) bool // answers instead, where it returns true
	gate    chan struct{}                    // not nil: calls wait for it
}

func (f *fakeRegistry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct{ SchemaVersionId string }
	body, _ := io.ReadAll(r.Body)
	err := json.Unmarshal(body, &in)
	f.mu.Lock()
	f.calls++
	schema, trouble := f.schemas[in.SchemaVersionId], f.trouble
	f.mu.Unlock()
	if trouble != nil && trouble(w) {
		return
	}
	switch {
	case r.Header.Get("X-Amz-Target") != "AWSGlue.GetSchemaVersion" || err != nil:
		refuse(400, "InvalidInputException")(w)
	case schema == nil:
		refuse(400, "EntityNotFoundException")(w)
	default:
		_ = json.NewEncoder(w).Encode(schema)
	}
}

// Do makes it an HTTP client, without a network, for tests in fake time.
func (f *fakeRegistry) Do(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	gate := f.gate
	f.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	w := &answer{header: http.Header{}, status: 200}
	f.ServeHTTP(w, r)
	return &http.Response{StatusCode: w.status, Header: w.header, Body: io.NopCloser(strings.NewReader(w.body.String())), ContentLength: int64(w.body.Len()), Request: r}, nil
}

type answer struct {
	header http.Header
	status int
	body   strings.Builder
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(b []byte) (int, error) { return a.body.Write(b) }

func refuse(status int, code string) func(http.ResponseWriter) bool {
	return func(w http.ResponseWriter) bool {
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"__type":%q,"Message":"said so"}`, code)
		return true
	}
}

func (f *fakeRegistry) add(version, name string, format Format, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.schemas == nil {
		f.schemas = map[string]map[string]any{}
	}
	f.schemas[version] = map[string]any{
		"SchemaVersionId": version, "SchemaDefinition": text, "DataFormat": format, "VersionNumber": 3, "Status": "AVAILABLE",
		"SchemaArn": "arn:aws:glue:us-east-1:123456789012:schema/registry/" + name,
	}
}

func (f *fakeRegistry) asked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

func (f *fakeRegistry) fail(trouble func(http.ResponseWriter) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trouble = trouble
}

func (f *fakeRegistry) config() aws.Config {
	return aws.Config{Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("x", "x", ""), HTTPClient: f, Retryer: func() aws.Retryer { return aws.NopRetryer{} }}
}

func (f *fakeRegistry) decoder(opts ...Option) *Decoder { return New(f.config(), opts...) }

const vectors = "../../../testdata/vectors/gsr/"

// vector is a case of testdata/vectors.
type vector struct {
	Name    string
	Data    []byte
	Schema  string
	Version string `json:"schema_version_id"`
	Format  Format `json:"data_format"`
	Title   string `json:"schema_name"`
	Message *struct {
		FullName string `json:"full_name"`
	}
	Want json.RawMessage `json:"expect_json"`
	Java struct {
		Can    bool `json:"can_deserialize"`
		JSON   json.RawMessage
		Throws string
		Hangs  bool
	} `json:"java_deserializer"`
	KCL struct {
		Data      []byte
		SchemaSet bool   `json:"schema_set"`
		Name      string `json:"schema_name"`
	} `json:"kcl_schema_registry_decoder"`
}

func readVectors(t testing.TB, file string) []vector {
	t.Helper()
	text, err := os.ReadFile(vectors + file)
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Cases []vector }
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all.Cases
}

// header begins a record of a schema version.
func header(version string, compression byte) []byte {
	id, err := hex.DecodeString(strings.ReplaceAll(version, "-", ""))
	if err != nil || len(id) != 16 {
		panic("not a version: " + version)
	}
	return append([]byte{headVersion, compression}, id...)
}

func record(version string, payload []byte) *core.Record {
	return &core.Record{Data: append(header(version, plain), payload...), Key: "k", Sequence: "49590000000000000000000000000000000000000000000000000001"}
}

func decode(t *testing.T, d *Decoder, r *core.Record) *Message {
	t.Helper()
	if _, err := d.Decode(context.WithoutCancel(t.Context()), r); err != nil {
		t.Fatal(err)
	}
	m, ok := r.Native.(*Message)
	if !ok {
		t.Fatalf("no message: %+v", r)
	}
	return m
}
