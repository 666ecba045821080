package tablestore

import (
	"cmp"
	"slices"

	pb "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"

	"github.com/shardwarden/shardwarden/internal/plainbuffer"
)

// key is a row's primary key, in the order of the table's columns.
type key []plainbuffer.Value

func compareKeys(a, b key) int {
	for i := range min(len(a), len(b)) {
		if c := a[i].Compare(b[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

func (k key) clone() key {
	out := make(key, len(k))
	for i, v := range k {
		out[i] = v.Clone()
	}
	return out
}

// texts are the values of type string, for faults and admin calls that name a row.
func (k key) texts() []string {
	var out []string
	for _, v := range k {
		if v.Kind == plainbuffer.String {
			out = append(out, v.Text())
		}
	}
	return out
}

// keyColumn is one column of a table's primary key.
type keyColumn struct {
	name string
	kind plainbuffer.Kind
	auto bool // AUTO_INCREMENT
}

var kindOfKeyType = map[pb.PrimaryKeyType]plainbuffer.Kind{
	pb.PrimaryKeyType_INTEGER: plainbuffer.Integer,
	pb.PrimaryKeyType_STRING:  plainbuffer.String,
	pb.PrimaryKeyType_BINARY:  plainbuffer.Blob,
}

func (c keyColumn) schema() *pb.PrimaryKeySchema {
	out := &pb.PrimaryKeySchema{Name: new(c.name)}
	for t, k := range kindOfKeyType {
		if k == c.kind {
			out.Type = t.Enum()
		}
	}
	if c.auto {
		out.Option = pb.PrimaryKeyOption_AUTO_INCREMENT.Enum()
	}
	return out
}

const (
	maxKeyColumns = 4
	maxKeySize    = 1024 // bytes of one value
)

// keyUse says which values may stand in a key beside those of the column's type.
type keyUse int

const (
	exactKey keyUse = iota
	putKey          // AUTO_INCREMENT where the column has it
	boundKey        // INF_MIN and INF_MAX
)

// keyOf checks the cells of a key against the table's columns.
func (t *table) keyOf(cells []plainbuffer.Cell, use keyUse) (key, error) {
	if len(cells) != len(t.keys) {
		return nil, fail(codeInvalidPK, "Validate PK size fail. Input: %d, Meta: %d.", len(cells), len(t.keys))
	}
	k := make(key, len(cells))
	for i, c := range cells {
		want := t.keys[i]
		if string(c.Name) != want.name {
			return nil, fail(codeInvalidPK, "Validate PK name fail. Input: %s, Meta: %s.", c.Name, want.name)
		}
		if c.HasTimestamp || c.Op != plainbuffer.Put {
			return nil, fail(codeInvalidPK, "Primary key column %s has a timestamp or an operation.", c.Name)
		}
		switch kind := c.Value.Kind; {
		case kind == want.kind && want.auto && use == putKey:
			return nil, fail(codeInvalidPK, "Primary key column %s is AUTO_INCREMENT: PutRow must leave its value to the service.", c.Name)
		case kind == want.kind:
		case use == boundKey && (kind == plainbuffer.InfMin || kind == plainbuffer.InfMax):
		case use == putKey && want.auto && kind == plainbuffer.AutoIncrement:
		default:
			return nil, fail(codeInvalidPK, "Validate PK type fail. Input: %v, Meta: %v.", kind, want.kind)
		}
		if n := c.Value.Size(); n > maxKeySize {
			return nil, invalid("The length of primary key column: '%s' exceeds the MaxLength: %d with CurrentLength: %d.", c.Name, maxKeySize, n)
		}
		k[i] = c.Value
	}
	return k, nil
}

// decodeKey reads a buffer with a key and nothing else.
func (t *table) decodeKey(data []byte, use keyUse) (key, error) {
	var r plainbuffer.Row
	if err := decodeRow(data, &r); err != nil {
		return nil, err
	}
	if len(r.Cells) > 0 {
		return nil, invalid("A primary key has %d attribute columns beside it.", len(r.Cells))
	}
	return t.keyOf(r.PrimaryKey, use)
}

func decodeRow(data []byte, r *plainbuffer.Row) error {
	if err := plainbuffer.DecodeRow(data, r); err != nil {
		return invalid("Invalid PlainBuffer: %v.", err)
	}
	return nil
}

// cells are those of a key of this table.
func (t *table) keyCells(k key) []plainbuffer.Cell {
	out := make([]plainbuffer.Cell, len(k))
	for i, v := range k {
		out[i] = plainbuffer.Key(t.keys[i].name, v)
	}
	return out
}

func (t *table) encodeKey(k key) []byte {
	return plainbuffer.Encode(plainbuffer.Row{PrimaryKey: t.keyCells(k)})
}

// isKey says whether a column belongs to the primary key, and at which place.
func (t *table) isKey(name string) (int, bool) {
	i := slices.IndexFunc(t.keys, func(c keyColumn) bool { return c.name == name })
	return i, i >= 0
}
