package kinesis

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// validation gathers the violated constraints of a request and words them as the service does: one
// ValidationException that names each member with its value.
type validation struct{ problems []string }

func (v *validation) add(member, value, constraint string) {
	v.problems = append(v.problems, fmt.Sprintf("Value %s at '%s' failed to satisfy constraint: %s", value, member, constraint))
}

func (v *validation) err() error {
	switch n := len(v.problems); n {
	case 0:
		return nil
	case 1:
		return refuse("ValidationException", "1 validation error detected: %s", v.problems[0])
	default:
		return refuse("ValidationException", "%d validation errors detected: %s", n, strings.Join(v.problems, "; "))
	}
}

// unsupported refuses a member that the service has and this server has not, rather than to ignore what it asks for.
func (v *validation) unsupported(member string, given bool) {
	if given {
		v.problems = append(v.problems, member+" is not supported by this emulator")
	}
}

func quote(s string) string { return "'" + s + "'" }

func (v *validation) null(member string) { v.add(member, "null", "Member must not be null") }

// name checks the names of streams and shards.
func (v *validation) name(member string, s *string, required bool) {
	if s == nil {
		if required {
			v.null(member)
		}
		return
	}
	v.text(member, s, 1, 128)
	if !namePattern.MatchString(*s) && *s != "" {
		v.add(member, quote(*s), "Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+")
	}
}

var namePattern = regexp.MustCompile(`^[a-zA-Z0-9_.-]+$`)

// text checks a string's length in characters.
func (v *validation) text(member string, s *string, least, most int) {
	if s == nil {
		return
	}
	switch n := utf8.RuneCountInString(*s); {
	case n < least:
		v.add(member, quote(*s), fmt.Sprintf("Member must have length greater than or equal to %d", least))
	case n > most:
		v.add(member, quote(*s), fmt.Sprintf("Member must have length less than or equal to %d", most))
	}
}

func (v *validation) number(member string, n *int64, least, most int64, required bool) {
	switch {
	case n == nil && required:
		v.null(member)
	case n == nil:
	case *n < least:
		v.add(member, fmt.Sprintf("'%d'", *n), fmt.Sprintf("Member must have value greater than or equal to %d", least))
	case *n > most:
		v.add(member, fmt.Sprintf("'%d'", *n), fmt.Sprintf("Member must have value less than or equal to %d", most))
	}
}

func (v *validation) oneOf(member string, s *string, required bool, values ...string) {
	if s == nil {
		if required {
			v.null(member)
		}
		return
	}
	if slices.Contains(values, *s) {
		return
	}
	v.add(member, quote(*s), "Member must satisfy enum value set: ["+strings.Join(values, ", ")+"]")
}

func (v *validation) decimal(member string, s *string, required bool) {
	if s == nil {
		if required {
			v.null(member)
		}
		return
	}
	if _, ok := parseDecimal(*s); !ok {
		v.add(member, quote(*s), `Member must satisfy regular expression pattern: 0|([1-9]\d{0,38})`)
	}
}
