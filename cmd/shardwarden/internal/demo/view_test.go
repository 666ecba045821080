package demo

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func sample() frame {
	return frame{
		title: "shardwarden demo: kinesis, 2 shards", elapsed: 12340 * time.Millisecond, total: 20000, put: 15000, handled: 10000, more: 12,
		workers: []workerLine{{"w1", running, 2}, {"w2", zombie, 0}, {"w3", stopped, 0}},
		shards: []shardLine{
			{node: node{id: "shardId-000000000000"}, state: "ended", owner: "w1", lag: -1, checkpoint: "SHARD_END", put: 500, got: 500},
			{node: node{id: "shardId-000000000001"}, state: "reading", owner: "w1", checkpoint: "49590338271490256608559692538361571095921575989136588898", put: 9000, got: 7766, lag: 1500 * time.Millisecond},
			{node: node{id: "shardId-000000000002", parents: []string{"shardId-000000000000", "shardId-000000000001"}}, state: "waiting", owner: "w1", lag: -1, checkpoint: "TRIM_HORIZON", put: 7, got: 0},
		},
		events: []string{" 9.0 s  * cut w2 off"},
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	want := `shardwarden demo: kinesis, 2 shards   12.3 s
███████████████▒▒▒▒▒▒▒········ put 15,000 of 20,000, handled 10,000, again 12
w1 reads 2 · w2 cut off · w3 stopped
shard                 owner    state      behind          checkpoint
#0                    w1       ended      -               SHARD_END
#1                    w1       reading    1,234 records, 1.5 s …989136588898
└─ #2 (and #0)        w1       waiting    7 records       TRIM_HORIZON
 9.0 s  * cut w2 off`
	want = strings.Replace(want, "1,234 records, 1.5 s …", "1,234 records, 1.5 s …", 1)
	got := strings.Join(sample().page(200, 50), "\n")
	if got != want {
		t.Errorf("\n%s\nwant\n%s", got, want)
	}
	for _, columns := range []int{20, 60} {
		for _, l := range sample().page(columns, 50) {
			if utf8.RuneCountInString(l) > columns {
				t.Errorf("%d columns: %q is wider", columns, l)
			}
		}
	}
	short := sample().page(200, 7)
	if len(short) > 7 || !strings.Contains(strings.Join(short, "\n"), "more shards") || short[len(short)-1] != want[strings.LastIndex(want, "\n")+1:] {
		t.Errorf("7 rows: %q", short)
	}
}

func TestLine(t *testing.T) {
	t.Parallel()
	want := " 12.3 s  put 15,000 of 20,000, handled 10,000, again 12; 3 shards, 1 ended; w1 reads 2 · w2 cut off · w3 stopped"
	if got := sample().line(); got != want {
		t.Errorf("\n%s\nwant\n%s", got, want)
	}
}

func TestBar(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		total, put, handled int
		want                string
	}{
		{0, 0, 0, strings.Repeat("·", 30)},
		{100, 100, 100, strings.Repeat("█", 30)},
		{100, 50, 0, strings.Repeat("▒", 15) + strings.Repeat("·", 15)},
		{100, 50, 60, strings.Repeat("█", 18) + strings.Repeat("·", 12)}, // the answer to a put can come after its records
	} {
		if got := bar(tt.total, tt.put, tt.handled); got != tt.want {
			t.Errorf("bar(%d, %d, %d) = %s, want %s", tt.total, tt.put, tt.handled, got, tt.want)
		}
	}
}

func TestDisplayRedraws(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	d := newDisplay(&out, func() (int, int) { return 80, 24 }, sample)
	d.draw()
	first := out.String()
	out.Reset()
	d.say(3*time.Second, "split #0")
	if out.Len() > 0 {
		t.Errorf("an event on a terminal writes %q between two frames", out.String())
	}
	d.draw()
	up := strings.Count(first, "\n")
	if want := "\x1b[7A\x1b[J"; up != 7 || !strings.HasPrefix(out.String(), want) {
		t.Errorf("the first frame has %d lines, the second begins with %q, want %q", up, out.String()[:10], want)
	}
	if !strings.HasSuffix(out.String(), "  3.0 s  * split #0\n") {
		t.Errorf("the event is not shown: %q", out.String())
	}
}

func TestDisplayPlain(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	d := newDisplay(&out, nil, sample)
	d.say(3*time.Second, "split #0")
	d.draw()
	if want := "  3.0 s  * split #0\n" + sample().line() + "\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Error("escape sequences without a terminal")
	}
}
