package demo

import (
	"strings"
	"testing"
)

func TestTree(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		nodes []node
		want  string
	}{
		{"roots", []node{{id: "b"}, {id: "a"}}, "a\nb"},
		{"split", []node{{id: "a"}, {id: "b"}, {id: "c", parents: []string{"a"}}, {id: "d", parents: []string{"a"}}}, "a\n├─ c\n└─ d\nb"},
		{"split twice", []node{{id: "a"}, {id: "c", parents: []string{"a"}}, {id: "d", parents: []string{"a"}}, {id: "e", parents: []string{"c"}}, {id: "f", parents: []string{"c"}}},
			"a\n├─ c\n│  ├─ e\n│  └─ f\n└─ d"},
		{"merge hangs under its last parent", []node{{id: "a"}, {id: "b"}, {id: "c", parents: []string{"a", "b"}}}, "a\nb\n└─ c + a"},
		{"a parent that is gone", []node{{id: "c", parents: []string{"a"}}}, "c + a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, b := range tree(tt.nodes) {
				s := b.lines + b.id
				if len(b.also) > 0 {
					s += " + " + strings.Join(b.also, " ")
				}
				got = append(got, s)
			}
			if s := strings.Join(got, "\n"); s != tt.want {
				t.Errorf("\n%s\nwant\n%s", s, tt.want)
			}
		})
	}
}

func TestShort(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"shardId-000000000000": "#0", "shardId-000000000012": "#12", "P2": "P2"} {
		if got := short(in); got != want {
			t.Errorf("short(%q) = %q, want %q", in, got, want)
		}
	}
}
