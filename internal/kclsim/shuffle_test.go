package kclsim

import (
	"fmt"
	"slices"
	"testing"
)

// The vectors were made with the real class (docs/reference/kcl.md 2.4).
func TestListerIsThatOfJava(t *testing.T) {
	for n, want := range map[int]string{1: "w0", 2: "w0", 3: "w2", 4: "w3", 5: "w4", 6: "w2", 7: "w2", 8: "w2"} {
		owners := []string{}
		for i := range n {
			owners = append(owners, fmt.Sprintf("w%d", n-1-i), "w0")
		}
		if got := lister(owners); got != want {
			t.Errorf("of %d owners %s lists, want %s", n, got, want)
		}
	}
	owners := []string{}
	for i := range 100 {
		owners = append(owners, fmt.Sprintf("w%02d", i))
	}
	if got := lister(owners); got != "w95" {
		t.Errorf("of 100 owners %s lists, want w95", got)
	}
	if got := lister(nil); got != "" {
		t.Errorf("without owners %q lists, want nobody in particular", got)
	}
	r, got := newJavaRandom(1947), []int{}
	for n := 10; n > 1; n-- {
		got = append(got, r.nextInt(n))
	}
	if want := []int{3, 7, 0, 2, 4, 3, 2, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("nextInt(10)..nextInt(2) from seed 1947: %v, want %v", got, want)
	}
}
