package tablestore

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// AdminPath is where the emulator's own calls begin, for users of the server outside of its process. They take and
// give JSON, need no signature, and meet no faults:
//
//	GET    /emulator/calls
//	GET    /emulator/partitions?instance=I&table=T
//	POST   /emulator/split   {"instance": I, "table": T, "at": V}, or "shard": S instead of "at"
//	POST   /emulator/merge   {"instance": I, "table": T, "shards": [S, S]}
//	POST   /emulator/trim    {"instance": I, "table": T, "shard": S, "before": "2026-01-02T15:04:05Z"}
//	POST   /emulator/expire  {"instance": I, "table": T, "shard": S}
//	POST   /emulator/faults  {"kind": "fail", "code": "OTSServerBusy", "times": 3}, with the fields of Fault
//	DELETE /emulator/faults
//
// A value V is a string, a whole number, or {"base64": "..."} for binary.
const AdminPath = "/emulator/"

// adminRequest is what the calls take; each uses its part.
type adminRequest struct {
	Instance string    `json:"instance"`
	Table    string    `json:"table"`
	Shard    string    `json:"shard"`
	Shards   []string  `json:"shards"`
	At       keyValue  `json:"at"`
	Before   time.Time `json:"before"`
}

type shardList struct {
	Shards []string `json:"shards"`
}

type partitionJSON struct {
	From  keyValue `json:"from"`
	To    keyValue `json:"to"`
	Shard string   `json:"shard,omitempty"`
}

type faultJSON struct {
	Kind        Kind    `json:"kind"`
	Operation   string  `json:"operation"`
	Instance    string  `json:"instance"`
	Table       string  `json:"table"`
	Shard       string  `json:"shard"`
	Key         string  `json:"key"`
	Skip        int     `json:"skip"`
	Probability float64 `json:"probability"`
	Times       int     `json:"times"`
	Code        string  `json:"code"`
	Delay       string  `json:"delay"` // such as "20ms"
	Records     int     `json:"records"`
}

// keyValue is a value of the first primary key column in JSON; null for none.
type keyValue struct{ value any }

// MarshalJSON writes a string, a number, {"base64": "..."} or null.
func (k keyValue) MarshalJSON() ([]byte, error) {
	if b, ok := k.value.([]byte); ok {
		return json.Marshal(map[string]string{"base64": base64.StdEncoding.EncodeToString(b)})
	}
	return json.Marshal(k.value)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (k *keyValue) UnmarshalJSON(data []byte) error {
	var n int64
	var text string
	var binary struct {
		Base64 *[]byte `json:"base64"`
	}
	switch {
	case string(data) == "null":
		k.value = nil
	case json.Unmarshal(data, &n) == nil:
		k.value = n
	case json.Unmarshal(data, &text) == nil:
		k.value = text
	case json.Unmarshal(data, &binary) == nil && binary.Base64 != nil:
		k.value = *binary.Base64
	default:
		return fmt.Errorf(`%s is not a value of a primary key: want a string, a whole number or {"base64": "..."}`, data)
	}
	return nil
}

func (s *Server) serveAdmin(w http.ResponseWriter, r *http.Request) {
	out, err := s.admin(w, r)
	status := http.StatusOK
	if err != nil {
		status, out = http.StatusBadRequest, map[string]string{"error": err.Error()}
		if errors.Is(err, errNoSuchCall) {
			status = http.StatusNotFound
		}
	}
	body, err := json.Marshal(out)
	if err != nil {
		status, body = http.StatusInternalServerError, nil
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // the client has gone; nothing else to tell it
}

var errNoSuchCall = errors.New("no such call of the emulator")

func (s *Server) admin(w http.ResponseWriter, r *http.Request) (any, error) {
	read := func(into any) error {
		d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20))
		d.DisallowUnknownFields()
		return d.Decode(into)
	}
	var in adminRequest
	switch name := r.Method + " " + strings.TrimPrefix(r.URL.Path, AdminPath); name {
	case "GET calls":
		return s.Calls(), nil
	case "GET partitions":
		parts, err := s.Partitions(r.URL.Query().Get("instance"), r.URL.Query().Get("table"))
		out := make([]partitionJSON, len(parts))
		for i, p := range parts {
			out[i] = partitionJSON{keyValue{p.From}, keyValue{p.To}, p.Shard}
		}
		return out, err
	case "POST faults":
		return struct{}{}, s.addFault(read)
	case "DELETE faults":
		s.ClearFaults()
		return struct{}{}, nil
	case "POST split":
		if err := read(&in); err != nil {
			return nil, err
		}
		split := func() (string, string, error) { return s.Split(in.Instance, in.Table, in.At.value) }
		if in.Shard != "" {
			if in.At.value != nil {
				return nil, errors.New("give at or shard, not both: a shard is split in the middle of its rows")
			}
			split = func() (string, string, error) { return s.SplitShard(in.Instance, in.Table, in.Shard) }
		}
		left, right, err := split()
		return shardList{[]string{left, right}}, err
	case "POST merge":
		if err := read(&in); err != nil {
			return nil, err
		}
		if len(in.Shards) != 2 {
			return nil, fmt.Errorf("shards has %d ids, want two", len(in.Shards))
		}
		merged, err := s.Merge(in.Instance, in.Table, in.Shards[0], in.Shards[1])
		return shardList{[]string{merged}}, err
	case "POST trim":
		if err := read(&in); err != nil {
			return nil, err
		}
		if in.Before.IsZero() {
			return nil, errors.New(`before is missing: a time such as "2026-01-02T15:04:05Z"`)
		}
		return struct{}{}, s.Trim(in.Instance, in.Table, in.Shard, in.Before)
	case "POST expire":
		if err := read(&in); err != nil {
			return nil, err
		}
		return struct{}{}, s.Expire(in.Instance, in.Table, in.Shard)
	default:
		return nil, fmt.Errorf("%w: %s", errNoSuchCall, name)
	}
}

func (s *Server) addFault(read func(any) error) error {
	var in faultJSON
	if err := read(&in); err != nil {
		return err
	}
	f := Fault{
		Kind: in.Kind, Operation: in.Operation, Instance: in.Instance, Table: in.Table, Shard: in.Shard, Key: in.Key,
		Skip: in.Skip, Probability: in.Probability, Times: in.Times, Code: in.Code, Records: in.Records,
	}
	if in.Delay != "" {
		var err error
		if f.Delay, err = time.ParseDuration(in.Delay); err != nil {
			return err
		}
	}
	return s.SetFault(f)
}
