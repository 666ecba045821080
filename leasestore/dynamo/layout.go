package dynamo

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardwarden/shardwarden/core"
)

// regime is by which rules leases change hands (docs/reference/kcl.md V7).
type regime string

const (
	native regime = "native" // ours: workers ask each other
	kcl2   regime = "kcl2"   // every worker takes
	kcl3   regime = "kcl3"   // one assigns
)

// phase is where the rows that are no leases stand (docs/reference/kcl.md 2.5).
type phase uint8

const (
	oneTable    phase = iota // among the leases
	threeTables              // in the side tables; both are read
	moving                   // among the leases, but for the lock; both are read
)

// standing is what a store does, by what it has found.
type standing struct {
	found  LayoutKind // never Auto
	regime regime
	why    string // what the regime was told by
	phase  phase

	announce bool // workers have rows
	silent   string
	typed    bool // leases are created with an entityType
	leads    bool
}

// lockAside and workersAside say in which table the lock is, and where rows of workers are written; leases are never aside.
func (st *standing) lockAside() bool    { return st.phase != oneTable }
func (st *standing) workersAside() bool { return st.phase == threeTables }

// judge works out what to do. was is the regime so far. An error is a state that nothing is known about: then all stays as it is.
func (f *findings) judge(want LayoutKind, coordinator string, was regime) (standing, error) {
	ours, why := f.foreignRows(coordinator)
	if want == Native {
		return standing{found: Native, regime: native, announce: ours, silent: why, typed: f.typedRows(), leads: ours}, nil
	}
	var st standing
	var err error
	if st.phase, err = f.phase(want, coordinator); err != nil {
		return st, err
	}
	version, table := f.version(st.phase)
	if st.regime, st.why, err = f.regime(want, version, coordinator, was); err != nil {
		return st, fmt.Errorf("%s row %s: %w", table, keyVersion, err)
	}
	st.found = f.layout(&st)

	st.typed = want == KCL3Single || want != KCL2 && want != KCL3Tables && st.phase != threeTables && (f.typed || st.regime != kcl2 && f.typedRows())
	among := f.typed || !f.untyped && f.coordinator != unknown // rows of workers may stand among the leases
	switch {
	case want == KCL2:
		st.silent = "the layout kcl2 has leases only"
	case st.regime == native:
		st.announce, st.silent = ours, why
	case st.regime == kcl2 && version != versionUpgrade:
		st.silent = "each worker takes leases for itself, and is counted by those it owns"
	case st.phase == oneTable && !among:
		st.silent = untypedLeases
	default:
		st.announce = true
	}
	st.leads = want != KCL2 && (st.regime == kcl3 || st.regime == native) && (st.phase != oneTable || among)
	return st, nil
}

func (f *findings) phase(want LayoutKind, coordinator string) (phase, error) {
	if f.coordinator != present {
		return oneTable, nil
	}
	switch tm := tableMigration(f.side.text(keyTables, attrTables)); tm {
	case "", migrationInit:
		if want == KCL3Single {
			return 0, fmt.Errorf("layout kcl3-single: there is a table %s of KCL 3.0 to 3.4, and its row %s does not say that every worker is ready for one table (it is %q): take Auto or kcl3-tables until the KCL has moved (migrateAllEntitiesToLeaseTable), or delete the table if nobody uses it: %w",
				coordinator, keyTables, tm, core.ErrInvalid)
		}
		return threeTables, nil
	case migrationDeployed:
		if want == KCL3Single { // as a Java worker with migrateAllEntitiesToLeaseTable
			return moving, nil
		}
		return threeTables, nil
	case migrationPending:
		if want == KCL3Tables { // as one without
			return threeTables, nil
		}
		return moving, nil
	case migrationComplete:
		return oneTable, nil
	default:
		return 0, fmt.Errorf("table %s row %s: %s is %q: expected %s; this version does not know it, so nothing is changed by it: %w", coordinator, keyTables, attrTables, clip(string(tm)), expectedMigration, core.ErrInvalid)
	}
}

