package demo

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// pickyStage takes what a producer puts, and refuses every third record once.
type pickyStage struct {
	stage
	t     *testing.T
	seed  uint64
	taken map[string][]string
	seen  map[string]bool
	calls int
}

func (s *pickyStage) put(_ context.Context, records []outgoing) ([]placed, error) {
	s.calls++
	out := make([]placed, len(records))
	keys := map[string]bool{}
	for i, r := range records {
		if keys[r.key] {
			s.t.Errorf("a call holds key %s twice", r.key)
		}
		keys[r.key] = true
		if len(s.seen)%3 == 0 && !s.seen[string(r.data)] {
			s.seen[string(r.data)] = true
			continue
		}
		s.seen[string(r.data)] = true
		s.taken[r.key] = append(s.taken[r.key], string(r.data))
		out[i] = placed{"p", fmt.Sprint(len(s.seen))}
	}
	return out, nil
}

func TestProduce(t *testing.T) {
	t.Parallel()
	t.Run("many keys", func(t *testing.T) { testProduce(t, 9, 301) })
	t.Run("one key", func(t *testing.T) { testProduce(t, 1, 10) })
	t.Run("one record", func(t *testing.T) { testProduce(t, 1, 1) })
}

func testProduce(t *testing.T, keys, records int) {
	synctest.Test(t, func(t *testing.T) {
		b := &boundary{ledger: newLedger(keys), seed: 5, keys: keys, records: records}
		s := &pickyStage{t: t, seed: 5, taken: map[string][]string{}, seen: map[string]bool{}}
		for p := range producers {
			if err := b.produce(t.Context(), s, p, 12*time.Second); err != nil {
				t.Fatal(err)
			}
		}
		n := 0
		for key, got := range s.taken {
			for i, d := range got {
				it := plain{}.items(5, keys, records, []core.Record{{Key: key, Data: []byte(d)}})[0]
				if it.foreign || keyName(it.id.key) != key || int(it.id.n) != i {
					t.Errorf("record %d of %s holds %q", i, key, d)
				}
				n++
			}
		}
		if n != records || b.ledger.now().produced != records {
			t.Errorf("%d records were taken, %d are in the ledger, want %d", n, b.ledger.now().produced, records)
		}
	})
}

func TestItemsNoticeStrangers(t *testing.T) {
	t.Parallel()
	good := data(5, recordID{3, 7})
	bad := append([]byte(nil), good...)
	bad[len(bad)-1]++
	for _, tt := range []struct {
		name    string
		record  core.Record
		foreign bool
	}{
		{"as written", core.Record{Key: keyName(3), Data: good}, false},
		{"a byte is another", core.Record{Key: keyName(3), Data: bad}, true},
		{"cut short", core.Record{Key: keyName(3), Data: good[:len(good)-1]}, true},
		{"under another key", core.Record{Key: keyName(4), Data: good}, true},
		{"of no producer", core.Record{Key: keyName(3), Data: []byte("hello")}, true},
		{"a key that there is not", core.Record{Key: "key-0011", Data: data(5, recordID{11, 0})}, true},
		{"a number that there is not", core.Record{Key: keyName(3), Data: data(5, recordID{3, 1000})}, true},
		{"negative", core.Record{Key: keyName(3), Data: data(5, recordID{3, -1})}, true},
	} {
		if got := (plain{}).items(5, 10, 1000, []core.Record{tt.record})[0]; got.foreign != tt.foreign {
			t.Errorf("%s: foreign is %v", tt.name, got.foreign)
		}
	}
}
