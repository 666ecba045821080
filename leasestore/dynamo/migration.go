package dynamo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardwarden/shardwarden/core"
)

// Migration is what it takes to bring a table, and with it the fleet, to another layout or other rules, as far as that goes at the moment: some ways
// are gone in stages, with workers following in between, and are planned anew at each. [Store.PlanMigration] makes it.
type Migration struct {
	From, To LayoutKind
	Steps    []MigrationStep
	Refused  []string // why it can't be done now, each with what to do; then there are no steps
	// Next is what comes after the steps, "" where that was all.
	Next string
}

// MigrationStep is one write, or one wait.
type MigrationStep struct {
	Text string
	do   func(context.Context) error
}

// Bounds of the KCL's own migrations (docs/reference/kcl.md 2.6).
const (
	deployAfter = time.Hour
	bakeFor     = 24 * time.Hour
)

// PlanMigration works out how the table gets to a layout: KCL2, for rules by which every worker takes; KCL3Tables or KCL3Single, for a leader that
// assigns. It writes nothing. Where rows can only be removed while nobody uses the table it watches it for 35 seconds. Both ways the KCL's own rows
// say what is going on, so that Java's workers follow (docs/reference/kcl.md 2.6, 2.7), and with Auto ours.
func (s *Store) PlanMigration(ctx context.Context, to LayoutKind) (Migration, error) {
	v, err := s.view(ctx)
	if err != nil {
		return Migration{}, err
	}
	p := &planner{s: s, v: v, m: Migration{From: v.Layout, To: to}, now: time.Now()}
	switch {
	case !v.Exists:
		p.refuse("table %s does not exist: a worker makes it in the layout it is started with", s.table)
	case v.Regime == "":
		p.refuse("its state is not known: %s", v.Why)
	case v.found.coordinator == unknown:
		p.refuse("table %s may not be described, and may be that of a KCL 3.0 to 3.4: allow dynamodb:DescribeTable on it", s.coordinatorName())
	case to == KCL2:
		err = p.toTakers(ctx)
	case to == KCL3Tables || to == KCL3Single:
		p.toLeader()
	default:
		err = fmt.Errorf("migration to layout %s: say %s, %s or %s: %w", to, KCL2, KCL3Tables, KCL3Single, core.ErrInvalid)
	}
	if len(p.m.Refused) > 0 {
		p.m.Steps, p.m.Next = nil, ""
	}
	return p.m, err
}

// Migrate carries a plan out, one step after the other, and tells did of each that is done. Each is conditional on what the plan saw, and one that is
// already done is no error, so a plan that was cut off can be made and run again.
func (s *Store) Migrate(ctx context.Context, m Migration, did func(MigrationStep)) error {
	if len(m.Refused) > 0 {
		return fmt.Errorf("table %s can't be brought to %s now: %s: %w", s.table, m.To, strings.Join(m.Refused, "; "), core.ErrConflict)
	}
	for _, step := range m.Steps {
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.Text, err)
		}
		if did != nil {
			did(step)
		}
	}
	return nil
}

type planner struct {
	s   *Store
	v   *view
	m   Migration
	now time.Time
}

func (p *planner) step(text string, do func(context.Context) error) {
	p.m.Steps = append(p.m.Steps, MigrationStep{text, do})
}

func (p *planner) refuse(format string, args ...any) {
	p.m.Refused = append(p.m.Refused, fmt.Sprintf(format, args...))
}

// aside reports whether the coordinator has a table of its own that counts.
func (p *planner) aside() bool { return p.v.standing.phase != oneTable }

// state is a row of the coordinator as it stands, or where it would be made.
func (p *planner) state(key, attr string) state {
	lease := state{table: p.s.table, keyAttr: attrKey, key: key, attr: attr, seen: p.v.found.rows[key]}
	side := state{table: p.s.coordinatorName(), keyAttr: attrSideKey, key: key, attr: attr, seen: p.v.found.side[key]}
	if !p.aside() || p.v.standing.phase == moving && key == keyVersion && side.seen == nil {
		return lease
	}
	return side
}

func (p *planner) setVersion(to clientVersion, why string) {
	st := p.state(keyVersion, attrVersion)
	p.step(fmt.Sprintf("set row %s of table %s from %s to %s: %s", keyVersion, st.table, cmpOrNone(p.v.ClientVersion), to, why), func(ctx context.Context) error {
		return p.s.setState(ctx, st, string(to))
	})
}

func cmpOrNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// toTakers is the way to the rules of KCL 2.x, as Java's KclMigrationTool goes it, and to a table that a KCL 2.x can read.
func (p *planner) toTakers(ctx context.Context) error {
	cv := clientVersion(p.v.ClientVersion)
	if cv == versionUpgrade || cv == version3Or2 {
		p.setVersion(version2, "every worker takes leases from then on; all follow within a minute and a half")
		p.dropIndex()
		if !p.aside() {
			p.m.Next = "a KCL older than 3.5 fails on row " + keyVersion + ", which must stay while workers of 3.5 run: to go on with an older one, stop every worker and plan again"
		}
		return nil
	}
	if !p.needsQuiet(cv) {
		return nil
	}
	busy, err := p.busy(ctx)
	if err != nil {
		return err
	}
	switch {
	case len(busy) == 0:
		p.clear(cv)
		p.dropIndex()
	case cv == version2:
		p.m.Next = fmt.Sprintf("the rules are those of 2.x already. A KCL older than 3.5 fails on the rows of 3.5 in the table: to go on with an older one, stop every worker (%s changed just now) and plan again", strings.Join(busy, ", "))
	case cv == version3:
		p.refuse("row %s says %s, which a running worker never goes back from: stop every worker first (%s changed just now)", keyVersion, cv, strings.Join(busy, ", "))
	default:
		p.refuse("the table has rows that a KCL older than 3.5 fails on, and workers that use them: stop every worker, or run them with layout kcl2, first (%s changed just now)", strings.Join(busy, ", "))
	}
	return nil
}

// needsQuiet reports whether anything is left to do, which then takes a table that nobody uses.
func (p *planner) needsQuiet(cv clientVersion) bool {
	among := slices.ContainsFunc(p.v.Workers, func(w WorkerMetrics) bool { return w.Table == p.s.table })
	return cv == version3 || len(p.v.found.rows) > 0 || among || !p.aside() && p.v.Leases > p.v.Untyped || p.v.standing.regime == kcl3
}

// busy names the rows that change while it watches.
func (p *planner) busy(ctx context.Context) (changed []string, err error) {
	before, err := p.s.everySign(ctx, p.v)
	if err != nil {
		return nil, err
	}
	t := time.NewTimer(p.s.metricsEvery + 5*time.Second) // a worker that owns nothing writes its row so seldom
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	after, err := p.s.everySign(ctx, p.v)
	if err != nil {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if before[key] != after[key] {
			changed = append(changed, key)
		}
	}
	return changed, nil
}

// everySign is what of each row shows that somebody lives, in all tables.
func (s *Store) everySign(ctx context.Context, v *view) (map[string]string, error) {
	out, err := s.signs(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{s.coordinatorName(), s.metricsName()} {
		if v.SideTables[name] != string(types.TableStatusActive) {
			continue
		}
		rows, err := s.scanTable(ctx, name)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			out[name+" "+plain(row[attrSideKey])+plain(row[attrMetricKey])] = sign(row)
		}
	}
	return out, nil
}

// clear takes from the leases what a KCL 2.x fails on, the word on the rules last. Beside them it may stay, and says what the rules are now.
func (p *planner) clear(cv clientVersion) {
	if n := p.v.Leases - p.v.Untyped; n > 0 {
		p.step(fmt.Sprintf("take %s off %d leases: a table whose leases have none is known to be one of KCL 2.x", attrEntity, n), p.s.untypeLeases)
	}
	for _, w := range p.v.Workers {
		if w.Table == p.s.table {
			p.step(fmt.Sprintf("delete the row of worker %s, last written at %s", w.ID, w.Updated.Format(time.RFC3339)), func(ctx context.Context) error {
				return p.s.removeWorker(ctx, among, w.ID, number(w.Updated.Unix()))
			})
		}
	}
	for _, of := range []struct{ key, attr string }{{keyLeader, attrLockVersion}, {keyTables, attrTables}, {keyVersion, attrVersion}} {
		st := state{table: p.s.table, keyAttr: attrKey, key: of.key, attr: of.attr, seen: p.v.found.rows[of.key]}
		if st.seen != nil {
			p.step(fmt.Sprintf("delete row %s of table %s", st.key, st.table), func(ctx context.Context) error { return p.s.deleteState(ctx, st) })
		}
	}
	if p.aside() && cv != version2 {
		p.setVersion(version2, "for workers of KCL 3.x and of ours that come back")
	}
}

// untypeLeases makes leases of KCL 3.5 ones of KCL 2.x, which differ in this alone.
func (s *Store) untypeLeases(ctx context.Context) error {
	rows, err := s.scanTable(ctx, s.table)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if kindOf(row) != isLease || row[attrEntity] == nil {
			continue
		}
		e := newExpression()
		e.requireEqual(attrEntity, text(entityLease))
		e.drop(attrEntity)
		_, err := call(ctx, s, once("UpdateItem"), s.client.UpdateItem, &dynamodb.UpdateItemInput{
			TableName: &s.table, Key: Attributes{attrKey: row[attrKey]}, ConditionExpression: e.condition(), UpdateExpression: e.update(),
			ExpressionAttributeNames: e.attributeNames(), ExpressionAttributeValues: e.placeholders(),
		})
		if err != nil && !errors.Is(err, core.ErrConflict) { // gone, or done
			return err
		}
	}
	return nil
}