// version is what the row Migration3.0 says, and in which table; it moves from one to the other while tables become one.
func (f *findings) version(p phase) (v clientVersion, table string) {
	first, second, names := f.side, f.rows, [2]string{"coordinator's", "lease table's"}
	if p != threeTables {
		first, second, names = f.rows, f.side, [2]string{"lease table's", "coordinator's"}
	}
	if v := clientVersion(first.text(keyVersion, attrVersion)); v != "" || p == oneTable {
		return v, names[0]
	}
	return clientVersion(second.text(keyVersion, attrVersion)), names[1]
}

func (f *findings) regime(want LayoutKind, v clientVersion, coordinator string, was regime) (regime, string, error) {
	switch v {
	case version3, version3Or2:
		return kcl3, fmt.Sprintf("row %s says %s", keyVersion, v), nil
	case version2, versionUpgrade:
		return kcl2, fmt.Sprintf("row %s says %s", keyVersion, v), nil
	case "":
	default:
		return "", "", fmt.Errorf("%s is %q: expected %s; this version does not know it, so the rules stay as they are: %w", attrVersion, clip(string(v)), expectedVersion, core.ErrInvalid)
	}
	switch {
	case want == KCL2:
		return kcl2, "the layout is kcl2", nil
	case want == KCL3Tables, want == KCL3Single:
		return kcl3, "the layout is " + want.String(), nil
	case was == kcl3: // only that row takes it back, as with Java's workers
		return kcl3, "so it was before, and no row " + keyVersion + " says otherwise", nil
	case f.coordinator == present && tableMigration(f.side.text(keyTables, attrTables)) != migrationComplete:
		return kcl3, "there is a table " + coordinator, nil
	case f.rows[keyLeader] != nil:
		return kcl3, "there is a row " + keyLeader, nil
	case f.java:
		return kcl3, "there are rows of Java's workers", nil
	case f.untyped:
		return kcl2, "there are leases of a KCL older than 3.5 and nothing of a newer one", nil
	case f.taken:
		return kcl2, "leases were taken by workers of another library, and nothing says that one assigns them", nil
	}
	return native, "there is nothing of the KCL", nil
}

// layout is what a tool shows as the layout found.
func (f *findings) layout(st *standing) LayoutKind {
	switch {
	case st.phase != oneTable:
		return KCL3Tables
	case st.regime == native:
		return Native
	case st.regime == kcl2 && !f.typed:
		return KCL2
	}
	return KCL3Single
}

// contradicts says why a table can't be what the layout says it is. It is asked at the start, before anything is made of the table.
func (f *findings) contradicts(want LayoutKind, table, coordinator string, st *standing) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("table %s, layout %s: %s: %w", table, want, fmt.Sprintf(format, args...), core.ErrInvalid)
	}
	mine := f.rows[keyVersion] != nil || f.rows[keyLeader] != nil || f.java
	switch {
	case want == KCL2 && st.regime == kcl3:
		return refuse("%s: its leases are assigned by a leader, which a worker that takes for itself would work against; take Auto, or roll the fleet back (leases migrate --to kcl2)", st.why)
	case want == KCL3Tables && f.coordinator != present && mine:
		return refuse("it has everything in one table, as KCL 3.5 and later; a table %s would mislead their workers; take Auto or kcl3-single", coordinator)
	case want == KCL3Tables && f.coordinator == present && st.phase == oneTable:
		return refuse("it has moved into one table (%s says %s); take Auto or kcl3-single", keyTables, migrationComplete)
	case (want == KCL3Tables || want == KCL3Single) && f.coordinator != present && f.untyped && !f.typed:
		return refuse("its leases were made by a KCL older than 3.5, and nothing says that its workers are gone; take Auto or kcl2, or take the fleet over (leases migrate --to kcl3)")
	}
	return nil
}

