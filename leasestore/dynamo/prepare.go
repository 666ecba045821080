package dynamo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardwarden/shardwarden/core"
)

// tableWait is how long Prepare waits for a table that is being made, as the KCL does (docs/reference/kcl.md 1.1).
const (
	tableWait   = 10 * time.Minute
	firstPause  = 50 * time.Millisecond
	longestWait = 2 * time.Second
)

// What the service accepts as the name of a table.
var tableName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{3,255}$`)

// Prepare implements [core.LeaseStore]. It asks whether the table is there, creates it only where it is not, and waits until it can be
// used. Any number of workers may do so at once. With a table that exists neither the right to create nor the right to describe is needed.
func (s *Store) Prepare(ctx context.Context) error {
	if !tableName.MatchString(s.table) {
		return fmt.Errorf("%q can't be the name of a table: it takes 3 to 255 letters, digits, '_', '-' and '.'; choose another application name, or name a table: %w", s.table, core.ErrInvalid)
	}
	wait, cancel := context.WithTimeoutCause(ctx, tableWait, fmt.Errorf("table %s can still not be used after %v: %w", s.table, tableWait, core.ErrUnavailable))
	defer cancel()
	err := s.prepare(wait)
	switch {
	case err == nil:
		return nil
	case ctx.Err() == nil && wait.Err() != nil:
		return context.Cause(wait)
	}
	return err
}

// prepare stops at the first trouble; where that is a missing permission, the others that are missing are found out too.
func (s *Store) prepare(ctx context.Context) error {
	created, err := s.makeTable(ctx)
	if err == nil && created {
		err = s.enableRecovery(ctx)
	}
	if err == nil {
		err = s.findCoordinator(ctx)
	}
	read := err == nil
	if read {
		err = s.sample(ctx)
	}
	switch {
	case err != nil:
	case s.kind == Native:
		err = s.rejudge()
	default:
		err = s.prepareShared(ctx)
	}
	if err != nil && !lacksPermission(err) {
		return err
	}
	return s.checkPermissions(ctx, err, read)
}

// prepareShared finds out by which rules the table is shared, and refuses a layout that it can't have, before anything is made for it.
func (s *Store) prepareShared(ctx context.Context) error {
	s.mu.Lock()
	there := s.found.coordinator != absent
	s.askedAt = time.Now()
	s.mu.Unlock()
	if there {
		if err := s.askCoordinator(ctx); err != nil && (s.kind != KCL2 || !errors.Is(err, core.ErrDenied)) {
			return err
		}
	}
	for _, key := range []string{keyVersion, keyLeader} { // the sample may not have met them
		row, err := s.readRow(ctx, s.table, attrKey, key)
		if err != nil && !errors.Is(err, core.ErrNotFound) {
			return err
		}
		if err == nil {
			s.mu.Lock()
			s.found.rows[key], s.found.typed = row, true
			s.mu.Unlock()
		}
	}
	if err := s.rejudge(); err != nil {
		return err
	}
	s.mu.Lock()
	err := s.found.contradicts(s.kind, s.table, s.coordinatorName(), &s.standing)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if s.kind == KCL3Tables {
		if err := s.makeSideTables(ctx); err != nil {
			return err
		}
	}
	if s.kind == KCL3Tables || s.kind == KCL3Single {
		return s.makeIndex(ctx)
	}
	return nil
}

// makeTable returns once the table is there and can be used, and whether it was this call that created it.
func (s *Store) makeTable(ctx context.Context) (created bool, err error) {
	pause := pauses{next: firstPause}
	for {
		state, err := s.state(ctx)
		switch {
		case err != nil && !errors.Is(err, core.ErrThrottled):
			return created, err
		case state == tableReady:
			if !created {
				s.logUnused()
			}
			return created, nil
		case state == tableMissing && s.mustExist:
			return false, fmt.Errorf("table %s does not exist in region %s%s, and is not to be created: create it with the partition key %s (S): %w", s.table, s.region, s.at(), attrKey, core.ErrNotFound)
		case state == tableMissing:
			// Asking more than once does no harm: the first to ask makes it.
			switch err := s.create(ctx); {
			case err == nil:
				created = true
				continue
			case errors.Is(err, core.ErrUnavailable):
				created = true // or not: the next look shows
			case errors.Is(err, core.ErrExists), errors.Is(err, core.ErrThrottled):
			default:
				return false, err
			}
		}
		if err := pause.wait(ctx); err != nil {
			return created, err
		}
	}
}

type tableState uint8

const (
	tableMissing tableState = iota
	tableComing
	tableReady
)

// state says how far the table is, and refuses one of the wrong shape.
func (s *Store) state(ctx context.Context) (tableState, error) {
	out, err := call(ctx, s, retried("DescribeTable"), s.client.DescribeTable, &dynamodb.DescribeTableInput{TableName: &s.table})
	switch {
	case errors.Is(err, core.ErrNotFound):
		return tableMissing, nil
	case errors.Is(err, core.ErrDenied):
		return s.probe(ctx, err)
	case err != nil:
		return tableComing, err
	}
	t := out.Table
	if err := s.verify(t); err != nil {
		return tableComing, err
	}
	switch t.TableStatus {
	case types.TableStatusActive, types.TableStatusUpdating:
		s.mu.Lock()
		s.rows, s.billing = value(t.ItemCount), string(types.BillingModeProvisioned)
		if t.BillingModeSummary != nil && t.BillingModeSummary.BillingMode != "" {
			s.billing = string(t.BillingModeSummary.BillingMode)
		}
		s.mu.Unlock()
		return tableReady, nil
	case types.TableStatusCreating, types.TableStatusDeleting: // once it is gone, it is made anew
		return tableComing, nil
	case types.TableStatusInaccessibleEncryptionCredentials:
		return tableComing, fmt.Errorf("table %s: its encryption key can't be used (status %s): allow its use: %w", s.table, t.TableStatus, core.ErrDenied)
	}
	return tableComing, fmt.Errorf("table %s is in status %s: it can't hold leases: %w", s.table, t.TableStatus, core.ErrInvalid)
}

// probe finds out without the right to describe: a table that can be read is there. denied is what describing failed with.
func (s *Store) probe(ctx context.Context, denied error) (tableState, error) {
	_, err := call(ctx, s, retried("Scan"), s.client.Scan, &dynamodb.ScanInput{TableName: &s.table, Limit: new(int32(1)), ConsistentRead: new(true)})
	switch {
	case err == nil:
		s.log.Info("lease table can be read but not described; going on", "table", s.table, "err", denied)
		return tableReady, nil
	case errors.Is(err, core.ErrNotFound):
		return tableMissing, nil
	case errors.Is(err, core.ErrDenied):
		return tableComing, denied
	}
	return tableComing, err
}

func (s *Store) verify(t *types.TableDescription) error { return verifyKey(t, s.table, attrKey) }

func verifyKey(t *types.TableDescription, table, key string) error {
	kinds := map[string]types.ScalarAttributeType{}
	for _, d := range t.AttributeDefinitions {
		kinds[value(d.AttributeName)] = d.AttributeType
	}
	var is []string
	right := len(t.KeySchema) == 1
	for _, k := range t.KeySchema {
		name := value(k.AttributeName)
		is = append(is, fmt.Sprintf("%s key %s (%s)", strings.ToLower(string(k.KeyType)), name, kinds[name]))
		right = right && k.KeyType == types.KeyTypeHash && name == key && kinds[name] == types.ScalarAttributeTypeS
	}
	if right {
		return nil
	}
	return fmt.Errorf("table %s has %s: expected hash key %s (S) alone; it belongs to another application: choose another name: %w", table, strings.Join(is, " and "), key, core.ErrInvalid)
}

// create asks for the table in the layout of KCL 3.5: one table, without the index over owners, which only Java's workers read (theirs
// make it when they come).
func (s *Store) create(ctx context.Context) error {
	in := &dynamodb.CreateTableInput{
		TableName:            &s.table,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: new(attrKey), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: new(attrKey), KeyType: types.KeyTypeHash}},
		BillingMode:          types.BillingModePayPerRequest,
	}
	if s.provisioned {
		in.BillingMode = types.BillingModeProvisioned
		in.ProvisionedThroughput = &types.ProvisionedThroughput{ReadCapacityUnits: &s.readUnits, WriteCapacityUnits: &s.writeUnits}
	}
	if s.deleteProtection {
		in.DeletionProtectionEnabled = new(true)
	}
	for _, k := range slices.Sorted(maps.Keys(s.tags)) {
		in.Tags = append(in.Tags, types.Tag{Key: new(k), Value: new(s.tags[k])})
	}
	_, err := call(ctx, s, once("CreateTable"), s.client.CreateTable, in)
	if denied, ok := errors.AsType[*CallError](err); ok && errors.Is(err, core.ErrDenied) {
		denied.Hint = fmt.Sprintf("the table does not exist: %s (with tags also dynamodb:TagResource), or create it with the partition key %s (S)", s.permission(once("CreateTable")), attrKey)
	}
	return err
}

// enableRecovery switches point-in-time recovery on, which the service refuses for a moment after it made the table.
func (s *Store) enableRecovery(ctx context.Context) error {
	if !s.recovery {
		return nil
	}
	pause := pauses{next: firstPause}
	for {
		_, err := call(ctx, s, retried("UpdateContinuousBackups"), s.client.UpdateContinuousBackups, &dynamodb.UpdateContinuousBackupsInput{
			TableName:                        &s.table,
			PointInTimeRecoverySpecification: &types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: new(true)},
		})
		if _, soon := errors.AsType[*types.ContinuousBackupsUnavailableException](err); !soon {
			return err
		}
		if err := pause.wait(ctx); err != nil {
			return err
		}
	}
}

// logUnused names the options that have no effect because the table was there.
func (s *Store) logUnused() {
	var unused []string
	for _, o := range []struct {
		name string
		set  bool
	}{{"Provisioned", s.provisioned}, {"Tags", len(s.tags) > 0}, {"PointInTimeRecovery", s.recovery}, {"DeletionProtection", s.deleteProtection}} {
		if o.set {
			unused = append(unused, o.name)
		}
	}
	if len(unused) > 0 {
		s.log.Info("lease table exists already: options of its creation are not applied", "table", s.table, "options", unused)
	}
}

// pauses grow by half each time.
type pauses struct{ next time.Duration }

func (p *pauses) wait(ctx context.Context) error {
	t := time.NewTimer(p.next)
	defer t.Stop()
	p.next = min(p.next*3/2, longestWait)
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
