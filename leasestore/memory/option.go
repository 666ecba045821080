package memory

// Option changes what a table can do, so that callers can be tried against tables that can do less. The default is a table that can do
// everything.
type Option func(*table)

// Pages lets List and Look read n rows at a time, as real tables are read: rows of different pages are of different instants, and each page
// is a call of its own to faults and counts. Default 0: all rows in one page.
func Pages(n int) Option { return func(t *table) { t.page = n } }

// Shuffled gives listings in another order each time, from a seed. Default: by stream and shard.
func Shuffled(seed uint64) Option { return func(t *table) { t.shuffle = newDice(seed) } }

// WithoutConflictRows leaves [core.ConflictError] without the row, also where the row is gone.
func WithoutConflictRows() Option { return func(t *table) { t.noConflictRows = true } }

// WithoutReturnedRows makes Update work as on a service that does not return the row: set.Apply(seen) under SameCounter, else a second call
// (a Get) reads it.
func WithoutReturnedRows() Option { return func(t *table) { t.noReturnedRows = true } }

// WithoutStarts makes a table that cannot hold the instant of a start ([core.StartHolder]): rows at Latest or at a time, and start instants,
// are refused as invalid.
func WithoutStarts() Option { return func(t *table) { t.noStarts = true } }
