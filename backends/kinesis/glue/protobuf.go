package glue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	// What schemas may import beside google/protobuf: the files that the Java serializer brings.
	_ "google.golang.org/genproto/googleapis/type/calendarperiod"
	_ "google.golang.org/genproto/googleapis/type/color"
	_ "google.golang.org/genproto/googleapis/type/date"
	_ "google.golang.org/genproto/googleapis/type/datetime"
	_ "google.golang.org/genproto/googleapis/type/dayofweek"
	_ "google.golang.org/genproto/googleapis/type/decimal"
	_ "google.golang.org/genproto/googleapis/type/expr"
	_ "google.golang.org/genproto/googleapis/type/fraction"
	_ "google.golang.org/genproto/googleapis/type/interval"
	_ "google.golang.org/genproto/googleapis/type/latlng"
	_ "google.golang.org/genproto/googleapis/type/localized_text"
	_ "google.golang.org/genproto/googleapis/type/money"
	_ "google.golang.org/genproto/googleapis/type/month"
	_ "google.golang.org/genproto/googleapis/type/phone_number"
	_ "google.golang.org/genproto/googleapis/type/postaladdress"
	_ "google.golang.org/genproto/googleapis/type/quaternion"
	_ "google.golang.org/genproto/googleapis/type/timeofday"
)

// messages are the types of a .proto file in the order by which payloads name them: by full name, nested ones and those of map entries among
// them (class MessageIndexFinder of the Java serializer).
type messages []protoreflect.MessageDescriptor

// parseProto compiles the text of a .proto file. It may import google/protobuf and google/type, and nothing else.
func parseProto(ctx context.Context, name, text string) (messages, *dynamicpb.Types, error) {
	file := name + ".proto"
	compiler := protocompile.Compiler{
		MaxParallelism: 1,
		Resolver: protocompile.WithStandardImports(protocompile.ResolverFunc(func(path string) (protocompile.SearchResult, error) {
			if path == file {
				return protocompile.SearchResult{Source: strings.NewReader(text)}, nil
			}
			if strings.HasPrefix(path, "google/type/") {
				if known, err := protoregistry.GlobalFiles.FindFileByPath(path); err == nil {
					return protocompile.SearchResult{Desc: known}, nil
				}
			}
			return protocompile.SearchResult{}, fmt.Errorf("a schema can import files of google/protobuf and google/type only, not %s", path)
		})),
	}
	files, err := compiler.Compile(ctx, file)
	if err != nil {
		return nil, nil, err
	}
	var all messages
	var add func(protoreflect.MessageDescriptors)
	add = func(list protoreflect.MessageDescriptors) {
		for i := range list.Len() {
			all = append(all, list.Get(i))
			add(list.Get(i).Messages())
		}
	}
	add(files[0].Messages())
	slices.SortFunc(all, func(a, b protoreflect.MessageDescriptor) int {
		return strings.Compare(string(a.FullName()), string(b.FullName()))
	})
	registry := &protoregistry.Files{}
	if err := register(registry, files[0]); err != nil {
		return nil, nil, err
	}
	return all, dynamicpb.NewTypes(registry), nil
}

// register adds a file and what it imports, for the types that a google.protobuf.Any may hold.
func register(to *protoregistry.Files, f protoreflect.FileDescriptor) error {
	if _, err := to.FindFileByPath(f.Path()); err == nil {
		return nil
	}
	for i := range f.Imports().Len() {
		if err := register(to, f.Imports().Get(i).FileDescriptor); err != nil {
			return err
		}
	}
	return to.RegisterFile(f)
}

// read decodes a payload: the index of its type, then the message.
func (m messages) read(payload []byte, mem *budget) (*dynamicpb.Message, error) {
	index, n := protowire.ConsumeVarint(payload)
	if n < 0 {
		return nil, fmt.Errorf("it does not begin with the number of a message type: %w", protowire.ParseError(n))
	}
	if index >= uint64(len(m)) {
		return nil, fmt.Errorf("message type number %d of a schema that has %d", index, len(m))
	}
	body, t := payload[n:], m[index]
	if err := reckon(t, body, mem, 0); err != nil {
		return nil, err
	}
	v := dynamicpb.NewMessage(t)
	if err := proto.Unmarshal(body, v); err != nil {
		return nil, fmt.Errorf("not a %s: %w", t.FullName(), err)
	}
	return v, nil
}

// What the dynamic messages of package dynamicpb take.
const (
	messageBytes = 112 + 8*40 // with room for eight fields
	itemBytes    = 2 * 24     // of a list, which grows by doubling
)

// reckon takes from mem what a message will take. What is no protobuf it leaves to the decoder.
func reckon(t protoreflect.MessageDescriptor, b []byte, mem *budget, depth int) error {
	if depth > deepest {
		return errDeep
	}
	if err := mem.take(messageBytes); err != nil {
		return err
	}
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil
		}
		size := protowire.ConsumeFieldValue(num, typ, b[n:])
		if size < 0 {
			return nil
		}
		value := b[n : n+size]
		b = b[n+size:]
		if err := mem.take(itemBytes); err != nil {
			return err
		}
		field := t.Fields().ByNumber(num)
		var content []byte
		switch typ {
		case protowire.BytesType:
			content, _ = protowire.ConsumeBytes(value)
		case protowire.StartGroupType:
			content, _ = protowire.ConsumeGroup(num, value)
		default:
			continue
		}
		var err error
		switch {
		case field != nil && field.Message() != nil:
			err = reckon(field.Message(), content, mem, depth+1)
		case field != nil && field.IsList() && field.Kind() != protoreflect.StringKind && field.Kind() != protoreflect.BytesKind:
			err = mem.take(len(content) * itemBytes) // packed: at most so many
		default:
			err = mem.take(textBytes + len(content))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

var errNoMessages = errors.New("the schema has no message types")
