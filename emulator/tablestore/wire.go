package tablestore

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// message is a request or an answer of the service, as the vendor's Go SDK generated them.
type message = protoadapt.MessageV1

// decode fills a request. A field that it does not know could change what the request means, so it is refused, unless
// it is one of those in harmless.
func decode(body []byte, into message) error {
	m := protoadapt.MessageV2Of(into)
	if err := proto.Unmarshal(body, m); err != nil {
		return invalid("Failed to parse the ProtoBuf message of the request: %v.", err)
	}
	return knownFields(m.ProtoReflect())
}

// harmless are fields that newer SDKs send and that change nothing here: message, then field numbers.
var harmless = map[protoreflect.Name]map[protoreflect.FieldNumber]bool{
	"DescribeStreamRequest": {4: true}, // support_timeseries_data_table, which the Java SDK 5 may set: it allows, it asks for nothing
}

func knownFields(m protoreflect.Message) error {
	for rest := m.GetUnknown(); len(rest) > 0; {
		number, _, n := protowire.ConsumeField(rest)
		if n < 0 {
			return invalid("Failed to parse the ProtoBuf message of the request.")
		}
		if name := m.Descriptor().Name(); !harmless[name][number] {
			return invalid("The emulator does not know field %d of %s, and what it means.", number, name)
		}
		rest = rest[n:]
	}
	var err error
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f.Message() == nil {
			return true
		}
		if !f.IsList() {
			err = knownFields(v.Message())
			return err == nil
		}
		for i := range v.List().Len() {
			if err = knownFields(v.List().Get(i).Message()); err != nil {
				return false
			}
		}
		return true
	})
	return err
}

// encode gives the bytes of an answer. One without a required field is a mistake in this package.
func encode(m message) ([]byte, error) { return proto.Marshal(protoadapt.MessageV2Of(m)) }
