package kinesis

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"pgregory.net/rapid"
)

func TestJSONStringsAreReadBackAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.StringMatching(`[\x00-\x7f]*`)).Draw(t, "s")
		var back string
		if err := json.Unmarshal(appendJSONString(nil, s), &back); err != nil || back != s {
			t.Fatalf("%q is read back as %q, %v", s, back, err)
		}
	})
	if got := string(appendJSONString(nil, []byte("a\xffb"))); got != `"a\ufffdb"` {
		t.Errorf("invalid UTF-8 is written as %s", got)
	}
}

// everything writes one of each value.
func everything(w *writer) {
	w.openMap()
	w.textField("Text", "a\"b\n")
	w.intField("Int", 70_000)
	w.intField("Negative", -300)
	w.boolField("Yes", true)
	w.boolField("No", false)
	w.timeField("Time", 1_700_000_000_042)
	w.key("Blob")
	w.blob([]byte{0, 255})
	w.key("Empty")
	w.openList()
	w.closeList()
	w.key("List")
	w.openList()
	w.int(1)
	w.text("[")
	w.text("{")
	w.openMap()
	w.textField("k", ":")
	w.intField("l", 0)
	w.closeMap()
	w.openMap()
	w.closeMap()
	w.closeList()
	w.closeMap()
}

func TestOneAnswerInBothProtocols(t *testing.T) {
	var j writer
	everything(&j)
	const want = `{"Text":"a\"b\u000a","Int":70000,"Negative":-300,"Yes":true,"No":false,"Time":1700000000.042,"Blob":"AP8=","Empty":[],"List":[1,"[","{",{"k":":","l":0},{}]}`
	if got := string(j.b); got != want {
		t.Errorf("JSON:\n%s\nwant\n%s", got, want)
	}
	c := writer{cbor: true}
	everything(&c)
	var got map[string]any
	dec, _ := cbor.DecOptions{DefaultMapType: reflect.TypeFor[map[string]any](), TimeTag: cbor.DecTagOptional}.DecMode()
	rawTime, _ := cbor.Marshal(cbor.Tag{Number: 1, Content: uint64(1_700_000_000_042)})
	var fields map[string]cbor.RawMessage
	if err := cbor.Unmarshal(c.b, &fields); err != nil {
		t.Fatal(err)
	}
	if string(fields["Time"]) != string(rawTime) {
		t.Errorf("time is %x, want %x: tag 1 and the integer of milliseconds", fields["Time"], rawTime)
	}
	if err := dec.Unmarshal(c.b, &got); err != nil {
		t.Fatal(err)
	}
	delete(got, "Time")
	wantMap := map[string]any{"Text": "a\"b\n", "Int": uint64(70_000), "Negative": int64(-300), "Yes": true, "No": false, "Blob": []byte{0, 255},
		"Empty": []any{}, "List": []any{uint64(1), "[", "{", map[string]any{"k": ":", "l": uint64(0)}, map[string]any{}}}
	if !reflect.DeepEqual(got, wantMap) {
		t.Errorf("CBOR:\n%v\nwant\n%v", got, wantMap)
	}
}
