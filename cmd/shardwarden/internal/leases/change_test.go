package leases

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/leasetable"
	"github.com/shardwarden/shardwarden/core"
)

// moving is a lease that changes behind the back of who writes it.
type moving struct {
	core.LeaseStore
	rows    []core.Lease // as read, one after the other; the last stays
	refuse  int          // so many writes are refused
	err     error        // of a write
	written []core.Lease
}

func (m *moving) Get(context.Context, core.LeaseKey) (core.Lease, error) {
	row := m.rows[0]
	if len(m.rows) > 1 {
		m.rows = m.rows[1:]
	}
	return row, nil
}

func (m *moving) Update(_ context.Context, seen core.Lease, _ core.Same, set core.Set) (core.Lease, error) {
	if m.refuse > 0 {
		m.refuse--
		return core.Lease{}, &core.ConflictError{Key: seen.Key}
	}
	if m.err != nil {
		return core.Lease{}, m.err
	}
	after := set.Apply(seen)
	m.written = append(m.written, after)
	return after, nil
}

// A lease that its owner renews meanwhile is read and written anew; one that is another's by now is left alone; what became of a write without an answer
// is not claimed to be known.
func TestWrite(t *testing.T) {
	t.Parallel()
	row := func(owner core.WorkerID, counter int64) core.Lease {
		return core.Lease{Owner: owner, Counter: counter, Checkpoint: core.Position{Token: "1"}}
	}
	shown := &leasetable.Of(time.Now(), []core.Lease{row("a", 1)}).Leases[0]
	rewinder := rewinder{lease: shown, to: core.FromHorizon}
	release := func(now *core.Lease) (core.Write, error) { return releaseOf(shown, now) }
	for _, tt := range []struct {
		name    string
		store   moving
		decide  func(*core.Lease) (core.Write, error)
		counter int64 // of the row that was written; 0: none was
		err     string
	}{
		{"as shown", moving{rows: []core.Lease{row("a", 1)}}, release, 2, ""},
		{"renewed meanwhile", moving{rows: []core.Lease{row("a", 2), row("a", 3), row("a", 4)}, refuse: 2}, release, 5, ""},
		{"renewed all the time", moving{rows: []core.Lease{row("a", 2)}, refuse: 99}, release, 0, "nothing was changed: the lease changed 5 times"},
		{"another's by now", moving{rows: []core.Lease{row("b", 2)}}, release, 0, "b owns it by now; nothing was changed"},
		{"another's after a refusal", moving{rows: []core.Lease{row("a", 2), row("b", 3)}, refuse: 1}, release, 0, "b owns it by now; nothing was changed"},
		{"no answer", moving{rows: []core.Lease{row("a", 1)}, err: fmt.Errorf("broken line: %w", core.ErrUnavailable)}, release, 0, "whether it was done is not known"},
		{"denied", moving{rows: []core.Lease{row("a", 1)}, err: fmt.Errorf("no: %w", core.ErrDenied)}, release, 0, "no: access denied"},
		{"rewound, another's by now", moving{rows: []core.Lease{row("b", 2)}}, rewinder.decide, 0, "b owns it by now; nothing was changed"},
		{"rewound, ended meanwhile", moving{rows: []core.Lease{{Owner: "a", Checkpoint: core.AtShardEnd}}}, rewinder.decide, 0, "it was read to its end meanwhile"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before, after, err := write(t.Context(), &leasetable.Table{Store: &tt.store}, core.LeaseKey{}, tt.decide)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) || len(tt.store.written) > 0 {
					t.Errorf("%v, wrote %v; want an error that says %q", err, tt.store.written, tt.err)
				}
				return
			}
			if err != nil || after.Counter != tt.counter || before.Counter != tt.counter-1 || after.Owner != core.Nobody {
				t.Errorf("%+v became %+v, %v; want counter %d", before, after, err, tt.counter)
			}
		})
	}
	if _, err := releaseOf(shown, new(row("b", 1))); !errors.Is(err, errChanged) {
		t.Errorf("a lease of another: %v", err)
	}
}
