package tablestore

import (
	"fmt"
	"slices"
	"time"

	"github.com/shardwarden/shardwarden/internal/plainbuffer"
)

// partition is a range of the first primary key column, up to where the next partition begins.
type partition struct {
	from  plainbuffer.Value // included; INF_MIN for the first partition
	shard *shard            // nil without a stream
}

// partition gives the place of the one that a value of the first primary key column belongs to.
func (t *table) partition(v plainbuffer.Value) int {
	i, exact := slices.BinarySearchFunc(t.parts, v, func(p partition, v plainbuffer.Value) int { return p.from.Compare(v) })
	if !exact {
		i--
	}
	return i
}

// Partition is a range of a table's rows, by the first column of the primary key, and the shard that its changes go to.
type Partition struct {
	From, To any    // int64, string or []byte; From is included, To is not; nil: no bound
	Shard    string // empty if the table has no stream
}

// Partitions lists those of a table in the order of their ranges.
func (s *Server) Partitions(instance, table string) ([]Partition, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.work(instance)
	t, err := w.table(table)
	if err != nil {
		return nil, err
	}
	out := make([]Partition, len(t.parts))
	for i, p := range t.parts {
		out[i].From = p.from.Any()
		if i > 0 {
			out[i-1].To = out[i].From
		}
		if p.shard != nil {
			out[i].Shard = p.shard.id
		}
	}
	return out, nil
}

// work makes what admin calls work with. The caller holds mu.
func (s *Server) work(instance string) *work {
	return &work{Server: s, instance: s.instance(instance), name: instance, now: time.Now(), fx: effects{page: -1}}
}

// Split splits the partition that a value of the first primary key column belongs to, so that the second half begins
// with it; the value is an int, int64, string or []byte. With a stream, the partition's shard ends and two new ones
// begin, whose parent it is. The ids of the new shards are given, or empty strings without a stream. It is an error if
// a partition begins there already.
func (s *Server) Split(instance, table string, at any) (left, right string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.work(instance)
	t, err := w.table(table)
	if err != nil {
		return "", "", err
	}
	v, err := t.partitionValue(at)
	if err != nil {
		return "", "", err
	}
	return w.split(t, v)
}

// SplitShard is [Server.Split] of the partition that an open shard belongs to, in the middle of the rows it has.
func (s *Server) SplitShard(instance, table, shard string) (left, right string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.work(instance)
	t, err := w.table(table)
	if err != nil {
		return "", "", err
	}
	i, err := t.partitionOf(shard)
	if err != nil {
		return "", "", err
	}
	var values []plainbuffer.Value
	for _, r := range t.rows {
		v := r.key[0]
		if t.partition(v) == i && (len(values) == 0 || !values[len(values)-1].Equal(v)) {
			values = append(values, v)
		}
	}
	if len(values) < 2 {
		return "", "", fmt.Errorf("tablestore emulator: shard %s of table %s can't be split in the middle: its rows have fewer than two values of %s; split at a value instead",
			shard, table, t.keys[0].name)
	}
	return w.split(t, values[len(values)/2])
}

func (w *work) split(t *table, v plainbuffer.Value) (left, right string, err error) {
	i := t.partition(v)
	if t.parts[i].from.Equal(v) {
		return "", "", fmt.Errorf("tablestore emulator: a partition of table %s begins at %v already", t.name, v)
	}
	t.parts = slices.Insert(t.parts, i+1, partition{from: v.Clone()})
	if old := t.parts[i].shard; old != nil {
		old.closed = w.closing(t)
		t.parts[i].shard = w.newShard(t.stream, w.now, old.id)
		t.parts[i+1].shard = w.newShard(t.stream, w.now, old.id)
		left, right = t.parts[i].shard.id, t.parts[i+1].shard.id
	}
	return left, right, nil
}

// closing is when a shard ends that ends now: not before its last record.
func (w *work) closing(t *table) int64 { return max(w.now.UnixMicro(), t.lastStamp.us) }

// Merge merges the partitions of two open shards, whose ranges must be neighbours. Both shards end and a new one
// begins: its parent is the first of the two, the parent's sibling the second. The id of the new shard is given.
func (s *Server) Merge(instance, table, shard, sibling string) (merged string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.work(instance)
	t, err := w.table(table)
	if err != nil {
		return "", err
	}
	i, err := t.partitionOf(shard)
	if err != nil {
		return "", err
	}
	j, err := t.partitionOf(sibling)
	if err != nil {
		return "", err
	}
	if i-j != 1 && j-i != 1 {
		return "", fmt.Errorf("tablestore emulator: the ranges of shards %s and %s of table %s are not neighbours", shard, sibling, table)
	}
	t.parts[i].shard.closed, t.parts[j].shard.closed = w.closing(t), w.closing(t)
	t.parts = slices.Delete(t.parts, max(i, j), max(i, j)+1)
	h := w.newShard(t.stream, w.now, shard, sibling)
	t.parts[min(i, j)].shard = h
	return h.id, nil
}

func (t *table) partitionOf(shard string) (int, error) {
	i := slices.IndexFunc(t.parts, func(p partition) bool { return p.shard != nil && p.shard.id == shard })
	if i < 0 {
		return 0, fmt.Errorf("tablestore emulator: table %s has no open shard %q", t.name, shard)
	}
	return i, nil
}

func (t *table) partitionValue(at any) (plainbuffer.Value, error) {
	var v plainbuffer.Value
	switch at := at.(type) {
	case int:
		v = plainbuffer.IntegerValue(int64(at))
	case int64:
		v = plainbuffer.IntegerValue(at)
	case string:
		v = plainbuffer.StringValue(at)
	case []byte:
		v = plainbuffer.BlobValue(slices.Clone(at))
	}
	if v.Kind != t.keys[0].kind {
		return v, fmt.Errorf("tablestore emulator: table %s is partitioned by %s, which is of type %v: it can't be split at %T %v", t.name, t.keys[0].name, t.keys[0].kind, at, at)
	}
	return v, nil
}
