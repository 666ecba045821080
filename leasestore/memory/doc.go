// Package memory is a lease table in memory, for tests, simulations and programs of one process. It keeps the contract of
// [core.LeaseStore] to the letter, offers [core.Presence], and does what a real table does on its bad days when it is told to.
//
// [New] makes a table and returns a handle on it; [Store.Handle] makes more. Handles share the rows, and each has faults and counts of its
// own: one handle for each worker, and one worker's network can be cut while the others go on.
//
//	table := memory.New()
//	a, b := table.Handle("worker a"), table.Handle("worker b")
//	heal := b.Break(memory.Fault{Kind: memory.Lose, Ops: []memory.Op{memory.Update}, Times: 1}) // applied, then the answer is lost
//	…
//	heal()
//
// Nothing is kept when the process ends. No lock is held while a call waits, so everything here may run in a testing/synctest bubble.
package memory
