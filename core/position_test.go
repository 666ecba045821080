package core

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestPositionPrintsAndParsesAsTheKCLWritesIt(t *testing.T) {
	at := time.Unix(1700000000, 0)
	for _, c := range []struct {
		text string
		sub  uint64
		at   time.Time
		want Position
	}{
		{"TRIM_HORIZON", 0, time.Time{}, FromHorizon},
		{"LATEST", 0, time.Time{}, FromLatest},
		{"LATEST", 0, at, Position{Anchor: Latest, Time: at}},
		{"AT_TIMESTAMP", 0, at, From(at)},
		{"SHARD_END", 0, time.Time{}, AtShardEnd},
		{"49590338271490256608559692538361571095921575989136588898", 3, time.Time{}, Position{Token: "49590338271490256608559692538361571095921575989136588898", Sub: 3}},
	} {
		got, err := ParsePosition(c.text, c.sub, c.at)
		if err != nil || !got.Equal(c.want) || got.String() != c.text {
			t.Errorf("ParsePosition(%q, %d, %v) = %+v, %v, prints %q; want %+v", c.text, c.sub, c.at, got, err, got, c.want)
		}
	}
	for _, c := range []struct {
		text string
		sub  uint64
	}{{"", 0}, {"LATEST", 1}, {"SHARD_END", 7}} {
		if p, err := ParsePosition(c.text, c.sub, time.Time{}); err == nil {
			t.Errorf("ParsePosition(%q, %d) = %+v without an error", c.text, c.sub, p)
		}
	}
}

func TestPositionRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Position{Token: rapid.StringN(1, 60, -1).Draw(t, "token"), Sub: rapid.Uint64().Draw(t, "sub")}
		got, err := ParsePosition(p.String(), p.Sub, time.Time{})
		if err != nil {
			if q, e := ParsePosition(p.Token, 0, time.Time{}); e == nil && !q.IsStart() && !q.IsEnd() {
				t.Fatalf("%+v does not come back: %v", p, err)
			}
			return
		}
		if !got.Equal(p) && !got.IsStart() && !got.IsEnd() {
			t.Fatalf("%+v comes back as %+v", p, got)
		}
	})
}
