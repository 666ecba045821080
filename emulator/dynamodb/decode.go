package dynamodb

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// decodeRequest fills one operation's parameters. A parameter that the struct
// does not name is refused, never ignored.
func decodeRequest(op string, body []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, err = d.Token(); err == io.EOF {
			return nil
		}
		return fail("SerializationException", "Unexpected data after the request of %s", op)
	}
	if e, ok := errors.AsType[*apiError](err); ok {
		return e
	}
	// encoding/json has no type for this error, only its text.
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return unsupported("parameter %s of %s", strings.Trim(name, `"`), op)
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fail("SerializationException", "%s cannot be converted to the type of %s", e.Value, e.Field)
	}
	return fail("SerializationException", "The request of %s is not valid JSON: %v", op, err)
}

// UnmarshalJSON reads a map of attribute values.
func (it *item) UnmarshalJSON(b []byte) error {
	c := cursor{b: b}
	if c.null() {
		return nil
	}
	m, err := c.item(0)
	*it = m
	return err
}

// UnmarshalJSON reads one attribute value.
func (v *value) UnmarshalJSON(b []byte) error {
	c := cursor{b: b}
	if c.null() {
		return nil
	}
	w, err := c.value(0)
	*v = w
	return err
}

// maxNesting is the service's limit on maps and lists within each other.
const maxNesting = 32

// cursor walks JSON that encoding/json has already found to be well formed;
// it still never runs past the end.
type cursor struct {
	b []byte
	i int
}

func (c *cursor) peek() byte {
	for c.i < len(c.b) && (c.b[c.i] == ' ' || c.b[c.i] == '\t' || c.b[c.i] == '\n' || c.b[c.i] == '\r') {
		c.i++
	}
	if c.i < len(c.b) {
		return c.b[c.i]
	}
	return 0
}

// take consumes ch if it is next.
func (c *cursor) take(ch byte) bool {
	if c.peek() != ch {
		return false
	}
	c.i++
	return true
}

func (c *cursor) null() bool { return c.word("null") }

func (c *cursor) word(w string) bool {
	c.peek()
	if !bytes.HasPrefix(c.b[c.i:], []byte(w)) {
		return false
	}
	c.i += len(w)
	return true
}

func wrongToken(want string) error {
	return fail("SerializationException", "Unexpected JSON token in an attribute value: %s expected", want)
}

func (c *cursor) str() (string, error) {
	if !c.take('"') {
		return "", wrongToken("a string")
	}
	start := c.i
	for plain := true; c.i < len(c.b); c.i++ {
		switch ch := c.b[c.i]; {
		case ch == '\\':
			plain = false
			c.i++
		case ch == '"':
			c.i++
			if plain {
				return string(c.b[start : c.i-1]), nil
			}
			var s string
			err := json.Unmarshal(c.b[start-1:c.i], &s)
			return s, err
		case ch >= 0x80:
			plain = false // let encoding/json mend invalid UTF-8
		}
	}
	return "", wrongToken("the end of a string")
}

// members walks an object.
func (c *cursor) members(one func(name string) error) error {
	if !c.take('{') {
		return wrongToken("an object")
	}
	for n := 0; !c.take('}'); n++ {
		if n > 0 && !c.take(',') {
			return wrongToken("a comma")
		}
		name, err := c.str()
		if err != nil {
			return err
		}
		if !c.take(':') {
			return wrongToken("a colon")
		}
		if err := one(name); err != nil {
			return err
		}
	}
	return nil
}

// elements walks an array.
func (c *cursor) elements(one func() error) error {
	if !c.take('[') {
		return wrongToken("an array")
	}
	for n := 0; !c.take(']'); n++ {
		if n > 0 && !c.take(',') {
			return wrongToken("a comma")
		}
		if err := one(); err != nil {
			return err
		}
	}
	return nil
}

func (c *cursor) item(depth int) (item, error) {
	it := item{}
	err := c.members(func(name string) error {
		if name == "" {
			return badValue("An attribute name may not be empty")
		}
		v, err := c.value(depth)
		it[name] = v
		return err
	})
	return it, err
}

func (c *cursor) value(depth int) (value, error) {
	if depth > maxNesting {
		return value{}, invalid("Nesting Levels have exceeded supported limits")
	}
	var v value
	err := c.members(func(name string) error {
		if c.null() {
			return nil // as the SDKs that send unset members
		}
		if v.kind != kindNone {
			return invalid("Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported datatypes")
		}
		v.kind = kindOf(name)
		var err error
		switch v.kind {
		case kindS, kindN, kindB:
			v.text, err = c.scalar(v.kind)
		case kindBool, kindNull:
			switch {
			case c.word("true"):
				v.flag = true
			case c.word("false"):
			default:
				return wrongToken("true or false")
			}
			if v.kind == kindNull && !v.flag {
				return badValue("Null attribute value types must have the value of true")
			}
		case kindM:
			v.m, err = c.item(depth + 1)
		case kindL:
			v.list = []value{}
			err = c.elements(func() error {
				e, err := c.value(depth + 1)
				v.list = append(v.list, e)
				return err
			})
		case kindSS, kindNS, kindBS:
			v.list, err = c.set(v.kind)
		default:
			// The service ignores unknown members; what is then left of the
			// value is empty and refused below. Name it instead.
			return invalid("Supplied AttributeValue has the unknown datatype %q, must contain exactly one of the supported datatypes", name)
		}
		return err
	})
	if err == nil && v.kind == kindNone {
		err = invalid("Supplied AttributeValue is empty, must contain exactly one of the supported datatypes")
	}
	return v, err
}

// scalar reads the text of an S, N or B.
func (c *cursor) scalar(k kind) (string, error) {
	s, err := c.str()
	if err != nil {
		return "", err
	}
	switch k {
	case kindN:
		return parseNumber(s)
	case kindB:
		b, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			return "", fail("SerializationException", "Base64 encoded value is invalid: %v", err)
		}
		return string(b), nil
	}
	return s, nil
}

var memberKind = map[kind]kind{kindSS: kindS, kindNS: kindN, kindBS: kindB}

func (c *cursor) set(k kind) ([]value, error) {
	of := memberKind[k]
	var list []value
	seen := map[string]bool{}
	err := c.elements(func() error {
		s, err := c.scalar(of)
		if err != nil {
			return err
		}
		if seen[s] {
			return badValue("Input collection of type %s contains duplicates.", k)
		}
		seen[s] = true
		list = append(list, value{kind: of, text: s})
		return nil
	})
	if err == nil && len(list) == 0 {
		err = badValue("%s", map[kind]string{kindSS: "An string set  may not be empty", kindNS: "An number set  may not be empty", kindBS: "Binary sets should not be empty"}[k])
	}
	return list, err
}
