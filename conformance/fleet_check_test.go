package conformance

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/shardwarden/shardwarden/core"
)

func TestCheckFleet(t *testing.T) {
	t.Parallel()
	given := Only(func(rule string) bool { return strings.HasPrefix(rule, "R4_R9_") })
	report, err := CheckFleet(t.Context(), makeMemoryStream(), makeMemoryTable(), given)
	if err != nil || len(report.Rules) != 1 || report.Rules[0].Outcome != Pass {
		t.Errorf("sound adapters: %v\n%s", err, report)
	}

	forgets := wrapStore(makeMemoryTable(), func(s core.LeaseStore) core.LeaseStore { return &editing{s, func(x *core.Set) { x.Checkpoint = nil }} })
	report, err = CheckFleet(t.Context(), makeMemoryStream(), forgets, given)
	if err == nil || !strings.Contains(err.Error(), "fleet rule R4_R9_given-lease-is-accepted-first: ") || len(report.Failed()) != 1 {
		t.Errorf("a store that forgets checkpoints: %v\n%s", err, report)
	}

	noTable := errors.New("no table today")
	report, err = CheckFleet(t.Context(), makeMemoryStream(), func(context.Context) (StoreHarness, error) { return nil, noTable }, given)
	if err == nil || !strings.Contains(err.Error(), noTable.Error()) {
		t.Errorf("no table: %v\n%s", err, report)
	}

	if _, err := CheckFleet(t.Context(), makeMemoryStream(), makeMemoryTable(), FakeTime()); err == nil {
		t.Error("FakeTime is not refused")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := CheckFleet(ctx, makeMemoryStream(), makeMemoryTable()); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
}

// A harness with the few methods it must have skips what it cannot do, and says which verb is missing.
func TestFleetSkipsByName(t *testing.T) {
	t.Parallel()
	plain := func(ctx context.Context) (SourceHarness, error) {
		h, err := makeMemoryStream()(ctx)
		return struct{ SourceHarness }{h}, err
	}
	bare := func(ctx context.Context) (StoreHarness, error) {
		h, err := makeMemoryTable()(ctx)
		return struct{ StoreHarness }{h}, err
	}
	want := map[string]string{
		"G23_errors-of-the-adapters": "Break", "R6_end-in-order": "Split", "R5_G4_merged-child-waits-for-both": "Merge",
		"G27_handler-slower-than-iterators": "Advance", "R12_G22_table-of-many-pages": "PageBytes", "R8_G17_hand-over-under-load": "Split",
	}
	report, err := CheckFleet(t.Context(), plain, bare, Only(func(rule string) bool { return want[rule] != "" }))
	if err != nil || len(report.Rules) != len(want) {
		t.Fatalf("%v\n%s", err, report)
	}
	for _, r := range report.Rules {
		if r.Outcome != Skip || !slices.Contains(strings.FieldsFunc(r.Lacks, func(c rune) bool { return c == ' ' || c == ',' }), want[r.Rule]) {
			t.Errorf("%s: %s, lacks %q; want it skipped for want of %s", r.Rule, r.Outcome, r.Lacks, want[r.Rule])
		}
	}
}
