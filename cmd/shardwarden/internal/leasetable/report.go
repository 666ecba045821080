package leasetable

import (
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// Report is what a lease table shows. docs/leases.md documents its JSON form: a key is there where the table holds such a thing.
type Report struct {
	Time     time.Time `json:"time"`
	Service  string    `json:"service"` // dynamodb, tablestore
	Table    string    `json:"table"`
	Stream   string    `json:"stream,omitempty"` // of a table of one stream, where its rows say it; its leases don't repeat it
	Watched  float64   `json:"watched"`          // seconds
	KCL      *KCL      `json:"kcl,omitempty"`
	Leases   []Lease   `json:"leases"`
	Workers  []Worker  `json:"workers,omitempty"`
	Bad      []BadRow  `json:"bad,omitempty"`
	LagError string    `json:"lagError,omitempty"` // why lags are missing
}

// Lease is a row.
type Lease struct {
	Stream     string    `json:"stream,omitempty"`
	Shard      string    `json:"shard"`
	State      string    `json:"state"` // free, held, ended
	Owner      string    `json:"owner,omitempty"`
	Kind       string    `json:"kind,omitempty"` // of the owner: ours, java
	Next       string    `json:"next,omitempty"` // whom the owner is asked to hand it to
	Counter    int64     `json:"counter"`        //
	Silence    *Silence  `json:"silence"`        // of the counter
	Checkpoint string    `json:"checkpoint"`     //
	Sub        uint64    `json:"sub,omitempty"`  //
	Start      time.Time `json:"start,omitzero"` // the instant a LATEST or AT_TIMESTAMP checkpoint was resolved to
	Pending    string    `json:"pending,omitempty"`
	Lag        *float64  `json:"lag,omitempty"` // seconds
	WaitsFor   []string  `json:"waitsFor,omitempty"`
	Ready      bool      `json:"ready,omitempty"`
	Parents    []string  `json:"parents,omitempty"`
	Children   []string  `json:"children,omitempty"`
	Run        string    `json:"run,omitempty"`
	Switches   int64     `json:"switches,omitempty"`
	Throughput float64   `json:"throughputKBps,omitempty"`

	lease core.Lease
}

// Core is the lease as it was read.
func (l *Lease) Core() core.Lease { return l.lease }

// Silence is how long something that lives has not changed, by this program's own clock.
type Silence struct {
	Seconds float64 `json:"seconds"`
	// AtLeast: it was never seen to change.
	AtLeast bool `json:"atLeast,omitempty"`
}

// Worker is a worker, as its own row or the leases tell.
type Worker struct {
	ID        string               `json:"id"`
	Kind      string               `json:"kind,omitempty"` // ours, java
	Leases    int                  `json:"leases"`
	Row       bool                 `json:"row"`                // it announces itself
	Silence   *Silence             `json:"silence,omitempty"`  // of its row, else of all its leases
	Updated   time.Time            `json:"updated,omitzero"`   // by the worker's own clock
	Table     string               `json:"table,omitempty"`    // of its row
	Metrics   map[string][]float64 `json:"metrics,omitempty"`  // oldest first; -1: no sample
	Limits    map[string][]float64 `json:"limits,omitempty"`   //
	Load      map[string]float64   `json:"load,omitempty"`     //
	Support   *int64               `json:"support,omitempty"`  // 1: understands the single-table layout
	SupportAt time.Time            `json:"supportAt,omitzero"` //
	Unfit     string               `json:"unfit,omitempty"`    // why a leader gives it nothing
}

// BadRow is a row that is a lease and cannot be read.
type BadRow struct {
	Row    string `json:"row"`
	Stream string `json:"stream,omitempty"`
	Shard  string `json:"shard,omitempty"`
	Error  string `json:"error"`
}

// KCL is what a DynamoDB table and its side tables tell of the KCL's fleet.
type KCL struct {
	Layout         string            `json:"layout"`
	Regime         string            `json:"regime"`
	Why            string            `json:"why,omitempty"`
	Leader         *Leader           `json:"leader,omitempty"`
	ClientVersion  string            `json:"clientVersion,omitempty"`
	TableMigration string            `json:"tableMigration,omitempty"`
	Changes        []Change          `json:"changes,omitempty"`
	Index          string            `json:"index,omitempty"`
	SideTables     map[string]string `json:"sideTables,omitempty"`
	Untyped        int               `json:"untyped,omitempty"` // lease rows without entityType
	Others         int               `json:"others,omitempty"`  // rows that nobody knows
	Streams        []string          `json:"streams,omitempty"`
	Billing        string            `json:"billing,omitempty"`
}

// Leader is the lock row.
type Leader struct {
	Owner    string   `json:"owner"`
	Table    string   `json:"table,omitempty"`
	Duration float64  `json:"duration"` // seconds
	Version  string   `json:"version,omitempty"`
	Silence  *Silence `json:"silence,omitempty"`
}

// Change is an entry of the history that the KCL keeps of a migration.
type Change struct {
	Row   string    `json:"row"`
	Value string    `json:"value"`
	By    string    `json:"by,omitempty"`
	At    time.Time `json:"at,omitzero"`
}

// Kinds of worker.
const (
	Ours = "ours"
	Java = "java"
)

// States of a lease.
const (
	Free  = "free"
	Held  = "held"
	Ended = "ended"
)

// Core are the leases as they were read.
func (r *Report) Core() []core.Lease {
	out := make([]core.Lease, len(r.Leases))
	for i := range r.Leases {
		out[i] = r.Leases[i].lease
	}
	return out
}
