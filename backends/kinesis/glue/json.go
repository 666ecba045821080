package glue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// readJSON decodes the first value of a payload, as Java does; of an empty one nil.
func readJSON(payload []byte, mem *budget) (any, error) {
	payload = bytes.TrimPrefix(payload, []byte("\ufeff"))
	var first json.RawMessage
	switch err := json.NewDecoder(bytes.NewReader(payload)).Decode(&first); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if err := mem.take(jsonBytes(first)); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(first))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	return v, nil
}

// jsonBytes is about what a value takes in memory: at most, since each comma is taken for an entry of an object.
func jsonBytes(text []byte) int {
	n := len(text) + slotBytes + textBytes
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == ',':
			n += slotBytes + 2*textBytes
		case c == '{':
			n += entries(1)
		case c == '[':
			n += slotBytes + textBytes
		}
	}
	return n
}
