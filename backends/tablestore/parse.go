package tablestore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/shardwarden/shardwarden/core"
)

// ParseChange reads a change from its JSON form: see [Change.AppendJSON]. What it does not know, or what is missing, is [core.ErrInvalid].
func ParseChange(data []byte) (*Change, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var w wireChange
	err := d.Decode(&w)
	if err == nil {
		if _, end := d.Token(); end != io.EOF {
			err = fmt.Errorf("more follows after the change")
		}
	}
	var c *Change
	if err == nil {
		c, err = w.change()
	}
	if err != nil {
		return nil, fmt.Errorf("change of a Tablestore row: %w: %w", core.ErrInvalid, err)
	}
	return c, nil
}

type wireChange struct {
	Type     string `json:"type"`
	Sequence *struct {
		Epoch     int32 `json:"epoch"`
		Timestamp int64 `json:"timestamp"`
		Row       int32 `json:"row"`
	} `json:"sequence"`
	Table   string       `json:"table"`
	Table64 []byte       `json:"table64"`
	Key     []wireColumn `json:"key"`
	Columns []wireColumn `json:"columns"`
	Old     []wireColumn `json:"old"`
}

type wireColumn struct {
	Name      *string         `json:"name"`
	Name64    []byte          `json:"name64"`
	Op        *string         `json:"op"`
	Integer   *string         `json:"integer"`
	Double    json.RawMessage `json:"double"`
	Boolean   *bool           `json:"boolean"`
	String    *string         `json:"string"`
	String64  []byte          `json:"string64"`
	Binary    []byte          `json:"binary"`
	Timestamp *int64          `json:"timestamp"`
}

func (w *wireChange) change() (*Change, error) {
	kind := slices.Index(changeNames, w.Type)
	switch {
	case kind < 0:
		return nil, fmt.Errorf("type is %q: must be put, update or delete", w.Type)
	case w.Sequence == nil:
		return nil, fmt.Errorf("sequence is missing")
	case len(w.Key) == 0:
		return nil, fmt.Errorf("key is missing")
	}
	c := &Change{Type: ChangeType(kind), Sequence: Sequence(*w.Sequence), Table: w.Table + string(w.Table64), Key: make([]KeyColumn, len(w.Key))}
	for i := range w.Key {
		col, err := w.Key[i].column()
		if err == nil && (col.Op != PutColumn || w.Key[i].Timestamp != nil) {
			err = fmt.Errorf("has an op or a timestamp")
		}
		if err == nil {
			switch col.Value.(type) {
			case int64, string, []byte:
			default:
				err = fmt.Errorf("is %T: must be integer, string or binary", col.Value)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("key column %d %q: %w", i, col.Name, err)
		}
		c.Key[i] = KeyColumn{col.Name, col.Value}
	}
	var err error
	if c.Columns, err = parseColumns("column", w.Columns); err == nil {
		c.Old, err = parseColumns("old column", w.Old)
	}
	if len(c.Columns) == 0 {
		c.Columns = nil
	}
	return c, err
}

func parseColumns(what string, in []wireColumn) ([]Column, error) {
	if in == nil {
		return nil, nil
	}
	out := make([]Column, len(in))
	for i := range in {
		var err error
		if out[i], err = in[i].column(); err == nil && (out[i].Op == DeleteColumn) != (in[i].Timestamp == nil) {
			err = fmt.Errorf("timestamp is missing, or there is one for all versions")
		}
		if err != nil {
			return nil, fmt.Errorf("%s %d %q: %w", what, i, out[i].Name, err)
		}
		if t := in[i].Timestamp; t != nil {
			out[i].Timestamp = *t
		}
	}
	return out, nil
}

func (w *wireColumn) column() (Column, error) {
	var c Column
	switch {
	case w.Name != nil && w.Name64 == nil:
		c.Name = *w.Name
	case w.Name == nil && w.Name64 != nil:
		c.Name = string(w.Name64)
	default:
		return c, fmt.Errorf("must have one name")
	}
	var values []any
	if w.Integer != nil {
		n, err := strconv.ParseInt(*w.Integer, 10, 64)
		if err != nil {
			return c, err
		}
		values = append(values, n)
	}
	if w.Double != nil {
		f, err := parseDouble(w.Double)
		if err != nil {
			return c, err
		}
		values = append(values, f)
	}
	if w.Boolean != nil {
		values = append(values, *w.Boolean)
	}
	if w.String != nil {
		values = append(values, *w.String)
	}
	if w.String64 != nil {
		values = append(values, string(w.String64))
	}
	if w.Binary != nil {
		values = append(values, w.Binary)
	}
	if w.Op != nil {
		op := slices.Index(columnNames, *w.Op)
		if op < 0 {
			return c, fmt.Errorf("op is %q: must be put, delete_version or delete", *w.Op)
		}
		c.Op = ColumnOp(op)
	}
	switch {
	case c.Op == PutColumn && len(values) != 1:
		return c, fmt.Errorf("has %d values: must be one", len(values))
	case c.Op != PutColumn && len(values) != 0:
		return c, fmt.Errorf("is deleted and has a value")
	case c.Op == PutColumn:
		c.Value = values[0]
	}
	return c, nil
}

func parseDouble(raw json.RawMessage) (float64, error) {
	switch string(raw) {
	case `"NaN"`:
		return math.NaN(), nil
	case `"Infinity"`:
		return math.Inf(1), nil
	case `"-Infinity"`:
		return math.Inf(-1), nil
	}
	return strconv.ParseFloat(string(raw), 64)
}
