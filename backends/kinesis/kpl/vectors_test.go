package kpl

import (
	"encoding/json"
	"math/big"
	"os"
	"strings"
	"testing"

	"github.com/shardwarden/shardwarden/core"
)

const vectors = "../../../testdata/vectors/kpl/"

// vector is a case of testdata/vectors: records as a shard delivers them, and what the Java KCL makes of them.
type vector struct {
	Name    string
	Records []struct {
		Sequence string `json:"sequence_number"`
		Key      string `json:"partition_key"`
		Arrived  int64  `json:"approximate_arrival_timestamp"`
		Data     []byte
	}
	Range *struct{ Start, End string } `json:"hash_range"`
	Want  struct{ Records []result }   `json:"expect"`
}

type result struct {
	Sequence   string  `json:"sequence_number"`
	Sub        uint64  `json:"sub_sequence_number"`
	Aggregated bool    `json:"aggregated"`
	Key        string  `json:"partition_key"`
	HashKey    *string `json:"explicit_hash_key"`
	Arrived    int64   `json:"approximate_arrival_timestamp"`
	Data       []byte  `json:"data"`
}

func (r result) String() string {
	b, _ := json.Marshal(r)
	return string(b)
}

// departures are the vectors of which the Java KCL hands out less than the container holds, and what is handed out here: the data of user
// records, or the container itself. docs/kinesis-kpl.md lists them too.
var departures = map[string][]string{
	"pk_index_out_of_range_second": {"the container"}, // Java: the records before it, and nothing of the rest
	"pk_index_out_of_range_first":  {"the container"},
	"pk_index_two_pow_32":          {"the container"}, // Java: the record, under another key
	"ehk_index_out_of_range":       {"the container"},
	"ehk_not_a_number":             {"the container"},
	"ehk_negative":                 {"the container"}, // Java: nothing
	"ehk_above_2_pow_128":          {"the container"},
	"first_out":                    {"Lkey-1", "Lkey-3"}, // Java: nothing of a container with one record outside
	"last_out":                     {"Lkey-1", "Lkey-3"},
	"middle_out_in_batch":          {"Lkey-1", "Lkey-3", "Lkey-7", "plain", "Lkey-7"},
	"ehk_one_past_end":             {"x"},
}

func hashRange(t *testing.T, start, end string) *core.HashRange {
	t.Helper()
	var r core.HashRange
	for text, to := range map[string]*[16]byte{start: &r.Start, end: &r.End} {
		n, ok := new(big.Int).SetString(text, 10)
		if !ok {
			t.Fatalf("hash key %q", text)
		}
		n.FillBytes(to[:])
	}
	return &r
}

// open does what a source does by default: containers are opened, what cannot be opened is handed out as it is.
func open(t *testing.T, o *Opener, in []core.Record) []core.Record {
	t.Helper()
	var out []core.Record
	for i := range in {
		if !IsAggregate(in[i].Data) {
			out = append(out, in[i])
			continue
		}
		var err error
		if out, _, err = o.Open(out, &in[i]); err != nil {
			out = append(out, in[i])
		}
	}
	return out
}

func readVectors(t testing.TB, file string) []vector {
	t.Helper()
	text, err := os.ReadFile(vectors + file)
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Cases []vector }
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all.Cases
}

var files = []string{"aggregated.json", "kpl_native.json", "corrupted.json", "hash_range.json"}

func (v *vector) input() []core.Record {
	var in []core.Record
	for _, r := range v.Records {
		in = append(in, core.Record{Data: r.Data, Key: r.Key, Sequence: r.Sequence, Arrived: r.Arrived})
	}
	return in
}

