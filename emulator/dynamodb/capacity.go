package dynamodb

import (
	"maps"
	"math"
	"slices"
)

// metering is the ReturnConsumedCapacity parameter.
type metering struct{ ReturnConsumedCapacity string }

func (m metering) checkCapacity() error {
	return oneOf("returnConsumedCapacity", m.ReturnConsumedCapacity, "INDEXES", "TOTAL", "NONE")
}

// usage is what one request took of one table, in capacity units: 4 KB a
// consistent read unit and twice that an eventual one, 1 KB a write unit.
type usage struct {
	table   string
	units   float64            // of the table itself
	indexes map[string]float64 // of its indexes
}

func readUnits(bytes int, consistent bool) float64 {
	u := max(1, math.Ceil(float64(bytes)/4096))
	if !consistent {
		u /= 2
	}
	return u
}

func writeUnits(bytes int) float64 { return max(1, math.Ceil(float64(bytes)/1024)) }

func (u usage) total() float64 {
	t := u.units
	for _, n := range u.indexes {
		t += n
	}
	return t
}

func (u *usage) add(v usage) {
	u.table = v.table
	u.units += v.units
	for name, n := range v.indexes {
		if u.indexes == nil {
			u.indexes = map[string]float64{}
		}
		u.indexes[name] += n
	}
}

// report is the ConsumedCapacity member for a usage.
func (m metering) report(u usage) obj {
	o := obj{{"TableName", u.table}, {"CapacityUnits", u.total()}}
	if m.ReturnConsumedCapacity != "INDEXES" {
		return o
	}
	o = append(o, pair{"Table", obj{{"CapacityUnits", u.units}}})
	if len(u.indexes) == 0 {
		return o
	}
	var xs obj
	for _, name := range slices.Sorted(maps.Keys(u.indexes)) {
		xs = append(xs, pair{name, obj{{"CapacityUnits", u.indexes[name]}}})
	}
	return append(o, pair{"GlobalSecondaryIndexes", xs})
}

func (m metering) wanted() bool {
	return m.ReturnConsumedCapacity == "TOTAL" || m.ReturnConsumedCapacity == "INDEXES"
}

// one adds ConsumedCapacity to an answer, where asked for.
func (m metering) one(answer obj, u usage) obj {
	if !m.wanted() {
		return answer
	}
	return append(answer, pair{"ConsumedCapacity", m.report(u)})
}

// many is one for requests over several tables.
func (m metering) many(answer obj, us map[string]*usage) obj {
	if !m.wanted() {
		return answer
	}
	list := []obj{}
	for _, name := range slices.Sorted(maps.Keys(us)) {
		list = append(list, m.report(*us[name]))
	}
	return append(answer, pair{"ConsumedCapacity", list})
}

// tally sums usages by table.
func tally(us map[string]*usage, u usage) {
	if us[u.table] == nil {
		us[u.table] = &usage{}
	}
	us[u.table].add(u)
}
