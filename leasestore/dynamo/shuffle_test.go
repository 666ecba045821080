package dynamo

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/shardwarden/shardwarden/core"
)

// The vectors were made with the Java classes (docs/reference/kcl.md 2.4).
func TestShuffle(t *testing.T) {
	for n, want := range map[int]string{
		0: "", 1: "w0", 2: "w0 w1", 3: "w2 w0 w1", 4: "w3 w0 w1 w2", 5: "w4 w0 w2 w1 w3", 6: "w2 w3 w5 w4 w0 w1", 7: "w2 w4 w3 w5 w0 w6 w1", 8: "w2 w3 w0 w6 w4 w7 w1 w5",
	} {
		owners := ids(n, "w%d")
		before := slices.Clone(owners)
		if got := joined(shuffled(owners)); got != want {
			t.Errorf("%d owners: %s, want %s", n, got, want)
		}
		if first, _, _ := strings.Cut(want, " "); lister(owners) != core.WorkerID(first) {
			t.Errorf("%d owners: %q lists, want %q", n, lister(owners), first)
		}
		if !slices.Equal(owners, before) {
			t.Errorf("the caller's owners were shuffled: %v", owners)
		}
	}
	hundred := joined(shuffled(ids(100, "w%02d")))
	if !strings.HasPrefix(hundred, "w95 w33 w83 w68 w03 ") || !strings.HasSuffix(hundred, " w63") {
		t.Errorf("of 100: %s", hundred)
	}
}

func TestJavaRandom(t *testing.T) {
	r := newJavaRandom(shuffleSeed)
	var got []int32
	for n := int32(10); n >= 2; n-- {
		got = append(got, r.below(n))
	}
	if want := []int32{3, 7, 0, 2, 4, 3, 2, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("nextInt(10) to nextInt(2): %v, want %v", got, want)
	}
}

func ids(n int, format string) (out []core.WorkerID) {
	for i := range n {
		out = append(out, core.WorkerID(fmt.Sprintf(format, i)))
	}
	return out
}

func joined(ids []core.WorkerID) string {
	var out []string
	for _, id := range ids {
		out = append(out, string(id))
	}
	return strings.Join(out, " ")
}
