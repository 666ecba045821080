package tablestore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	sdk "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/internal/otsclient"
	"github.com/shardwarden/shardwarden/internal/plainbuffer"
)

// answer is what GetStreamRecord gave.
type answer struct {
	changes []Change
	next    string // the iterator behind the changes; empty: the shard has ended
	more    bool   // the service says that there is more, also where it gave none (F126 in docs/reference/field-cases.md)
	bytes   int    // of the rows, as they were sent
}

// read asks for records. The SDK signs and sends; its decoding is not used: it looks at no checksum, and takes an order of magnitude longer.
func (s *Source) read(ctx context.Context, iterator string, limit int) (*answer, error) {
	free, err := s.slots.take(ctx)
	if err != nil {
		return nil, err
	}
	defer free()
	var body []byte
	_, err = otsclient.Call(ctx, s.client, otsclient.Op{Name: "GetStreamRecord", Table: s.table, Body: func(b []byte) ([]byte, error) {
		body = b
		return nil, nil
	}}, func(c *sdk.TableStoreClient) (*sdk.GetStreamRecordResponse, error) {
		it, n := sdk.ShardIterator(iterator), int32(limit)
		return c.GetStreamRecord(&sdk.GetStreamRecordRequest{ShardIterator: &it, Limit: &n})
	})
	if err != nil {
		return nil, err
	}
	a, err := parseAnswer(body)
	if err != nil {
		return nil, fmt.Errorf("GetStreamRecord: %w: the answer is damaged: %w", core.ErrUnavailable, err) // asking again may help
	}
	return a, nil
}

// patientRead repeats a read while that may help and the source's patience lasts.
func (s *Source) patientRead(ctx context.Context, iterator string, limit int) (*answer, error) {
	for t := s.tries(); ; {
		a, err := s.read(ctx, iterator, limit)
		if err == nil || !passes(err) {
			return a, err
		}
		if err := t.again(ctx, "GetStreamRecord", err); err != nil {
			return nil, err
		}
	}
}

// parseAnswer decodes a GetStreamRecordResponse (docs/reference/tablestore.md 2.5). What it returns shares no memory with the body.
func parseAnswer(body []byte) (*answer, error) {
	a := &answer{}
	p := parser{names: map[string]string{}}
	records := 0
	if err := fields(body, func(number int, _ uint64, _ []byte) error {
		if number == 1 {
			records++
		}
		return nil
	}); err != nil {
		return nil, err
	}
	a.changes = make([]Change, 0, records)
	err := fields(body, func(number int, n uint64, b []byte) error {
		switch {
		case number <= 2 && b == nil:
			return errProtobuf // or an answer would look like the end of the shard
		case number == 1:
			a.bytes += len(b)
			c, err := p.change(b)
			if err != nil {
				return fmt.Errorf("record %d: %w", len(a.changes), err)
			}
			a.changes = append(a.changes, c)
		case number == 2:
			a.next = string(b)
		case number == 4:
			a.more = n != 0
		}
		return nil
	})
	return a, err
}

// parser makes changes. Names are kept once, since those of a table repeat from row to row, and columns are taken from blocks of many.
type parser struct {
	row   plainbuffer.Row
	names map[string]string
	last  []Column // of the change before
	block []Column
}

func (p *parser) change(b []byte) (c Change, err error) {
	var record, old []byte
	kind := uint64(0)
	if err := fields(b, func(number int, n uint64, b []byte) error {
		switch number {
		case 1:
			kind = n
		case 2:
			record = b
		case 3:
			old = b
		case 4:
			c.Table = string(b)
		}
		return nil
	}); err != nil {
		return c, err
	}
	if kind < 1 || kind > 3 {
		return c, fmt.Errorf("action %d is none that is known", kind)
	}
	c.Type = ChangeType(kind - 1)
	if err := plainbuffer.DecodeRow(record, &p.row); err != nil {
		return c, err
	}
	if !p.row.HasSequence {
		return c, errors.New("it has no sequence")
	}
	c.Sequence = Sequence{Epoch: p.row.Sequence.Epoch, Timestamp: p.row.Sequence.Timestamp, Row: p.row.Sequence.RowIndex}
	if c.Key, err = p.key(); err != nil {
		return c, err
	}
	if c.Columns, err = p.columns(); err != nil {
		return c, err
	}
	if p.last = c.Columns; old == nil {
		return c, nil
	}
	c.Old = []Column{}
	if len(old) == 0 {
		return c, nil
	}
	if err = plainbuffer.DecodeRow(old, &p.row); err == nil && len(p.row.Cells) > 0 {
		c.Old, err = p.columns()
	}
	if err != nil {
		return c, fmt.Errorf("old values: %w", err)
	}
	return c, nil
}

