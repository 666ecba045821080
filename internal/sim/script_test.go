package sim_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/shardwarden/shardwarden/internal/sim"
)

var update = flag.Bool("update", false, "write what the scripts print into testdata")

// TestScripts plays testdata/*.txt and compares what they print. The judge watches as in a simulation.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var got string
			synctest.Test(t, func(t *testing.T) {
				if got, err = sim.Play(string(want)); err != nil {
					t.Errorf("%v\n%s", err, got)
				}
			})
			if t.Failed() {
				return
			}
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(want) {
				t.Errorf("got:\n%s\n%s", got, differ(string(want), got))
			}
		})
	}
}

// differ names the first line that differs.
func differ(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		line := func(l []string) string {
			if i < len(l) {
				return l[i]
			}
			return "(end)"
		}
		if line(w) != line(g) {
			return "want: " + line(w) + "\ngot:  " + line(g)
		}
	}
	return ""
}
