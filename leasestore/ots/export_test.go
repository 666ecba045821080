package ots

import "github.com/shardwarden/shardwarden/core"

// What the tests outside look at.
var (
	DecodeLease = decodeLease
	EncodeLease = encodeLease
)

// Condition is the column condition of an update, as it goes over the wire; nil where there is none.
func Condition(seen core.Lease, same core.Same, set core.Set) ([]byte, error) {
	c, err := newChange(&seen, same, &set)
	if err != nil {
		return nil, err
	}
	f := c.request("t", leaseRow(seen.Key)).Condition.ColumnCondition
	if f == nil {
		return nil, nil
	}
	return f.Serialize(), nil
}

// TakePage reads an answer to GetRow or GetRange, and says how many rows it has and what the SDK gets to see.
func TakePage(body []byte) (rows int, rest []byte, err error) {
	var p page
	rest, err = p.take(body)
	return len(p.rows), rest, err
}