func TestVectorsAsTheJavaKCL(t *testing.T) {
	seen, same := map[string]bool{}, 0
	for _, file := range files {
		for _, v := range readVectors(t, file) {
			t.Run(v.Name, func(t *testing.T) {
				o := &Opener{}
				if v.Range != nil {
					o.Range = hashRange(t, v.Range.Start, v.Range.End)
				}
				in := v.input()
				var got []result
				for _, r := range open(t, o, in) {
					g := result{Sequence: r.Sequence, Sub: r.Sub, Key: r.Key, Arrived: r.Arrived, Data: r.Data}
					if u, ok := r.Native.(*UserRecord); ok {
						g.Aggregated = true
						if u.Explicit {
							g.HashKey = &u.HashKey
						}
					}
					got = append(got, g)
				}
				if want, differs := departures[v.Name]; differs {
					seen[v.Name] = true
					checkDeparture(t, in, got, want, v.Want.Records)
					return
				}
				same++
				if len(got) != len(v.Want.Records) {
					t.Fatalf("%d records, Java has %d:\n%v", len(got), len(v.Want.Records), got)
				}
				for i, want := range v.Want.Records {
					if got[i].String() != want.String() {
						t.Errorf("record %d:\n%s\nJava:\n%s", i, got[i], want)
					}
				}
			})
		}
	}
	if same != 66 || len(seen) != len(departures) {
		t.Errorf("%d vectors as Java and %d departures: want 66 and %d", same, len(seen), len(departures))
	}
	doc, err := os.ReadFile("../../../docs/kinesis-kpl.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range departures {
		if strings.Count(string(doc), "`"+name+"`") != 1 {
			t.Errorf("docs/kinesis-kpl.md does not list %s", name)
		}
	}
}

func checkDeparture(t *testing.T, in []core.Record, got []result, want []string, java []result) {
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d:\n%v", len(got), len(want), got)
	}
	differs := len(got) != len(java)
	for i, g := range got {
		text := want[i]
		if text == "the container" {
			text = string(in[0].Data)
			if g.Aggregated || g.Key != in[0].Key || g.Sub != 0 {
				t.Errorf("record %d is not the container as it came: %s", i, g)
			}
		}
		if string(g.Data) != text {
			t.Errorf("record %d is %q, want %q", i, g.Data, text)
		}
		differs = differs || g.String() != java[i].String()
	}
	if !differs {
		t.Error("Java does the same: no departure")
	}
}

// The number of the record, not that of what is left, is its place: a checkpoint means the same to every reader of the table.
func TestRecordsLeftOutKeepTheirNumbers(t *testing.T) {
	for _, v := range readVectors(t, "hash_range.json") {
		if v.Name != "first_out" {
			continue
		}
		o := Opener{Range: hashRange(t, v.Range.Start, v.Range.End)}
		in := v.input()
		got, outside, err := o.Open(nil, &in[0])
		if err != nil || outside != 1 || len(got) != 2 || got[0].Sub != 1 || got[1].Sub != 2 {
			t.Errorf("%d left out, %v, %+v: want records 1 and 2", outside, err, got)
		}
		return
	}
	t.Fatal("no such vector")
}

func TestDamagedSaysWhatIsWrong(t *testing.T) {
	want := map[string]string{
		"magic_only": "too short", "magic_and_digest_of_nothing": "too short",
		"bad_md5": "digest", "body_bit_flip": "digest", "truncated_by_five": "digest", "trailing_byte": "digest",
		"good_md5_garbage_body": "not protobuf", "good_md5_truncated_body": "not protobuf", "good_md5_text_body": "not protobuf",
		"missing_required_data":        "user record 1: it has no data",
		"missing_required_index":       "user record 0: it has no partition key index",
		"pk_index_out_of_range_second": "user record 1: its partition key is number",
		"pk_index_two_pow_32":          "number 4294967296 of a table of 1",
		"ehk_index_out_of_range":       "user record 1: its hash key is number",
		"ehk_not_a_number":             `hash key "zzz"`, "ehk_negative": `hash key "-5"`, "ehk_above_2_pow_128": "2^128",
	}
	for _, v := range readVectors(t, "corrupted.json") {
		text, ok := want[v.Name]
		if !ok {
			continue
		}
		delete(want, v.Name)
		in := v.input()
		before := []core.Record{{Key: "before"}}
		got, _, err := new(Opener).Open(before, &in[0])
		if err == nil || !strings.Contains(err.Error(), text) || !strings.Contains(err.Error(), in[0].Sequence) {
			t.Errorf("%s: %v, want the record's number and %q", v.Name, err, text)
		}
		if len(got) != 1 || got[0].Key != "before" {
			t.Errorf("%s: records of a damaged container: %+v", v.Name, got)
		}
	}
	if len(want) > 0 {
		t.Errorf("no such vectors: %v", want)
	}
}
