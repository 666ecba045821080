// Package conformance tells the writer of an adapter whether it keeps the contract of package core.
//
// An adapter's test makes a harness, a few verbs that drive the service behind the adapter, and hands it over:
//
//	func TestConformance(t *testing.T) {
//		conformance.TestStore(t, func(ctx context.Context) (conformance.StoreHarness, error) { return newHarness(ctx) })
//	}
//
// Each rule is a subtest named after what it demands, and gets a table or stream of its own. [CheckStore] and [CheckSource] run the same rules
// outside go test and return a [Report]. [TestFleet] lets whole workers share the stream by way of the table.
//
// Verbs beyond the few of [StoreHarness] and [SourceHarness] are interfaces of one method (docs/adapters.md lists them with their rules). What
// a harness lacks skips the rules that need it, and the report names the verb.
//
// Adapters without real I/O should run under [FakeTime]: each rule in a testing/synctest bubble, where waiting costs nothing.
//
// The package imports the standard library and core alone, core/worker for fleets. Folder broken holds adapters that are each wrong in one
// way: the suite's own test, which must fail each by the right rule.
package conformance
