package conformance_test

import (
	"context"
	"fmt"

	"github.com/shardwarden/shardwarden/conformance"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/leasestore/memory"
)

// harness has the required verbs only.
type harness struct{ table *memory.Store }

func (h harness) Store() core.LeaseStore { return h.table.Handle("one more") }
func (h harness) Close() error           { return nil }

// Outside go test: a few rules on a table in memory.
func ExampleCheckStore() {
	report, err := conformance.CheckStore(context.Background(),
		func(context.Context) (conformance.StoreHarness, error) { return harness{memory.New()}, nil },
		conformance.Only(func(rule string) bool {
			return rule == "create-once" || rule == "set-ready" || rule == "unknown-attributes-kept"
		}))
	if err != nil {
		fmt.Println(err)
	}
	for _, r := range report.Rules {
		if r.Outcome == conformance.Skip {
			r.Rule += ", for want of " + r.Lacks
		}
		fmt.Println(r.Outcome, r.Rule)
	}
	// Output:
	// pass create-once
	// skip unknown-attributes-kept, for want of verb PutAttribute
	// pass set-ready
}
