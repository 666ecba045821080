package dynamodb

import (
	"encoding/json"
	"strings"
)

// tableName is a TableName parameter; an ARN in its place is cut to the name.
type tableName string

func (n *tableName) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fail("SerializationException", "TableName is not a string")
	}
	if strings.HasPrefix(s, "arn:") {
		_, s, _ = strings.Cut(s, ":table/")
		s, _, _ = strings.Cut(s, "/")
	}
	*n = tableName(s)
	return nil
}

func (n tableName) check() error {
	if n == "" {
		return invalid("The parameter 'TableName' is required but was not present in the request")
	}
	return checkName("tableName", string(n))
}

// checkName applies the rules for names of tables and indexes.
func checkName(member, n string) error {
	if len(n) < 3 {
		return constraint("'"+n+"'", member, "Member must have length greater than or equal to 3")
	}
	if len(n) > 255 {
		return constraint("'"+n+"'", member, "Member must have length less than or equal to 255")
	}
	for _, c := range []byte(n) {
		if !isWordByte(c) && c != '.' && c != '-' {
			return constraint("'"+n+"'", member, "Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+")
		}
	}
	return nil
}

// tableFromARN is the table a ResourceArn means.
func (s *Server) tableFromARN(arn string) (string, error) {
	name, ok := strings.CutPrefix(arn, s.arn(""))
	if !ok || name == "" {
		return "", fail("ResourceNotFoundException", "Requested resource not found: ResourcArn: %s not found", arn)
	}
	return name, nil
}

// touchARN is what a request about an ARN touches.
func touchARN(arn string) []touch {
	_, name, _ := strings.Cut(arn, ":table/")
	return []touch{{table: name}}
}
