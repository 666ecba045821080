//go:build planted

// Package planted breaks the engine on purpose, one rule at a time, and asks the ordinary simulation to find out. The broken files exist only as
// an overlay of the go command; no released package holds any of this. See docs/simulation.md.
package planted

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var (
	most = flag.Int("most", 0, "look for each fault in so many seeds, instead of those it is stated to need")
	root = "../../.."
)

// TestPlanted: each fault is found within the seeds it is stated to need.
func TestPlanted(t *testing.T) {
	for _, f := range faults {
		t.Run(strings.ReplaceAll(f.name, " ", "-"), func(t *testing.T) {
			bin, err := build(t.TempDir(), f.edits)
			if err != nil {
				t.Fatal(err)
			}
			seeds := f.seeds
			if *most > 0 {
				seeds = *most
			}
			began := time.Now()
			seed, rule, out := hunt(t, bin, seeds)
			if seed == 0 {
				t.Fatalf("%s (rule %s): not found in %d seeds\n%s", f.name, f.rule, seeds, tail(out))
			}
			t.Logf("FOUND | %s | %s | %s | %d | %v", f.name, f.rule, rule, seed, time.Since(began).Round(time.Second))
		})
	}
}

// TestSound: the engine as it is passes the same seeds.
func TestSound(t *testing.T) {
	bin, err := build(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	seeds := 0
	for _, f := range faults {
		seeds = max(seeds, f.seeds)
	}
	if seed, rule, out := hunt(t, bin, seeds); seed != 0 {
		t.Errorf("seed %d breaks %s in an engine that nobody broke:\n%s", seed, rule, tail(out))
	}
}

// TestEditsFit: the code that each fault changes is there still. It runs no simulation.
func TestEditsFit(t *testing.T) {
	for _, f := range faults {
		if _, err := edited(f.edits); err != nil {
			t.Errorf("%s: %v", f.name, err)
		}
	}
}

// edited are the files as a fault makes them.
func edited(edits []edit) (files map[string]string, err error) {
	files = map[string]string{}
	for _, e := range edits {
		text, ok := files[e.file]
		if !ok {
			b, err := os.ReadFile(filepath.Join(root, e.file))
			if err != nil {
				return nil, err
			}
			text = string(b)
		}
		if n := strings.Count(text, e.old); n != 1 {
			return nil, fmt.Errorf("%s has this text %d times, and it must stand there once: mend the fault in faults.go\n%s", e.file, n, e.old)
		}
		files[e.file] = strings.Replace(text, e.old, e.new, 1)
	}
	return files, nil
}

// build makes the test binary of the simulation with edited files, which exist for the go command alone.
func build(dir string, edits []edit) (bin string, err error) {
	files, err := edited(edits)
	if err != nil {
		return "", err
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for name, text := range files {
		to := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			return "", err
		}
		from, err := filepath.Abs(filepath.Join(root, name))
		if err != nil {
			return "", err
		}
		overlay.Replace[from] = to
	}
	b, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, b, 0o600); err != nil {
		return "", err
	}
	bin = filepath.Join(dir, "sim.test")
	cmd := exec.Command("go", "test", "-c", "-overlay", list, "-o", bin, "./internal/sim")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the simulation: %w\n%s", err, out)
	}
	return bin, nil
}

var (
	failed = regexp.MustCompile(`(?m)^\s+--- FAIL: TestSimulate/seed=(\d+)`)
	broken = regexp.MustCompile(`(?m)BROKEN .*?([A-Z]\d+): (.*)$`)
)

// hunt runs the ordinary simulation seed by seed until one breaks a rule: which seed, and what was broken first.
func hunt(t *testing.T, bin string, seeds int) (seed int, rule, out string) {
	cmd := exec.CommandContext(t.Context(), bin, "-test.run", "^TestSimulate$", "-test.v", "-test.timeout", "20m", "-until", fmt.Sprintf("-seeds=%d", seeds))
	cmd.Dir = filepath.Join(root, "internal/sim")
	b, err := cmd.CombinedOutput()
	out = string(b)
	if err == nil {
		return 0, "", out
	}
	m := failed.FindStringSubmatch(out)
	r := broken.FindStringSubmatch(out)
	if m == nil || r == nil {
		t.Fatalf("the simulation ended with %v, and names no broken rule:\n%s", err, tail(out))
	}
	if _, err := fmt.Sscan(m[1], &seed); err != nil {
		t.Fatal(err)
	}
	return seed, r[1], out
}

func tail(out string) string { return out[max(0, len(out)-3000):] }
