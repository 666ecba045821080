package dynamo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardwarden/shardwarden/core"
)

// Rows of the KCL's coordinator (docs/reference/kcl.md 2.1): in a table of their own, whose key is attrSideKey, or among the leases.
const (
	keyLeader  = "Leader"
	keyVersion = "Migration3.0"
	keyTables  = "TableMigration3.5"

	attrSideKey   = "key" // S, the partition key of the coordinator's table
	attrMetricKey = "wid" // S, that of the table of workers' metrics

	attrVersion    = "cv" // S, which rules: a clientVersion
	attrTables     = "tm" // S, how far the way into one table is: a tableMigration
	attrModifiedBy = "mb"
	attrModifiedAt = "mts" // N, ms
	attrHistory    = "h"   // L of M, newest first
)

// coordinatorRows are such rows by key.
type coordinatorRows map[string]Attributes

// text is a column of one of them, empty where there is no such row or column.
func (c coordinatorRows) text(key, attr string) string { return plain(c[key][attr]) }

// clientVersion says by which rules leases change hands.
type clientVersion string

const (
	versionUpgrade  clientVersion = "CLIENT_VERSION_UPGRADE_FROM_2X"
	version2        clientVersion = "CLIENT_VERSION_2X"
	version3Or2     clientVersion = "CLIENT_VERSION_3X_WITH_ROLLBACK"
	version3        clientVersion = "CLIENT_VERSION_3X"
	expectedVersion               = string(versionUpgrade + ", " + version2 + ", " + version3Or2 + " or " + version3)
)

// tableMigration says where a KCL of 3.5 or later has its rows that are no leases.
type tableMigration string

const (
	migrationPrefix                  = "TABLE_MIGRATION_STATUS_"
	migrationInit     tableMigration = migrationPrefix + "INIT"
	migrationDeployed tableMigration = migrationPrefix + "DEPLOYED"
	migrationPending  tableMigration = migrationPrefix + "PENDING"
	migrationComplete tableMigration = migrationPrefix + "COMPLETE"
	expectedMigration                = string(migrationInit + ", " + migrationDeployed + ", " + migrationPending + " or " + migrationComplete)
)

// sideEvery is how often the coordinator's own table is asked, as Java's workers do while the rules may change (docs/reference/kcl.md 2.7).
const sideEvery = time.Minute

// sideWait bounds that: a reading of the leases does not wait for a coordinator's table that does not answer.
const sideWait = 2 * time.Second

// findCoordinator looks for the table of KCL 3.0 to 3.4. Not being allowed to is no reason not to start in a table of ours: the answer is then the
// safe one. With Java workers the answer decides where rows go, so it must be known.
func (s *Store) findCoordinator(ctx context.Context) error {
	name := s.coordinatorName()
	t, err := s.describeTable(ctx, name)
	pause := pauses{next: firstPause}
	for s.kind != Native && err == nil && t.TableStatus == types.TableStatusCreating { // what it will say is not known before
		if err := pause.wait(ctx); err != nil {
			return err
		}
		t, err = s.describeTable(ctx, name)
	}
	found := present
	switch {
	case err == nil:
	case errors.Is(err, core.ErrNotFound):
		found = absent
	case s.kind != Native && s.kind != KCL2:
		return err
	case errors.Is(err, core.ErrDenied), errors.Is(err, core.ErrInvalid):
		found = unknown
	default:
		return err
	}
	s.mu.Lock()
	s.found.coordinator = found
	s.mu.Unlock()
	if found == unknown {
		s.log.Info("cannot tell whether a KCL older than 3.5 uses the application name", "table", name, "err", err)
	}
	return nil
}

// askCoordinator reads what the coordinator's own table says, and whether there is one.
func (s *Store) askCoordinator(ctx context.Context) error {
	rows := coordinatorRows{}
	found := present
	for _, key := range []string{keyVersion, keyTables} {
		row, err := s.readRow(ctx, s.coordinatorName(), attrSideKey, key)
		if errors.Is(err, core.ErrNotFound) && missingTable(err) {
			found = absent
			break
		}
		if err != nil && !errors.Is(err, core.ErrNotFound) {
			return err
		}
		if err == nil {
			rows[key] = row
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found.coordinator, s.found.side, s.askedAt = found, rows, time.Now()
	return nil
}

// askIfDue asks the coordinator's own table now and then, beside a reading of the leases. What is known stays where that fails.
func (s *Store) askIfDue(ctx context.Context) {
	s.mu.Lock()
	needless := s.kind == Native || s.kind == KCL2 && s.found.coordinator == unknown // denied at the start, and then nothing hangs on it
	due := !needless && time.Since(s.askedAt) >= sideEvery && tableMigration(s.found.side.text(keyTables, attrTables)) != migrationComplete
	s.mu.Unlock()
	if !due {
		return
	}
	askCtx, cancel := context.WithTimeout(ctx, sideWait)
	defer cancel()
	if err := s.askCoordinator(askCtx); ctx.Err() == nil {
		s.complain("the KCL's coordinator can't be asked, and all stays as it is", err)
	}
}

// readRow reads a row of any table, strongly consistent.
func (s *Store) readRow(ctx context.Context, table, keyAttr, key string) (Attributes, error) {
	out, err := call(ctx, s, operation{name: "GetItem", table: table}, s.client.GetItem, &dynamodb.GetItemInput{
		TableName: &table, Key: Attributes{keyAttr: text(key)}, ConsistentRead: new(true),
	})
	if err != nil {
		return nil, err
	}
	if len(out.Item) == 0 {
		return nil, fmt.Errorf("table %s: row %s: %w", table, key, core.ErrNotFound)
	}
	return out.Item, nil
}

func (s *Store) coordinatorName() string {
	if s.coordinatorTable != "" {
		return s.coordinatorTable
	}
	return s.app + "-CoordinatorState"
}

func (s *Store) metricsName() string {
	if s.metricsTable != "" {
		return s.metricsTable
	}
	return s.app + "-WorkerMetricStats"
}
