package glue

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/glue"
	"github.com/aws/aws-sdk-go-v2/service/glue/types"

	"github.com/shardwarden/shardwarden/core"
)

// A registry that is not ours, given by its URL in SHARDWARDEN_GLUE: moto's (interop/peers/start.sh moto, then http://127.0.0.1:5555), or the service's.
func TestAnotherRegistry(t *testing.T) {
	url := os.Getenv("SHARDWARDEN_GLUE")
	if url == "" {
		t.Skip("SHARDWARDEN_GLUE names no registry")
	}
	cfg := aws.Config{Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("x", "x", "")}
	client := sdk.NewFromConfig(cfg, func(o *sdk.Options) { o.BaseEndpoint = &url })
	registry := fmt.Sprint("shardwarden-", os.Getpid())
	if _, err := client.CreateRegistry(t.Context(), &sdk.CreateRegistryInput{RegistryName: &registry}); err != nil {
		t.Fatal(err)
	}
	d := New(cfg, Endpoint(url))
	for format, c := range map[types.DataFormat]struct{ text, payload, want string }{
		types.DataFormatAvro:     {`{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}`, "\x02", `{"a":1}`},
		types.DataFormatJson:     {`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}`, `{"a":1}`, `{"a":1}`},
		types.DataFormatProtobuf: {`syntax = "proto3"; message M { int32 a = 1; }`, "\x00\x08\x01", `{"a":1}`},
	} {
		made, err := client.CreateSchema(t.Context(), &sdk.CreateSchemaInput{
			SchemaName: aws.String("of-" + string(format)), DataFormat: format, SchemaDefinition: &c.text, Compatibility: types.CompatibilityNone,
			RegistryId: &types.RegistryId{RegistryName: &registry},
		})
		if err != nil {
			t.Fatal(err)
		}
		m := decode(t, d, record(aws.ToString(made.SchemaVersionId), []byte(c.payload)))
		got, err := m.JSON()
		if err != nil || string(got) != c.want || m.Schema != "of-"+string(format) || m.Number != 1 {
			t.Errorf("%s: %s, %v, %+v", format, got, err, m)
		}
	}
	if m := decode(t, d, record(version, nil)); !errors.Is(m.Err, core.ErrInvalid) {
		t.Errorf("unknown version: %v", m.Err)
	}
	if c := d.Counts(); c.Lookups != 4 || c.Decoded != 3 || c.Bad != 1 {
		t.Errorf("%+v", c)
	}
}
