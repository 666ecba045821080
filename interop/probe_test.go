package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestJudgeProbe(t *testing.T) {
	const out = "info   host                               loadavg 1\n" +
		"ok     create                             ACTIVE\n" +
		"DIFF   list of tokens                      expected X, got Y\n" +
		"FAIL   put                                refused\n" +
		"== shardwarden: 1 ok, 1 DIFF, 1 FAIL\n"
	tests := []struct {
		name, out string
		accepted  []accepted
		want      []string
	}{
		{"nothing accepted", out, nil, []string{"list of tokens", "put"}},
		{"both accepted", out, []accepted{{"program", "DIFF", "list of tokens", "x"}, {"program", "FAIL", "put", "y"}}, nil},
		{"a DIFF does not excuse a FAIL", out, []accepted{{"program", "DIFF", "list of tokens", "x"}, {"program", "DIFF", "put", "y"}}, []string{"FAIL   put", `DIFF "put"`}},
		{"accepted and gone", out, []accepted{{"program", "DIFF", "list of tokens", "x"}, {"program", "FAIL", "put", "y"}, {"program", "DIFF", "old", "z"}}, []string{`DIFF "old"`}},
		{"cut short", strings.Split(out, "DIFF")[0], nil, []string{"did not finish"}},
		{"empty", "", nil, []string{"did not finish"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := judgeProbe(tt.out, tt.accepted)
			if !slices.EqualFunc(v.bad, tt.want, strings.Contains) {
				t.Errorf("complaints %q, want %q", v.bad, tt.want)
			}
		})
	}
}

func TestReadAccepted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(path, []byte("# head\n\nboth | DIFF | a b | because of c\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := readAccepted(path)
	if want := []accepted{{"both", "DIFF", "a b", "because of c"}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("read %q, %v, want %q", got, err, want)
	}
	if err := os.WriteFile(path, []byte("both | DIFF | a b\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readAccepted(path); err == nil || !strings.Contains(err.Error(), "list:1") {
		t.Errorf("a line without a reason gave %v, want an error that names it", err)
	}
	if _, err := readAccepted("probe2.accepted"); err != nil {
		t.Errorf("the list in use: %v", err)
	}
}
