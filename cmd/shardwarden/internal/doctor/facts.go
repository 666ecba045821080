package doctor

import (
	"time"

	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/leasetable"
	"github.com/shardwarden/shardwarden/core"
)

// Facts are all that the checks look at. They are gathered once; a check asks nobody.
type Facts struct {
	// What the user says.
	Stream, App, Table string
	LeaseDuration      time.Duration
	WorkerID           string

	// The stream.
	Info      core.StreamInfo
	StreamErr error
	Shards    []core.Shard
	ShardsErr error
	ReadErr   error         // of a read of a shard
	Ahead     time.Duration // by how much this machine's clock is ahead of the service's
	ClockErr  error

	// The lease table.
	Missing  bool // there is no such table
	TableErr error
	Before   *leasetable.Report // at the beginning of the observation
	Report   *leasetable.Report // at its end
	Renewals map[string]Renewal // by owner
	// Acquired counts how often a lease came to the worker that owned it already, by worker.
	Acquired map[string]int
	// Leaders are the lock rows, of which there should be one; Handovers is how often the leader changed while the table was watched.
	Leaders       []LockRow
	LeaderChanges int
	// Asked are the leases whose rows name a next owner as 3.x does; in a fleet of 2.x nobody looks at that.
	Asked []string
	// Foreign are the rows of the lease table that are no leases.
	Foreign []ForeignRow
	// SideErrs are the side tables that could not be asked about; one that does not exist is no error.
	SideErrs map[string]error
	// Denied are the calls that the credentials do not allow.
	Denied []Denial
}

// LockRow is a leader's lock.
type LockRow struct{ Table, Owner string }

// ForeignRow is a row that is no lease.
type ForeignRow struct {
	Key  string
	Type string // its entityType, or what it is told to be by its key; empty: unknown
	Ours bool   // only a worker of ours writes such a row
}

// Denial is a call that is not allowed.
type Denial struct{ Call, Table string }
