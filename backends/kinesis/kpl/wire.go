package kpl

import (
	"bytes"
	"crypto/md5"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
)

var magic = []byte{0xF3, 0x89, 0x9A, 0xC2}

// IsAggregate reports whether a record's data begins as all containers do. It says nothing about the rest.
func IsAggregate(data []byte) bool { return len(data) >= len(magic) && [4]byte(data) == [4]byte(magic) }

// ref says which entries of the tables belong to a user record.
type ref struct {
	key, hash uint64
	explicit  bool // it has a hash key of its own
}

// message is the content of a container, in slices of it.
//
//	message AggregatedRecord { repeated string partition_key_table = 1; repeated string explicit_hash_key_table = 2; repeated Record records = 3; }
//	message Record { required uint64 partition_key_index = 1; optional uint64 explicit_hash_key_index = 2; required bytes data = 3; repeated Tag tags = 4; }
//	message Tag { required string key = 1; optional string value = 2; }
type message struct {
	keys, hashKeys [][]byte
	refs           []ref
	data           [][]byte
}

// mostKept is how many entries of each kind a message keeps room for between containers.
const mostKept = 1 << 14

func (m *message) reset() {
	if max(cap(m.keys), cap(m.hashKeys), cap(m.refs)) > mostKept {
		*m = message{}
		return
	}
	clear(m.keys)
	clear(m.hashKeys)
	clear(m.data)
	m.keys, m.hashKeys, m.refs, m.data = m.keys[:0], m.hashKeys[:0], m.refs[:0], m.data[:0]
}

var (
	errShort  = errors.New("it is too short to hold a message and its digest")
	errDigest = errors.New("the digest at its end is not that of its content: it was cut or changed, or is no aggregated record")
)

// read takes a container apart. The rules of proto2 hold as Java applies them: unknown fields, and known ones of another wire type, are
// passed over; of a field that comes twice the last counts; required ones must be there.
func (m *message) read(container []byte) error {
	if len(container) <= len(magic)+md5.Size {
		return errShort
	}
	body, digest := container[len(magic):len(container)-md5.Size], container[len(container)-md5.Size:]
	if sum := md5.Sum(body); !bytes.Equal(sum[:], digest) {
		return errDigest
	}
	return fields(body, func(num protowire.Number, _ uint64, value []byte) error {
		if value == nil {
			return nil
		}
		switch num {
		case 1:
			m.keys = append(m.keys, value)
		case 2:
			m.hashKeys = append(m.hashKeys, value)
		case 3:
			if err := m.record(value); err != nil {
				return fmt.Errorf("user record %d: %w", len(m.data), err)
			}
		}
		return nil
	})
}

func (m *message) record(b []byte) error {
	var r ref
	var data []byte
	hasKey := false
	err := fields(b, func(num protowire.Number, n uint64, value []byte) error {
		switch {
		case num == 1 && value == nil:
			r.key, hasKey = n, true
		case num == 2 && value == nil:
			r.hash, r.explicit = n, true
		case num == 3 && value != nil:
			data = value
		case num == 4 && value != nil:
			return tag(value)
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case !hasKey:
		return errors.New("it has no partition key index")
	case data == nil:
		return errors.New("it has no data")
	}
	m.refs, m.data = append(m.refs, r), append(m.data, data)
	return nil
}

// tag checks a tag of a user record; nobody reads it.
func tag(b []byte) error {
	hasKey := false
	err := fields(b, func(num protowire.Number, _ uint64, value []byte) error {
		hasKey = hasKey || num == 1 && value != nil
		return nil
	})
	if err == nil && !hasKey {
		err = errors.New("a tag has no key")
	}
	return err
}

// fields calls f for each varint of a protobuf message, with value nil, and each length-delimited field, with a value that is not nil.
func fields(b []byte, f func(num protowire.Number, n uint64, value []byte) error) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("its content is not protobuf: %w", protowire.ParseError(n))
		}
		if num > protowire.MaxValidNumber {
			return fmt.Errorf("its content is not protobuf: field number %d", num)
		}
		b = b[n:]
		var err error
		switch typ {
		case protowire.VarintType:
			var v uint64
			if v, n = protowire.ConsumeVarint(b); n >= 0 {
				err = f(num, v, nil)
			}
		case protowire.BytesType:
			var v []byte
			if v, n = protowire.ConsumeBytes(b); n >= 0 {
				err = f(num, 0, v[:len(v):len(v)])
			}
		default:
			n = protowire.ConsumeFieldValue(num, typ, b)
		}
		if n < 0 {
			return fmt.Errorf("its content is not protobuf: %w", protowire.ParseError(n))
		}
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// text is a view of b. What is no UTF-8 is replaced, as Java does.
func text(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	s := unsafe.String(&b[0], len(b))
	if utf8.ValidString(s) {
		return s
	}
	var t strings.Builder
	for _, r := range s {
		t.WriteRune(r) // U+FFFD for each byte that makes no sense
	}
	return t.String()
}
