package dynamodb

import (
	"time"
)

// maxItem is the service's limit on the size of an item.
const maxItem = 400 << 10

type writeKind byte

const (
	writePut writeKind = iota
	writeUpdate
	writeDelete
	writeCheck // a condition alone, in transactions
)

// write is one conditional write, checked and parsed: what PutItem,
// UpdateItem, DeleteItem and the members of batches and transactions share.
type write struct {
	kind      writeKind
	table     string
	key       item // of update, delete and check
	item      item // of put
	condition condition
	update    *update // of update; nil changes nothing
	// needsItem: an update of nothing makes nothing. Legacy updates that only
	// DELETE are so; an UpdateExpression always makes an item.
	needsItem bool
	oldOnFail bool
}

// change is a write worked out against the table as it stands.
type change struct {
	t        *table
	pos      string
	old, new item
}

// work finds what a write would change. The caller holds mu, and must store
// the change before it lets go.
func (s *Server) work(w *write, now time.Time) (change, error) {
	t, err := s.open(w.table, now)
	if err != nil {
		return change{}, err
	}
	c := change{t: t}
	key := w.key
	if w.kind == writePut {
		if err := t.checkItem(w.item); err != nil {
			return c, err
		}
		key = w.item
	} else if err := t.keys.checkKey(key); err != nil {
		return c, err
	}
	if w.update != nil {
		for _, p := range w.update.paths() {
			if p[0].name == t.keys.hash || p[0].name == t.keys.rng {
				return c, badValue("Cannot update attribute %s. This attribute is part of the key", p[0].name)
			}
		}
	}
	c.pos, _ = t.keys.position(key)
	c.old = t.latest(c.pos)
	if w.condition != nil && !w.condition.holds(c.old) {
		if !w.oldOnFail {
			return c, conditionFailed(nil)
		}
		return c, conditionFailed(c.old)
	}
	switch w.kind {
	case writeCheck:
		c.new = c.old
	case writePut:
		c.new = w.item
		if c.new.size() > maxItem {
			return c, invalid("Item size has exceeded the maximum allowed size")
		}
	case writeUpdate:
		if c.old == nil && w.needsItem {
			break
		}
		if c.new, err = w.changed(c.old); err != nil {
			return c, err
		}
		if c.new.size() > maxItem {
			return c, invalid("Item size to update has exceeded the maximum allowed size")
		}
		if err := t.checkItem(c.new); err != nil {
			return c, err
		}
	}
	return c, nil
}

func (w *write) changed(old item) (item, error) {
	if old == nil {
		old = w.key
	}
	if w.update == nil {
		return old, nil
	}
	return w.update.apply(old)
}

// store makes the change visible. The caller has held mu since work.
func (c change) store(now time.Time) { c.t.put(now, c.pos, c.new) }

// usage is what the write took: by the larger of old and new, and one write
// for each entry an index loses, gains or changes.
func (c change) usage() usage {
	u := usage{table: c.t.name, units: writeUnits(max(c.old.size(), c.new.size()))}
	for _, x := range c.t.indexes {
		before, had := x.position(c.old, c.pos)
		after, has := x.position(c.new, c.pos)
		n := 0.0
		switch {
		case had && has && before == after:
			if o, nw := x.project(c.old, c.t.keys), x.project(c.new, c.t.keys); !o.equal(nw) {
				n = writeUnits(max(o.size(), nw.size()))
			}
		default:
			if had {
				n += writeUnits(x.project(c.old, c.t.keys).size())
			}
			if has {
				n += writeUnits(x.project(c.new, c.t.keys).size())
			}
		}
		if n > 0 {
			if u.indexes == nil {
				u.indexes = map[string]float64{}
			}
			u.indexes[x.name] = n
		}
	}
	return u
}

// conditional are the parameters of a condition by expression.
type conditional struct {
	ConditionExpression                 *string
	ExpressionAttributeNames            map[string]string
	ExpressionAttributeValues           item
	ReturnValuesOnConditionCheckFailure string
}

// parse fills the condition of w; more parses the request's other
// expressions in the same scope.
func (c *conditional) parse(w *write, more func(*scope) error) error {
	if err := oneOf("returnValuesOnConditionCheckFailure", c.ReturnValuesOnConditionCheckFailure, "ALL_OLD", "NONE"); err != nil {
		return err
	}
	w.oldOnFail = c.ReturnValuesOnConditionCheckFailure == "ALL_OLD"
	sc, err := newScope(c.ExpressionAttributeNames, c.ExpressionAttributeValues)
	if err != nil {
		return err
	}
	if more != nil {
		if err := more(sc); err != nil {
			return err
		}
	}
	if c.ConditionExpression != nil {
		if w.condition, err = parse(sc, "ConditionExpression", *c.ConditionExpression, orRule); err != nil {
			return err
		}
	}
	return sc.done()
}

// single are the parameters that PutItem, UpdateItem and DeleteItem have
// beyond those of a member of a transaction.
type single struct {
	conditional
	metering
	Expected                    map[string]legacyExpected
	ConditionalOperator         string
	ReturnValues                string
	ReturnItemCollectionMetrics string
}

// parse is conditional.parse and the legacy condition, which excludes it.
func (c *single) parse(w *write, more func(*scope) error) error {
	if err := c.checkCapacity(); err != nil {
		return err
	}
	// Item collections exist with local secondary indexes only, which no table
	// here has: the metrics are rightly absent.
	if err := oneOf("returnItemCollectionMetrics", c.ReturnItemCollectionMetrics, "SIZE", "NONE"); err != nil {
		return err
	}
	if err := c.conditional.parse(w, more); err != nil {
		return err
	}
	if c.Expected == nil {
		if c.ConditionalOperator != "" {
			return invalid("ConditionalOperator cannot be used without Filter or Expected")
		}
		return nil
	}
	cond, err := expectedCondition(c.Expected, c.ConditionalOperator)
	if err == nil {
		w.condition = cond
	}
	return err
}

// do carries one write out and answers the old and new item.
func (s *Server) do(w *write) (change, usage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	c, err := s.work(w, now)
	if err != nil {
		return c, usage{}, err
	}
	u := c.usage()
	c.store(now)
	return c, u, nil
}
