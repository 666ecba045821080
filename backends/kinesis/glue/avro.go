package glue

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/hamba/avro/v2"
)

// parseAvro reads the text of an Avro schema.
func parseAvro(text string) (avro.Schema, error) {
	// A cache of its own: names of other schemas must not leak into this one.
	return avro.ParseBytesWithCache([]byte(text), "", &avro.SchemaCache{})
}

func avroName(s avro.Schema) string {
	if named, ok := s.(avro.NamedSchema); ok {
		return named.FullName()
	}
	return ""
}

// avroReader decodes a datum of Avro's binary encoding. What comes behind the datum is left, as Java leaves it.
type avroReader struct {
	in  []byte
	mem *budget
}

func (r *avroReader) read(s avro.Schema, depth int) (any, error) {
	if depth > deepest {
		return nil, errDeep
	}
	if err := r.mem.take(slotBytes); err != nil {
		return nil, err
	}
	switch s := s.(type) {
	case *avro.NullSchema:
		return nil, nil
	case *avro.RefSchema:
		return r.read(s.Schema(), depth)
	case *avro.PrimitiveSchema:
		return r.primitive(s.Type())
	case *avro.RecordSchema:
		return r.record(s, depth)
	case *avro.EnumSchema:
		n, err := r.long()
		if err != nil {
			return nil, err
		}
		if n < 0 || n >= int64(len(s.Symbols())) {
			return nil, fmt.Errorf("enum %s has no symbol number %d", s.FullName(), n)
		}
		return s.Symbols()[n], nil
	case *avro.UnionSchema:
		n, err := r.long()
		if err != nil {
			return nil, err
		}
		if n < 0 || n >= int64(len(s.Types())) {
			return nil, fmt.Errorf("a union of %d types has no type number %d", len(s.Types()), n)
		}
		return r.read(s.Types()[n], depth)
	case *avro.FixedSchema:
		return r.bytes(int64(s.Size()))
	case *avro.ArraySchema:
		list := []any{}
		err := r.blocks(func() error {
			v, err := r.read(s.Items(), depth+1)
			list = append(list, v)
			return err
		})
		return list, err
	case *avro.MapSchema:
		m := map[string]any{}
		err := r.blocks(func() error {
			key, err := r.text()
			if err != nil {
				return err
			}
			if err := r.mem.take(entries(len(m)+1) - entries(len(m))); err != nil {
				return err
			}
			m[key], err = r.read(s.Values(), depth+1)
			return err
		})
		return m, err
	}
	return nil, fmt.Errorf("type %s is not one of Avro's", s.Type())
}

func (r *avroReader) record(s *avro.RecordSchema, depth int) (any, error) {
	fields := s.Fields()
	if err := r.mem.take(entries(len(fields))); err != nil {
		return nil, err
	}
	m := make(map[string]any, len(fields))
	for _, f := range fields {
		v, err := r.read(f.Type(), depth+1)
		if err != nil {
			return nil, inField(err, f.Name())
		}
		m[f.Name()] = v
	}
	return m, nil
}

// fieldError names the field, the outermost ones last, without a chain of errors as long as the data is deep.
type fieldError struct {
	name string
	err  error
}

func (e *fieldError) Error() string { return fmt.Sprintf("field %s: %v", e.name, e.err) }
func (e *fieldError) Unwrap() error { return e.err }

func inField(err error, name string) error {
	if f, ok := errors.AsType[*fieldError](err); ok {
		if len(f.name) < 200 {
			f.name = name + "." + f.name
		}
		return err
	}
	return &fieldError{name, err}
}

func (r *avroReader) primitive(t avro.Type) (any, error) {
	switch t {
	case avro.Boolean:
		b, err := r.next(1)
		if err != nil {
			return nil, err
		}
		if b[0] > 1 {
			return nil, fmt.Errorf("a boolean is %d, not 0 or 1", b[0])
		}
		return b[0] == 1, nil
	case avro.Int:
		n, err := r.long()
		if err == nil && n != int64(int32(n)) {
			err = fmt.Errorf("an int is %d, more than 32 bits hold", n)
		}
		return int32(n), r.boxed(err)
	case avro.Long:
		n, err := r.long()
		return n, r.boxed(err)
	case avro.Float:
		b, err := r.next(4)
		if err != nil {
			return nil, err
		}
		return math.Float32frombits(binary.LittleEndian.Uint32(b)), r.boxed(nil)
	case avro.Double:
		b, err := r.next(8)
		if err != nil {
			return nil, err
		}
		return math.Float64frombits(binary.LittleEndian.Uint64(b)), r.boxed(nil)
	case avro.String:
		return r.text()
	case avro.Bytes:
		n, err := r.long()
		if err != nil {
			return nil, err
		}
		return r.bytes(n)
	}
	return nil, fmt.Errorf("type %s is not one of Avro's", t)
}

func (r *avroReader) boxed(err error) error {
	if err != nil {
		return err
	}
	return r.mem.take(boxBytes)
}

// blocks reads the items of an array or a map, which come in blocks: a count, or a negative one and the block's length in bytes.
func (r *avroReader) blocks(item func() error) error {
	for {
		n, err := r.long()
		if err == nil && n < 0 {
			if n = -n; n < 0 {
				return errors.New("a block of 2^63 items")
			}
			_, err = r.long()
		}
		if err != nil || n == 0 {
			return err
		}
		for ; n > 0; n-- {
			if err := item(); err != nil {
				return err
			}
		}
	}
}

func (r *avroReader) next(n int64) ([]byte, error) {
	if n < 0 {
		return nil, fmt.Errorf("a length is negative: %d", n)
	}
	if n > int64(len(r.in)) {
		return nil, fmt.Errorf("the payload ends %d bytes too early: %w", n-int64(len(r.in)), io.ErrUnexpectedEOF)
	}
	b := r.in[:n]
	r.in = r.in[n:]
	return b, nil
}

// bytes copies, for a message owns its memory.
func (r *avroReader) bytes(n int64) ([]byte, error) {
	b, err := r.next(n)
	if err == nil {
		err = r.mem.take(textBytes + len(b))
	}
	if err != nil {
		return nil, err
	}
	return append(make([]byte, 0, len(b)), b...), nil
}

func (r *avroReader) text() (string, error) {
	n, err := r.long()
	if err != nil {
		return "", err
	}
	b, err := r.next(n)
	if err == nil {
		err = r.mem.take(textBytes + len(b))
	}
	return string(b), err
}

func (r *avroReader) long() (int64, error) {
	n, size := binary.Varint(r.in)
	switch {
	case size == 0:
		return 0, fmt.Errorf("the payload ends inside a number: %w", io.ErrUnexpectedEOF)
	case size < 0:
		return 0, errors.New("a number of more than 64 bits")
	}
	r.in = r.in[size:]
	return n, nil
}
