package dynamo

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// intoOneTable is the way from the three tables of KCL 3.0 to 3.4 into one, in the stages that a leader of KCL 3.5 goes by itself
// (docs/reference/kcl.md 2.6). Ours goes none by itself.
func (p *planner) intoOneTable() {
	tm := tableMigration(p.v.TableMigration)
	st := p.state(keyTables, attrTables)
	set := func(to tableMigration, why string) {
		p.step(fmt.Sprintf("set row %s of table %s from %s to %s: %s", keyTables, st.table, cmpOrNone(string(tm)), to, why), func(ctx context.Context) error {
			return p.s.setState(ctx, st, string(to))
		})
	}
	since := milliseconds(st.seen[attrModifiedAt])
	switch tm {
	case "":
		p.supported()
		set(migrationInit, "every worker knows the layout of one table")
		p.m.Next = "plan again after an hour"
	case migrationInit:
		p.supported()
		p.after(since.Add(deployAfter), "every worker must have known the layout for an hour")
		set(migrationDeployed, "workers may be started for one table from then on")
		p.m.Next = "start every worker again with layout kcl3-single (Java's with migrateAllEntitiesToLeaseTable), then plan again"
	case migrationDeployed:
		p.moved()
		p.moveRows()
		set(migrationPending, "the coordinator's rows, but for the lock, are among the leases")
		p.m.Next = "plan again after a day; until then it can be taken back by starting workers with layout kcl3-tables"
	case migrationPending:
		if back := p.reappeared(); len(back) > 0 {
			set(migrationDeployed, fmt.Sprintf("%v came back in the old tables", back))
			return
		}
		p.after(since.Add(bakeFor), "a day must pass in which nothing comes back in the old tables")
		p.step(fmt.Sprintf("set row %s to %s in tables %s and %s, for good: the lock moves too", keyTables, migrationComplete, st.table, p.s.table), func(ctx context.Context) error {
			return p.s.completeTables(ctx, st)
		})
		p.m.Next = fmt.Sprintf("once every worker has followed, tables %s and %s can be deleted", p.s.coordinatorName(), p.s.metricsName())
	}
}

func (p *planner) after(t time.Time, why string) {
	if p.now.Before(t) {
		p.refuse("not before %s: %s", t.UTC().Format(time.RFC3339), why)
	}
}

// supported refuses while a worker that owns leases does not say that it knows the layout of one table.
func (p *planner) supported() {
	live := p.live()
	for _, id := range p.owners() {
		if !slices.ContainsFunc(live[id], func(w WorkerMetrics) bool {
			return w.Support >= 1 && !w.SupportAt.Before(w.Updated.Add(-3*p.s.metricsEvery))
		}) {
			p.refuse("worker %s owns leases and does not say that it knows the layout of one table: replace it by a KCL of 3.5 or later, or by one of ours", id)
		}
	}
}

