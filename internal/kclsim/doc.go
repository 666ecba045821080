// Package kclsim has small models of Java KCL workers, for tests that run them beside workers of this library in fake time.
//
//	java := kclsim.New(kclsim.Settings{ID: "java-1", Version: kclsim.V35, App: "app", Stream: "orders", DynamoDB: tables, Kinesis: streams, Process: note})
//	err := java.Run(ctx) // until ctx ends: it is killed there and then, as a process is; or until java.Stop, which is Java's graceful shutdown
//
// A [Worker] does what docs/reference/kcl.md (sections 1 to 5) says of the real one, on the services' own clients and on nothing of this
// library, so that a mistake made in package dynamo is not made here too. It has Java's conditions, attribute names and timers:
//
//	row.go       a lease row, and how strictly a version reads it (1.2, 1.3, V4)
//	table.go     tables, index, and the conditional writes (1.1, 1.4)
//	renew.go     renewals, what their failures mean, checkpoints (1.5, 1.6)
//	take.go      2.x: the taker (3.2)
//	shuffle.go   2.x: who lists shards (2.4)
//	lock.go      3.x: the leader's lock (2.3)
//	assign.go    3.x: the leader's pass, with the lease-count rule (3.3)
//	discover.go  3.x: how a worker learns of its leases (3.4)
//	handoff.go   3.x: the owner's side of a hand-over (3.5)
//	metrics.go   3.x: worker rows (2.2)
//	migrate.go   3.x: layouts, and the states of the migrations (2.5 to 2.7)
//	sync.go      which leases to create (4.1), and the auditor (4.2)
//	consume.go   a shard's consumer, to SHARD_END (4.3, 5)
//	clean.go     deletion of leases that have ended (4.4)
//
// What it has not: enhanced fan-out, several streams, aggregated records, prepared checkpoints, the variance rule (it balances by lease
// count, as LEASE_COUNT_BASED does), garbage collection of leases whose shard is gone, retries beyond the next round of a loop, and the leader's
// side of the single-table migration beyond INIT and DEPLOYED.
package kclsim
