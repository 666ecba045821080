package dynamo

import (
	"fmt"
	"maps"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardwarden/shardwarden/core"
)

// marks are what the rows of the lease table tell about who uses it.
type marks struct {
	untyped bool // lease rows without entityType: made by a KCL before 3.5
	typed   bool // rows that only KCL 3.5 and later bear
	java    bool // rows of Java's workers
	taken   bool // leases that changed hands as none of ours changes them
	rows    coordinatorRows
	// Leases whose owner has written no run yet. One of ours does with its first write; any other write of the owner is Java's.
	unrun map[string]unrun
}

type unrun struct {
	owner   string
	counter string
	java    bool
}

func newMarks() marks { return marks{rows: coordinatorRows{}, unrun: map[string]unrun{}} }

func (m *marks) merge(o marks) {
	m.untyped, m.typed, m.java, m.taken = m.untyped || o.untyped, m.typed || o.typed, m.java || o.java, m.taken || o.taken
	maps.Copy(m.rows, o.rows)
	maps.Copy(m.unrun, o.unrun)
}

// since compares with what the reading before this one found.
func (m *marks) since(before marks) {
	for k, now := range m.unrun {
		was, there := before.unrun[k]
		if there && was.owner == now.owner && (was.java || was.counter != now.counter) {
			now.java = true
			m.unrun[k], m.taken = now, true
		}
	}
}

// lease notes what a lease row tells: that Java has taken it, where its owner has not come by it in one of our ways (docs/design.md 3), each of
// which leaves sw_run and sw_ready in a certain state.
func (m *marks) lease(row Attributes) {
	m.untyped = m.untyped || row[attrEntity] == nil
	owner, current, run := plain(row[attrOwner]), plain(row[attrCurrentOwner]), plain(row[attrRun])
	if owner == "" {
		return
	}
	if current != "" && current != owner {
		if asked := plain(row[attrAsked]); asked != "" && asked != owner { // the ask was to another: the owner came after it
			m.taken = true
			return
		}
		owner = current
	}
	switch {
	case run != "":
		m.taken = m.taken || core.RunWorker(run) != core.WorkerID(owner)
	case row[attrReady] == nil: // every take of ours makes it ready
		m.taken = true
	default:
		m.unrun[plain(row[attrKey])] = unrun{owner: owner, counter: numeral(row[attrCounter])}
	}
}

// plain is the text of a column, empty where it holds none.
func plain(v types.AttributeValue) string {
	if s, ok := v.(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}

func numeral(v types.AttributeValue) string {
	if n, ok := v.(*types.AttributeValueMemberN); ok {
		return n.Value
	}
	return ""
}

// findings are all that is known about who uses the table.
type findings struct {
	coordinator presence // of the coordinator's own table, that of KCL 3.0 to 3.4
	side        coordinatorRows
	marks
}

type presence uint8

const (
	unknown presence = iota
	absent
	present
)

// Whether rows that are no leases may be written into a table that is ours as far as is known. A KCL before 3.5 breaks on any of them
// (docs/reference/kcl.md V4), and a table says only by what is in it who else may be reading it:
//
//	rows of the KCL's coordinator or of its workers        only 3.5 and later put them here           yes
//	else a lease row without entityType                    an older KCL made it                        no
//	else a table <app>-CoordinatorState, or it can't be
//	told whether there is one                              KCL 3.0 to 3.4, or a migration under way    no
//	else                                                   ours, 3.5's, or empty                       yes
//
// In a table of several streams KCL 3.5.0, too, breaks on rows that are no leases; it writes such itself, so ours change nothing.
//
// It is judged anew with each complete reading, and rows of ours are taken away again where it turns to no.
func (f *findings) foreignRows(coordinator string) (ok bool, why string) {
	switch {
	case f.typed:
		return true, ""
	case f.untyped:
		return false, untypedLeases
	case f.coordinator == present:
		return false, fmt.Sprintf("there is a table %s, so a KCL older than 3.5 may use it, which fails on rows of other kinds", coordinator)
	case f.coordinator == unknown:
		return false, fmt.Sprintf("it is not known whether there is a table %s of a KCL older than 3.5", coordinator)
	}
	return true, ""
}

const untypedLeases = "it has lease rows of a KCL older than 3.5, which fails on rows of other kinds"

// typedRows reports whether lease rows get an entityType: where those of KCL 3.5 and later have one.
func (f *findings) typedRows() bool { return f.typed || !f.untyped && f.coordinator != present }
