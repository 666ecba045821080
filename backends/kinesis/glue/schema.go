package glue

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/glue"
	"github.com/hamba/avro/v2"
	"google.golang.org/protobuf/types/dynamicpb"
)

// schema is a version of a schema, ready to decode with. It never changes.
type schema struct {
	name, version, text string
	number              int64
	format              Format
	avro                avro.Schema
	messages            messages
	types               *dynamicpb.Types
}

// newSchema makes a schema of what the registry says of it.
func newSchema(ctx context.Context, version string, out *sdk.GetSchemaVersionOutput) (*schema, error) {
	s := &schema{
		version: version, number: aws.ToInt64(out.VersionNumber), format: Format(out.DataFormat), text: aws.ToString(out.SchemaDefinition),
	}
	arn := aws.ToString(out.SchemaArn)
	s.name = arn[strings.LastIndexByte(arn, '/')+1:]
	if s.text == "" {
		return nil, fmt.Errorf("schema %s: the registry gives no definition (status %s)", s.name, out.Status)
	}
	var err error
	switch s.format {
	case JSON:
	case Avro:
		s.avro, err = parseAvro(s.text)
	case Protobuf:
		if s.messages, s.types, err = parseProto(ctx, s.name, s.text); err == nil && len(s.messages) == 0 {
			err = errNoMessages
		}
	default:
		err = fmt.Errorf("format %q is none of %s, %s and %s", s.format, Avro, JSON, Protobuf)
	}
	if err != nil {
		return nil, fmt.Errorf("schema %s, version %d: %w", s.name, s.number, err)
	}
	return s, nil
}

// read decodes a payload into m.
func (s *schema) read(payload []byte, mem *budget, m *Message) error {
	switch s.format {
	case Avro:
		r := avroReader{in: payload, mem: mem}
		v, err := r.read(s.avro, 0)
		if err != nil {
			return err
		}
		m.Value, m.Type = v, avroName(s.avro)
	case JSON:
		v, err := readJSON(payload, mem)
		if err != nil {
			return err
		}
		m.Value = v
	case Protobuf:
		v, err := s.messages.read(payload, mem)
		if err != nil {
			return err
		}
		m.Value, m.Type = v, string(v.Descriptor().FullName())
	}
	return nil
}
