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
	var body []byte
	_, err := otsclient.Call(ctx, s.client, otsclient.Op{Name: "GetStreamRecord", Table: s.table, Body: func(b []byte) ([]byte, error) {
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
	var p parser
	err := fields(body, func(number int, n uint64, b []byte) error {
		switch {
		case number <= 2 && b == nil:
			return errProtobuf // or an answer would look like the end of the shard
		case number == 1:
			return p.record(b)
		case number == 2:
			a.next = string(b)
		case number == 4:
			a.more = n != 0
		}
		return nil
	})
	a.changes, a.bytes = p.finish()
	return a, err
}

// parser gathers changes. All columns stand in one array, which grows while it is read: changes get their parts of it in the end.
type parser struct {
	row     plainbuffer.Row
	changes []Change
	spans   []span
	columns []Column
	names   names
	bytes   int
}

// span is where the columns of a change stand; old from mid on, if it has any.
type span struct {
	from, mid, to int
	old           bool
}

// names keeps one copy of each name: those of a table repeat from row to row.
type names map[string]string

func (m names) of(b []byte) string {
	if s, ok := m[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(m) < 4096 {
		m[s] = s
	}
	return s
}

func (p *parser) record(b []byte) error {
	var c Change
	var record, origin []byte
	kind, hasOrigin := uint64(0), false
	err := fields(b, func(number int, n uint64, b []byte) error {
		switch number {
		case 1:
			kind = n
		case 2:
			record = b
		case 3:
			origin, hasOrigin = b, true
		case 4:
			c.Table = string(b)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if kind < 1 || kind > 3 {
		return fmt.Errorf("record %d: action %d is none that is known", len(p.changes), kind)
	}
	c.Type = ChangeType(kind - 1)
	at := span{from: len(p.columns), old: hasOrigin}
	if err := plainbuffer.DecodeRow(record, &p.row); err != nil {
		return fmt.Errorf("record %d: %w", len(p.changes), err)
	}
	if !p.row.HasSequence {
		return fmt.Errorf("record %d: it has no sequence", len(p.changes))
	}
	c.Sequence = Sequence{Epoch: p.row.Sequence.Epoch, Timestamp: p.row.Sequence.Timestamp, Row: p.row.Sequence.RowIndex}
	if p.names == nil {
		p.names = names{}
	}
	if c.Key, err = p.key(); err == nil {
		err = p.cells()
	}
	if err != nil {
		return fmt.Errorf("record %d: %w", len(p.changes), err)
	}
	at.mid = len(p.columns)
	if len(origin) > 0 {
		if err := plainbuffer.DecodeRow(origin, &p.row); err != nil {
			return fmt.Errorf("old values of record %d: %w", len(p.changes), err)
		}
		if err := p.cells(); err != nil {
			return fmt.Errorf("old values of record %d: %w", len(p.changes), err)
		}
	}
	at.to = len(p.columns)
	p.changes, p.spans = append(p.changes, c), append(p.spans, at)
	p.bytes += len(b)
	return nil
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
		key[i] = KeyColumn{Name: p.names.of(c.Name), Value: c.Value.Any()}
	}
	return key, nil
}

// cells adds the attribute columns of the row. A cell without a value deletes: one version where it names it, else all. The byte that says the
// same is not always looked at by the vendor's own clients, so a cell in which the two disagree is told as damaged rather than guessed at.
func (p *parser) cells() error {
	for i := range p.row.Cells {
		c := &p.row.Cells[i]
		col := Column{Name: p.names.of(c.Name), Timestamp: c.Timestamp}
		switch {
		case c.Value.Kind != plainbuffer.None && c.Op == plainbuffer.Put:
			if col.Value = c.Value.Any(); col.Value == nil {
				return fmt.Errorf("column %q is %v", c.Name, c.Value.Kind)
			}
		case c.Value.Kind == plainbuffer.None && c.HasTimestamp && c.Op != plainbuffer.DeleteAllVersions && c.Op != plainbuffer.Increment:
			col.Op = DeleteVersion
		case c.Value.Kind == plainbuffer.None && !c.HasTimestamp && c.Op != plainbuffer.DeleteOneVersion && c.Op != plainbuffer.Increment:
			col.Op = DeleteColumn
		default:
			return fmt.Errorf("column %q: kind %d does not fit its value (%v) and timestamp", c.Name, c.Op, c.Value.Kind)
		}
		p.columns = append(p.columns, col)
	}
	return nil
}

func (p *parser) finish() ([]Change, int) {
	for i, s := range p.spans {
		c := &p.changes[i]
		if s.mid > s.from {
			c.Columns = p.columns[s.from:s.mid:s.mid]
		}
		if s.old {
			c.Old = append([]Column{}, p.columns[s.mid:s.to]...) // not nil, also where there are none
		}
	}
	return p.changes, p.bytes
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