// moved refuses while rows of live workers are not where they will be.
func (p *planner) moved() {
	live := p.live()
	for _, id := range p.owners() {
		if len(live[id]) == 0 {
			p.refuse("worker %s owns leases and has no row of the last minute", id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(live)) {
		if slices.ContainsFunc(live[id], func(w WorkerMetrics) bool { return w.Table != p.s.table }) {
			p.refuse("worker %s still writes its row into table %s: start it again with layout kcl3-single (Java's with migrateAllEntitiesToLeaseTable)", id, p.s.metricsName())
		}
	}
}

// reappeared are the workers and rows that were written into the old tables after the move.
func (p *planner) reappeared() (names []string) {
	live := p.live()
	for _, id := range slices.Sorted(maps.Keys(live)) {
		if slices.ContainsFunc(live[id], func(w WorkerMetrics) bool { return w.Table != p.s.table }) {
			names = append(names, string(id))
		}
	}
	return append(names, p.movable()...)
}

func (p *planner) movable() (keys []string) {
	for _, key := range slices.Sorted(maps.Keys(p.v.found.side)) {
		if key != keyLeader && key != keyTables {
			keys = append(keys, key)
		}
	}
	return keys
}

// rowsAtOnce is how many rows one transaction moves, as the KCL's do.
const rowsAtOnce = 25

// moveRows copies the coordinator's rows to the leases and deletes them, in one transaction each time, while the leader stays who it is.
func (p *planner) moveRows() {
	for keys := range slices.Chunk(p.movable(), rowsAtOnce) {
		p.step(fmt.Sprintf("move rows %q from table %s to table %s", keys, p.s.coordinatorName(), p.s.table), func(ctx context.Context) error {
			items := []types.TransactWriteItem{p.leaderStays()}
			for _, key := range keys {
				items = append(items, p.moveRow(key)...)
			}
			return p.s.transact(ctx, items)
		})
	}
}

func (p *planner) leaderStays() types.TransactWriteItem {
	e := newExpression()
	if owner := p.v.found.side[keyLeader][attrLockOwner]; owner != nil {
		e.requireEqual(attrLockOwner, owner)
	} else {
		e.require("attribute_not_exists(%s)", e.name(attrLockOwner))
	}
	return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
		TableName: new(p.s.coordinatorName()), Key: Attributes{attrSideKey: text(keyLeader)},
		ConditionExpression: e.condition(), ExpressionAttributeNames: e.attributeNames(), ExpressionAttributeValues: e.placeholders(),
	}}
}

func (p *planner) moveRow(key string) []types.TransactWriteItem {
	old := p.v.found.side[key]
	row := maps.Clone(old)
	delete(row, attrSideKey)
	row[attrKey] = text(key)
	if row[attrEntity] == nil && key == keyVersion { // those of 3.0 to 3.4 carry no type
		row[attrEntity] = text(entityVersion)
	}
	fresh := newExpression()
	fresh.require("attribute_not_exists(%s)", fresh.name(attrKey))
	same := newExpression()
	if at := old[attrModifiedAt]; at != nil {
		same.requireEqual(attrModifiedAt, at)
	}
	return []types.TransactWriteItem{
		{Put: &types.Put{TableName: &p.s.table, Item: row, ConditionExpression: fresh.condition(), ExpressionAttributeNames: fresh.attributeNames()}},
		{Delete: &types.Delete{
			TableName: new(p.s.coordinatorName()), Key: Attributes{attrSideKey: text(key)},
			ConditionExpression: same.condition(), ExpressionAttributeNames: same.attributeNames(), ExpressionAttributeValues: same.placeholders(),
		}},
	}
}

// completeTables says in both tables at once that there is one table from then on.
func (s *Store) completeTables(ctx context.Context, st state) error {
	row := st.next(string(migrationComplete), time.Now())
	among := maps.Clone(row)
	delete(among, attrSideKey)
	among[attrKey], among[attrEntity] = text(keyTables), text(entityTables)
	same := newExpression()
	st.same(same)
	fresh := newExpression()
	fresh.require("(attribute_not_exists(%s) OR %s <> %s)", fresh.name(attrKey), fresh.name(attrTables), fresh.value(text(string(migrationComplete))))
	err := s.transact(ctx, []types.TransactWriteItem{
		{Put: &types.Put{TableName: &st.table, Item: row, ConditionExpression: same.condition(), ExpressionAttributeNames: same.attributeNames(), ExpressionAttributeValues: same.placeholders()}},
		{Put: &types.Put{TableName: &s.table, Item: among, ConditionExpression: fresh.condition(), ExpressionAttributeNames: fresh.attributeNames(), ExpressionAttributeValues: fresh.placeholders()}},
	})
	return s.orDone(ctx, st, string(migrationComplete), err)
}

func (s *Store) transact(ctx context.Context, items []types.TransactWriteItem) error {
	_, err := call(ctx, s, once("TransactWriteItems"), s.client.TransactWriteItems, &dynamodb.TransactWriteItemsInput{TransactItems: items})
	return err
}
