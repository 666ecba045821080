package conformance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	source "github.com/shardwarden/shardwarden/backends/memory"
	"github.com/shardwarden/shardwarden/core"
	store "github.com/shardwarden/shardwarden/leasestore/memory"
)

// Every rule of the design and every class of failure has a rule here, named by it.
func TestFleetRulesNameAllThereIs(t *testing.T) {
	have := map[string]bool{}
	for _, r := range fleetRules() {
		for name := range strings.SplitSeq(strings.SplitN(r.name, "-", 2)[0], "_") {
			have[name] = true
		}
	}
	for letter, n := range map[string]int{"R": 13, "G": 28} {
		for i := range n {
			if name := fmt.Sprint(letter, i+1); !have[name] {
				t.Errorf("no rule is named after %s", name)
			}
		}
	}
}

func TestFleetInMemory(t *testing.T) {
	for name, c := range map[string]struct {
		source []source.Option
		store  []store.Option
	}{
		"whole": {nil, []store.Option{store.Pages(3)}},
		"bare": {
			[]source.Option{source.PageRecords(2), source.Strict(), source.Lacking(core.SourceLacks{HashRanges: true, ChildrenAtEnd: true, Lag: true})},
			[]store.Option{store.Pages(3), store.Shuffled(3), store.WithoutConflictRows(), store.WithoutReturnedRows(), store.WithoutStarts()},
		},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			TestFleet(t, makeMemoryStream(c.source...), makeMemoryTable(c.store...), FakeTime())
			t.Logf("in %v", time.Since(began))
		})
	}
}
