package tablestore

import (
	"fmt"
	"time"
)

// Trim drops the records of a shard that were written before a time, as retention would; an empty shard stands for all
// of the stream. Iterators from before then answer OTSTrimmedDataAccess (see Config.IteratorsStay), even where nothing
// was dropped. A closed shard that ended before then is gone.
func (s *Server) Trim(instance, table, shard string, before time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.work(instance)
	hit, err := w.shardsOf(table, shard)
	if err != nil {
		return err
	}
	for _, h := range hit {
		h.cut = max(h.cut, before.UnixMicro())
	}
	w.sweep(hit[0].stream)
	return nil
}

// Expire lets a closed shard vanish with its records, as it does when retention has passed its end.
func (s *Server) Expire(instance, table, shard string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.work(instance)
	hit, err := w.shardsOf(table, shard)
	if err != nil {
		return err
	}
	if shard == "" || hit[0].closed == 0 {
		return fmt.Errorf("tablestore emulator: shard %q of table %s is not closed; an open one does not expire, but can be trimmed", shard, table)
	}
	hit[0].cut = hit[0].closed + 1
	w.sweep(hit[0].stream)
	return nil
}

// shardsOf gives one shard of a table's stream, or all for an empty id; one at least.
func (w *work) shardsOf(name, id string) ([]*shard, error) {
	t, err := w.table(name)
	if err != nil {
		return nil, err
	}
	if t.stream == nil {
		return nil, fmt.Errorf("tablestore emulator: table %s has no stream", name)
	}
	if id == "" {
		return t.stream.shards, nil
	}
	h := w.shards[id]
	if h == nil || h.stream != t.stream {
		return nil, fmt.Errorf("tablestore emulator: the stream of table %s has no shard %q", name, id)
	}
	return []*shard{h}, nil
}

// Column is a column of a [Row]. Value is an int64, float64, bool, string or []byte.
type Column struct {
	Name      string
	Value     any
	Timestamp int64 // milliseconds since 1970; 0 for those of the primary key
}

// Row is a row of a table, with all versions of its columns: by name, the newest version first.
type Row struct {
	PrimaryKey []Column
	Columns    []Column
}

// Rows dumps a table as it stands, in the order of the keys. The caller owns the result.
func (s *Server) Rows(instance, table string) ([]Row, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.work(instance)
	t, err := w.table(table)
	if err != nil {
		return nil, err
	}
	ms := w.now.UnixMilli()
	var out []Row
	keys := make([]key, len(t.rows))
	for i, r := range t.rows {
		keys[i] = r.key
	}
	for _, k := range keys { // reading a row may remove it
		r := t.at(k, ms)
		if r == nil {
			continue
		}
		row := Row{}
		for i, v := range k {
			row.PrimaryKey = append(row.PrimaryKey, Column{Name: t.keys[i].name, Value: v.Any()})
		}
		for _, c := range r.columns {
			for _, v := range c.versions {
				row.Columns = append(row.Columns, Column{c.name, v.value.Any(), v.time})
			}
		}
		out = append(out, row)
	}
	return out, nil
}
