package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What docs/kcl-checklist.md names must be there: tests, rules of the conformance suite, scenarios.
func TestChecklistNamesWhatIsThere(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "docs", "kcl-checklist.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests, rules := map[string]bool{}, ""
	fun := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)`)
	err = filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "out" || strings.HasPrefix(d.Name(), ".") && d.Name() != ".."):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go"):
			return nil
		}
		b, err := os.ReadFile(path)
		for _, m := range fun.FindAllSubmatch(b, -1) {
			tests[string(m[1])] = true
		}
		if strings.Contains(path, "/conformance/") {
			rules += string(b)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	scenarioNames := []string{}
	for _, s := range kclScenarios {
		scenarioNames = append(scenarioNames, s.name)
	}
	for _, s := range scenarios() {
		scenarioNames = append(scenarioNames, s.name)
	}
	named := 0
	for line := range strings.SplitSeq(string(doc), "\n") {
		_, ours, ok := strings.Cut(strings.TrimPrefix(line, "|"), "|")
		if !ok {
			continue
		}
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(ours, -1) {
			name := m[1]
			switch {
			case fun.MatchString("func " + name):
				if named++; !tests[name] {
					t.Errorf("test %s is not there", name)
				}
			case regexp.MustCompile(`^[a-z]+(-[a-z]+)+$`).MatchString(name) && !slices.Contains(scenarioNames, name):
				if named++; !strings.Contains(rules, `"`+name+`"`) && !strings.Contains(rules, `"`+name[:strings.LastIndex(name, "-")+1]) {
					t.Errorf("neither a rule nor a scenario is called %s", name)
				}
			case regexp.MustCompile(`^[a-z]+$`).MatchString(name) && strings.Contains(ours, "matrix"):
				if known := []string{"core", "cv", "tm", "sup", "slu"}; !slices.Contains(known, name) && !slices.Contains(scenarioNames, name) {
					t.Errorf("no scenario is called %s", name)
				}
			}
		}
	}
	if named < 100 {
		t.Errorf("only %d names were found: has the form of the page changed?", named)
	}
}
