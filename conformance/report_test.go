package conformance

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	r := Report{Suite: "store", Rules: []Result{
		{Rule: "a", Demands: "A holds.", Outcome: Pass},
		{Rule: "bb", Demands: "B holds.", Outcome: Fail, Faults: []string{"first\nsecond line", "another"}},
		{Rule: "c", Demands: "C holds.", Outcome: Skip, Lacks: "verb Split"},
	}}
	want := "pass  a   A holds.\nfail  bb  B holds.\n      first\n      second line\n      another\nskip  c   C holds. (skipped: lacks verb Split)\nstore: 1 passed, 1 failed, 1 skipped\n"
	if got := r.String(); got != want {
		t.Errorf("text:\n%s\nwant:\n%s", got, want)
	}
	if err := r.Err(); err == nil || !strings.Contains(err.Error(), "rule bb") || strings.Contains(err.Error(), "rule c") {
		t.Errorf("error %v, want one about bb alone", err)
	}
	path := filepath.Join(t.TempDir(), "r.json")
	if err := r.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, r) {
		t.Errorf("read back: %+v, %v", back, err)
	}
}
