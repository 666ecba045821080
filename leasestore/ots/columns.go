package ots

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/shardwarden/shardwarden/core"
)

// The primary key, in the order of the table.
const (
	keyStream = "StreamId"
	keyKind   = "StatusType"
	keyValue  = "StatusValue"
)

// kindLease is the StatusType of leases.
const kindLease = "LeaseKey"

// Columns of the Java client (docs/reference/tablestore.md 3.4).
const (
	colCounter    = "LeaseCounter"
	colOwner      = "LeaseOwner"
	colStealer    = "LeaseStealer"
	colCheckpoint = "Checkpoint"
	colParents    = "ParentShardIds"
)

// Columns of ours. Names may hold letters, digits and "_" only.
const (
	colRun          = "sw_run"
	colReady        = "sw_ready"
	colTaken        = "sw_taken"
	colStart        = "sw_start"
	colPending      = "sw_pending"
	colPendingState = "sw_pendingState"
	colSwitches     = "sw_switches"
	colThroughput   = "sw_throughput"
	colRange        = "sw_range"
	childPrefix     = "sw_child_"
)

// known are the columns that a lease is made of.
func known(name string) bool {
	switch name {
	case colCounter, colOwner, colStealer, colCheckpoint, colParents,
		colRun, colReady, colTaken, colStart, colPending, colPendingState, colSwitches, colThroughput, colRange:
		return true
	}
	return strings.HasPrefix(name, childPrefix)
}

// childColumn is the column of a child: one for each, so that adding one needs no reading of the others, which the service could not do in one
// step with the write.
func childColumn(id core.ShardID) string { return childPrefix + digest(string(id)) }

// digest is a name for a text that is short, and legal as part of a column's name.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// bind ties a value to the checkpoint it belongs to. bound takes it apart.
func bind(checkpoint, value string) string { return digest(checkpoint) + " " + value }

// bound is the value and whether it belongs to the checkpoint; wellFormed is false where no bind made the text.
func bound(checkpoint, text string) (value string, holds, wellFormed bool) {
	mark, value, ok := strings.Cut(text, " ")
	return value, mark == digest(checkpoint), ok && len(mark) == 16
}
