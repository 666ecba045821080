package tablestore

import (
	"time"

	pb "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"
)

// table is guarded by Server.mu like all it holds.
type table struct {
	instance string
	name     string
	keys     []keyColumn
	defined  []*pb.DefinedColumnSchema
	options  *pb.TableOptions // all that answers need is set
	reserved *pb.CapacityUnit
	raised   int64 // s; when throughput was last set
	ready    time.Time

	rows      rowSet
	lastAuto  int64       // last value of an AUTO_INCREMENT column
	parts     []partition // in the order of their ranges; the first begins at INF_MIN
	stream    *stream     // nil: there is none
	lastStamp stamp       // of the last record of its streams
}

// stamp is where a record stands among those of its table.
type stamp struct {
	us  int64
	row int32
}

// at gives a table by name.
func (w *work) table(name string) (*table, error) {
	t := w.tables[name]
	if t == nil {
		return nil, noTable()
	}
	return t, nil
}

// open gives a table whose rows can be used.
func (w *work) open(name string) (*table, error) {
	t, err := w.table(name)
	if err != nil {
		return nil, err
	}
	if w.now.Before(t.ready) {
		return nil, fail("OTSTableNotReady", "The table is not ready.")
	}
	return t, nil
}

// horizon is the time, in ms, before which cells have outlived the table's time to live.
func (t *table) horizon(ms int64) int64 {
	if ttl := int64(t.options.GetTimeToLive()); ttl > 0 {
		return ms - ttl*1000
	}
	return -1 << 62
}

// at gives a row without what has outlived its time; nil if nothing is left of it.
func (t *table) at(k key, ms int64) *row {
	r := t.rows.get(k)
	if r == nil {
		return nil
	}
	old := t.horizon(ms)
	for i := len(r.columns) - 1; i >= 0; i-- {
		r.remove(r.columns[i].name, func(v version) bool { return v.time < old })
	}
	if len(r.columns) == 0 && r.touched < old {
		t.rows.remove(k)
		return nil
	}
	return r
}