func (p *planner) dropIndex() {
	if p.v.Index != "" {
		p.step("delete index "+ownerIndex+", which costs a write with each change of owner and which only the KCL 3.x reads", p.s.deleteIndex)
	}
}

// toLeader is the way to the rules of KCL 3.x, as its own workers go it: first all say that they live and are ready, then one leads.
func (p *planner) toLeader() {
	cv := clientVersion(p.v.ClientVersion)
	led := cv == version3 || cv == version3Or2
	switch {
	case p.m.To == KCL3Single && p.aside():
		if !led {
			p.refuse("its rules are those of %s: bring it to kcl3-tables first", p.v.Regime)
			return
		}
		p.intoOneTable()
		return
	case p.m.To == KCL3Tables && !p.aside() && (p.v.found.rows[keyVersion] != nil || p.v.TableMigration == string(migrationComplete)):
		p.refuse("it has everything in one table, as KCL 3.5 and later, and there is no way back into three")
		return
	case led:
		return
	}
	if cv == versionUpgrade {
		p.ready()
		p.awaitIndex()
		p.setVersion(version3Or2, "one worker leads from then on; all follow within a minute and a half")
		p.m.Next = "it can be taken back (to kcl2) until a Java worker is started with its default, CLIENT_VERSION_CONFIG_3X, which makes it final"
		return
	}
	if p.m.To == KCL3Single && cv == "" {
		p.noOlder()
	}
	if p.m.To == KCL3Tables && p.v.found.coordinator == absent {
		p.step(fmt.Sprintf("create tables %s and %s", p.s.coordinatorName(), p.s.metricsName()), p.s.makeSideTables)
		p.v.found.coordinator, p.v.standing.phase = present, threeTables // as it is by the next step
	}
	p.awaitIndex()
	p.setVersion(versionUpgrade, "workers of 3.x and ours with layout auto say that they live from then on, and go on taking")
	p.m.Next = "once every worker that owns leases has a row (within two minutes), plan again: then one leads"
}

// owners are the workers that own leases.
func (p *planner) owners() []core.WorkerID {
	out := map[core.WorkerID]bool{}
	for _, row := range p.v.leases {
		if l, err := decodeLease(row, p.v.standing.regime == kcl2); err == nil && l.Owner != core.Nobody {
			out[l.Owner] = true
		}
	}
	return slices.Sorted(maps.Keys(out))
}

// live are the rows of workers that were written lately, by the clock of the newest and by ours.
func (p *planner) live() map[core.WorkerID][]WorkerMetrics {
	newest := time.Time{}
	for _, w := range p.v.Workers {
		if w.Updated.After(newest) {
			newest = w.Updated
		}
	}
	if newest.After(p.now) {
		newest = p.now
	}
	out := map[core.WorkerID][]WorkerMetrics{}
	for _, w := range p.v.Workers {
		if !w.Updated.Before(newest.Add(-p.s.staleness())) && !w.Updated.Before(p.now.Add(-p.s.staleness()-time.Minute)) {
			out[w.ID] = append(out[w.ID], w)
		}
	}
	return out
}

// ready refuses while a worker that owns leases does not say that it lives: it would be given nothing, and may be a taker of 2.x.
func (p *planner) ready() {
	live := p.live()
	for _, id := range p.owners() {
		if len(live[id]) == 0 {
			p.refuse("worker %s owns leases and has no row of the last minute: if it is a KCL 2.x replace it by one of 3.x with CLIENT_VERSION_CONFIG_COMPATIBLE_WITH_2X or by one of ours with layout auto; if it is dead wait until its leases are taken", id)
		}
	}
}

// noOlder refuses where a worker may be of a KCL that fails on the rows of 3.5 among the leases.
func (p *planner) noOlder() {
	live := p.live()
	ours := map[core.WorkerID]bool{}
	for _, row := range p.v.leases {
		if l, err := decodeLease(row, true); err == nil && l.Run != "" {
			ours[l.Owner] = true
		}
	}
	for _, id := range p.owners() {
		if !ours[id] && len(live[id]) == 0 {
			p.refuse("worker %s owns leases and may be a KCL older than 3.5, which fails on rows of other kinds: stop it, or take kcl3-tables", id)
		}
	}
}

func (p *planner) awaitIndex() {
	switch p.v.Index {
	case string(types.IndexStatusActive):
	case "":
		p.step("create index "+ownerIndex+" and wait until it can be used", func(ctx context.Context) error {
			t, err := p.s.describeTable(ctx, p.s.table)
			if err == nil && indexStatus(t) == "" {
				err = p.s.createIndex(ctx, t)
			}
			if err != nil {
				return err
			}
			return p.s.waitForIndex(ctx)
		})
	default:
		p.step("wait until index "+ownerIndex+" can be used", p.s.waitForIndex)
	}
}