func (p *parser) key() ([]KeyColumn, error) {
	if len(p.row.PrimaryKey) == 0 {
		return nil, errors.New("it has no primary key")
	}
	key := make([]KeyColumn, len(p.row.PrimaryKey))
	for i := range p.row.PrimaryKey {
		c := &p.row.PrimaryKey[i]
		switch c.Value.Kind {
		case plainbuffer.Integer, plainbuffer.String, plainbuffer.Blob:
		default:
			return nil, fmt.Errorf("primary key column %q is %v", c.Name, c.Value.Kind)
		}
		key[i] = KeyColumn{Name: p.name(c.Name), Value: c.Value.Any()}
	}
	return key, nil
}

func (p *parser) name(b []byte) string {
	if s, ok := p.names[string(b)]; ok {
		return s
	}
	s := string(b)
	p.names[s] = s
	return s
}

// columns makes those of the row. A cell without a value deletes: one version where it names it, else all. The byte that says the same is not
// looked at by the vendor's own Go client, so it may be missing; a cell in which the two disagree is taken as damaged rather than guessed at.
func (p *parser) columns() ([]Column, error) {
	n := len(p.row.Cells)
	if n == 0 {
		return nil, nil
	}
	if n > len(p.block) {
		p.block = make([]Column, max(n, 256))
	}
	out := p.block[:n:n]
	p.block = p.block[n:]
	for i := range p.row.Cells {
		c, col := &p.row.Cells[i], &out[i]
		if col.Timestamp = c.Timestamp; i < len(p.last) && p.last[i].Name == string(c.Name) {
			col.Name = p.last[i].Name
		} else {
			col.Name = p.name(c.Name)
		}
		switch {
		case c.Value.Kind != plainbuffer.None && c.Op == plainbuffer.Put:
			if col.Value = c.Value.Any(); col.Value == nil {
				return nil, fmt.Errorf("column %q is %v", c.Name, c.Value.Kind)
			}
		case c.Value.Kind == plainbuffer.None && c.HasTimestamp && (c.Op == plainbuffer.DeleteOneVersion || c.Op == plainbuffer.Put):
			col.Op = DeleteVersion
		case c.Value.Kind == plainbuffer.None && !c.HasTimestamp && (c.Op == plainbuffer.DeleteAllVersions || c.Op == plainbuffer.Put):
			col.Op = DeleteColumn
		default:
			return nil, fmt.Errorf("column %q: kind %d does not fit its value (%v) and timestamp", c.Name, c.Op, c.Value.Kind)
		}
	}
	return out, nil
}

var errProtobuf = errors.New("no protobuf message")

// fields walks over a protobuf message. f gets each field's number with its integer, or with its bytes, which are nil for fields of other types.
func fields(b []byte, f func(number int, n uint64, b []byte) error) error {
	for len(b) > 0 {
		tag, k := binary.Uvarint(b)
		if k <= 0 || tag>>3 == 0 || tag>>3 >= 1<<29 {
			return errProtobuf
		}
		b = b[k:]
		var n uint64
		var sub []byte
		switch tag & 7 {
		case 0:
			if n, k = binary.Uvarint(b); k <= 0 {
				return errProtobuf
			}
		case 1:
			k = 8
		case 2:
			if n, k = binary.Uvarint(b); k <= 0 || n > uint64(len(b)-k) {
				return errProtobuf
			}
			sub = b[k : k+int(n) : k+int(n)]
			k += int(n)
		case 5:
			k = 4
		default:
			return errProtobuf
		}
		if k > len(b) {
			return errProtobuf
		}
		b = b[k:]
		if err := f(int(tag>>3), n, sub); err != nil {
			return err
		}
	}
	return nil
}
