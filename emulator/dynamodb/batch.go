package dynamodb

import (
	"maps"
	"slices"
	"time"
)

// The service's limits on batches.
const (
	maxBatchWrites = 25
	maxBatchReads  = 100
)

type batchWriteItem struct {
	RequestItems                map[string][]batchWrite
	ReturnItemCollectionMetrics string
	metering
	writes  []write      // in order of table, then of the request
	skipped map[int]bool // by fault: answered as unprocessed
}

type batchWrite struct {
	PutRequest    *struct{ Item item }
	DeleteRequest *struct{ Key item }
}

func (b batchWrite) key() item {
	switch {
	case b.PutRequest != nil:
		return b.PutRequest.Item
	case b.DeleteRequest != nil:
		return b.DeleteRequest.Key
	}
	return nil
}

func (b batchWrite) encode() obj {
	if b.PutRequest != nil {
		return obj{{"PutRequest", obj{{"Item", b.PutRequest.Item}}}}
	}
	return obj{{"DeleteRequest", obj{{"Key", b.DeleteRequest.Key}}}}
}

func (r *batchWriteItem) touches() (ts []touch) {
	for _, name := range slices.Sorted(maps.Keys(r.RequestItems)) {
		for _, w := range r.RequestItems[name] {
			ts = append(ts, touch{table: name, key: w.key()})
		}
	}
	return
}

// throttled leaves the members hit for later; when that is all of them the
// service answers the error.
func (r *batchWriteItem) throttled(hit []bool) error { return skipHit(hit, &r.skipped) }

func skipHit(hit []bool, skipped *map[int]bool) error {
	*skipped = map[int]bool{}
	for i, h := range hit {
		if h {
			(*skipped)[i] = true
		}
	}
	if len(*skipped) == len(hit) {
		return errThroughput()
	}
	return nil
}

func (r *batchWriteItem) check() error {
	if err := r.checkCapacity(); err != nil {
		return err
	}
	if err := oneOf("returnItemCollectionMetrics", r.ReturnItemCollectionMetrics, "SIZE", "NONE"); err != nil {
		return err
	}
	if err := required("RequestItems", len(r.RequestItems) > 0); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(r.RequestItems)) {
		if err := tableName(name).check(); err != nil {
			return err
		}
		if len(r.RequestItems[name]) == 0 {
			return constraint("'[]'", "requestItems."+name+".member", "Member must have length greater than or equal to 1")
		}
		for _, b := range r.RequestItems[name] {
			if (b.PutRequest == nil) == (b.DeleteRequest == nil) {
				return invalid("Supplied AttributeValue has more than one datatypes set, or none: each request of a batch must be one PutRequest or one DeleteRequest")
			}
			w := write{kind: writeDelete, table: name, key: b.key()}
			if b.PutRequest != nil {
				w.kind, w.item = writePut, b.key()
			}
			if b.key() == nil {
				return required("Item or Key of a request of the batch", false)
			}
			r.writes = append(r.writes, w)
		}
	}
	if len(r.writes) > maxBatchWrites {
		return invalid("Too many items requested for the BatchWriteItem call")
	}
	return nil
}

func (r *batchWriteItem) run(s *Server) (obj, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	// Nothing is stored until all of it was found sound.
	changes := make([]change, len(r.writes))
	for i := range r.writes {
		c, err := s.work(&r.writes[i], now)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(changes[:i], func(o change) bool { return o.t == c.t && o.pos == c.pos }) {
			return nil, invalid("Provided list of item keys contains duplicates")
		}
		changes[i] = c
	}
	used := map[string]*usage{}
	var left obj
	i := 0
	for _, name := range slices.Sorted(maps.Keys(r.RequestItems)) {
		var later []obj
		for _, b := range r.RequestItems[name] {
			if r.skipped[i] {
				later = append(later, b.encode())
			} else {
				tally(used, changes[i].usage())
				changes[i].store(now)
			}
			i++
		}
		left = left.with(len(later) > 0, name, later)
	}
	return r.many(obj{{"UnprocessedItems", left}}, used), nil
}

type batchGetItem struct {
	RequestItems map[string]*batchRead
	metering
	skipped map[int]bool
}

type batchRead struct {
	Keys           []item
	ConsistentRead bool
	projecting
}

// encode is the request for what is left of it.
func (b *batchRead) encode(keys []item) obj {
	var names obj
	for _, k := range slices.Sorted(maps.Keys(b.ExpressionAttributeNames)) {
		names = append(names, pair{k, b.ExpressionAttributeNames[k]})
	}
	o := obj{{"Keys", keys}}.
		with(b.ConsistentRead, "ConsistentRead", true).
		with(names != nil, "ExpressionAttributeNames", names).
		with(b.AttributesToGet != nil, "AttributesToGet", b.AttributesToGet)
	if b.ProjectionExpression != nil {
		o = append(o, pair{"ProjectionExpression", *b.ProjectionExpression})
	}
	return o
}

func (r *batchGetItem) touches() (ts []touch) {
	for _, name := range slices.Sorted(maps.Keys(r.RequestItems)) {
		if b := r.RequestItems[name]; b != nil {
			for _, k := range b.Keys {
				ts = append(ts, touch{table: name, key: k})
			}
		}
	}
	return
}

func (r *batchGetItem) throttled(hit []bool) error { return skipHit(hit, &r.skipped) }

func (r *batchGetItem) check() error {
	if err := r.checkCapacity(); err != nil {
		return err
	}
	if err := required("RequestItems", len(r.RequestItems) > 0); err != nil {
		return err
	}
	n := 0
	for _, name := range slices.Sorted(maps.Keys(r.RequestItems)) {
		if err := tableName(name).check(); err != nil {
			return err
		}
		b := r.RequestItems[name]
		if b == nil || len(b.Keys) == 0 {
			return constraint("'[]'", "requestItems."+name+".member.keys", "Member must have length greater than or equal to 1")
		}
		for i, k := range b.Keys {
			if slices.ContainsFunc(b.Keys[:i], k.equal) {
				return invalid("Provided list of item keys contains duplicates")
			}
		}
		if err := b.only(); err != nil {
			return err
		}
		n += len(b.Keys)
	}
	if n > maxBatchReads {
		return invalid("Too many items requested for the BatchGetItem call")
	}
	return nil
}

// maxBatchBytes is the service's limit on one answer; what goes over it is
// answered as unprocessed.
const maxBatchBytes = 16 << 20

func (r *batchGetItem) run(s *Server) (obj, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	used := map[string]*usage{}
	var found, left obj
	i, bytes := 0, 0
	for _, name := range slices.Sorted(maps.Keys(r.RequestItems)) {
		b := r.RequestItems[name]
		items, later := []item{}, []item(nil)
		for _, k := range b.Keys {
			it, err := s.read(name, k, b.ConsistentRead)
			if err != nil {
				return nil, err
			}
			n := it.size()
			if r.skipped[i] || bytes+n > maxBatchBytes {
				later = append(later, k)
			} else {
				bytes += n
				tally(used, usage{table: name, units: readUnits(n, b.ConsistentRead)})
				if it != nil {
					items = append(items, b.of(it))
				}
			}
			i++
		}
		found = append(found, pair{name, items})
		if later != nil {
			left = append(left, pair{name, b.encode(later)})
		}
	}
	return r.many(obj{{"Responses", found}, {"UnprocessedKeys", left}}, used), nil
}