// rejudge works out anew what to do after something was found. It says once what is new.
func (s *Store) rejudge() error {
	const about = "its state is not known, and all stays as it is"
	s.mu.Lock()
	st, err := s.found.judge(s.kind, s.coordinatorName(), s.standing.regime)
	if err == nil {
		s.standing = st
	}
	before := s.rules
	tell := err == nil && s.kind != Native && st.regime != before
	if tell {
		s.rules = st.regime
	}
	s.mu.Unlock()
	if err != nil {
		err = fmt.Errorf("table %s: %w", s.table, err)
		s.complain(about, err)
		return err
	}
	s.complain(about, nil)
	if tell {
		s.log.Info("rules of the lease table", "table", s.table, "regime", string(st.regime), "was", string(before), "why", st.why)
	}
	return nil
}

// complain logs a trouble that lasts, once; nil: it is over.
func (s *Store) complain(about string, err error) {
	now := ""
	if err != nil {
		now = err.Error()
	}
	s.mu.Lock()
	news := now != s.said[about]
	s.said[about] = now
	s.mu.Unlock()
	if news && err != nil {
		s.log.Error("lease table can't be followed", "table", s.table, "what", about, "err", err)
	}
}

// SharedWith implements [core.Sharer]: by the rules that the last complete reading showed, or [Store.Prepare]. nil in the native layout.
func (s *Store) SharedWith() *core.Foreigners {
	if s.kind == Native {
		return nil
	}
	switch st := s.now(); st.regime {
	case kcl3:
		return &core.Foreigners{Regime: string(kcl3), Led: true, KeepFinished: true, Announce: s.metricsEvery}
	case kcl2:
		return &core.Foreigners{Regime: string(kcl2), Steal: true, NoThroughput: true, KeepFinished: true, Lister: lister}
	}
	return &core.Foreigners{Regime: string(native), Steal: true, KeepFinished: true}
}

// now is how things stand.
func (s *Store) now() standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.standing
}

// stamped reports whether an ask counts only with its stamp (see attrAsked).
func (s *Store) stamped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.standing.regime == kcl2
}

// mayAnnounce reports whether worker rows may be written, and how things stand. It logs a no once.
func (s *Store) mayAnnounce() (st standing, ok bool) {
	s.mu.Lock()
	st = s.standing
	tell := !st.announce && !s.told
	s.told = !st.announce
	s.mu.Unlock()
	if tell {
		s.log.Info("workers are not announced in the lease table", "table", s.table, "why", st.silent)
	}
	return st, st.announce
}

// saw keeps what a reading tells about the table. One that is not complete can add to it only, and changes no rules.
func (s *Store) saw(r *reading, complete bool) {
	s.mu.Lock()
	if complete {
		r.marks.since(s.found.marks)
		s.rows, s.found.marks = r.rows, r.marks
	} else {
		s.found.merge(r.marks)
	}
	s.mu.Unlock()
	if complete {
		_ = s.rejudge() // it has been said; the rules stay
	}
}

// sample reads the beginning of a table that was found: whether it can be read at all, whose rows it has, and which kinds.
func (s *Store) sample(ctx context.Context) error {
	in := &dynamodb.ScanInput{TableName: &s.table, ConsistentRead: new(true), Limit: new(int32(100))}
	out, err := call(ctx, s, retried("Scan"), s.client.Scan, in)
	if err != nil {
		return err
	}
	r := newReading()
	strangers := 0
	for _, row := range out.Items {
		if kindOf(row) == isOther && row[attrEntity] == nil {
			strangers++
			continue
		}
		// Bad rows and those of other streams are for List and Get to report; here they only tell the layout.
		if err := r.add(s, row, wanted{}); err != nil {
			return err
		}
	}
	if strangers > 0 && r.rows == 0 {
		return fmt.Errorf("table %s has rows, and none is a lease (the first is %s, without %s and %s): it belongs to another application; choose another name: %w",
			s.table, describe(out.Items[0][attrKey]), attrCounter, attrCheckpoint, core.ErrInvalid)
	}
	if others := len(r.workers) + len(r.marks.rows); s.kind == KCL2 && others > 0 {
		s.log.Warn("lease table has rows that a KCL older than 3.5 fails on: before one is started, stop the workers that wrote them and remove them (leases migrate --to kcl2)", "table", s.table, "rows", others)
	}
	s.saw(r, false)
	return nil
}

// onDemand is the billing mode of tables that need no capacity.
const onDemand = string(types.BillingModePayPerRequest)
