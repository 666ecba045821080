package ots

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/internal/otsclient"
)

// tableWait is how long Prepare waits for a table that is being made, as the Java client does (maxWaitTableReadyTimeMillis).
const (
	tableWait   = 2 * time.Minute
	firstPause  = 50 * time.Millisecond
	longestWait = 2 * time.Second
)

// What the service accepts as the name of a table.
var tableName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]{0,254}$`)

// foreignKinds are the StatusTypes that DataX writes into such a table (docs/reference/tablestore.md 3.4).
var foreignKinds = []string{"CheckpointForDataxReader", "DataxJobDesc", "ShardTimeCheckpointForDataxReader"}

// Prepare implements [core.LeaseStore]. It asks whether the table is there, creates it as the Java client does where it is not, and waits until
// it can be used. Any number of workers may do so at once. A table that exists must have the three key columns, keep its rows for ever, and
// hold no rows of another use alone.
func (s *Store) Prepare(ctx context.Context) error {
	if !tableName.MatchString(s.table) {
		return fmt.Errorf("%q can't be the name of a table: it takes 1 to 255 letters, digits and '_', and no digit first: %w", s.table, core.ErrInvalid)
	}
	if s.java != 0 && s.java < time.Second {
		return fmt.Errorf("table %s: ots.WithJava(%v): expected the lease duration of the Java workers, leaseDurationMillis of ClientConfig, 20 s by default: %w", s.table, s.java, core.ErrInvalid)
	}
	exists, err := s.examine(ctx)
	if err != nil {
		return err
	}
	if !exists {
		if err := s.createTable(ctx); err != nil {
			return err
		}
	}
	if err := s.awaitTable(ctx); err != nil {
		return err
	}
	if exists {
		return s.sample(ctx)
	}
	return nil
}

// examine reports whether the table is there, and refuses one of another shape. Without the right to describe it goes by a read.
func (s *Store) examine(ctx context.Context) (exists bool, err error) {
	out, err := otsclient.Call(ctx, s.client, s.read("DescribeTable"), func(sdk *tablestore.TableStoreClient) (*tablestore.DescribeTableResponse, error) {
		return sdk.DescribeTable(&tablestore.DescribeTableRequest{TableName: s.table})
	})
	switch {
	case errors.Is(err, core.ErrNotFound):
		return false, nil
	case errors.Is(err, core.ErrDenied):
		return s.probe(ctx, err)
	case coming(err):
		return true, nil
	case err != nil:
		return false, err
	}
	return true, s.verify(out)
}

// probe finds out without the right to describe: a table that can be read is there. denied is what describing failed with.
func (s *Store) probe(ctx context.Context, denied error) (exists bool, err error) {
	_, err = s.getRows(ctx, probeKey)
	switch {
	case err == nil || coming(err):
		s.log.Info("status table can be read but not described; going on", "table", s.table, "err", denied)
		return true, nil
	case errors.Is(err, core.ErrNotFound):
		return false, nil
	case errors.Is(err, core.ErrDenied):
		return false, denied
	}
	return false, err
}

// probeKey is that of no row: the Java client asks for it to see whether the table is ready.
var probeKey = primaryKey("NotExistLease", kindLease, "NotExistLease")

// coming reports whether the table is there and can't be used yet.
func coming(err error) bool {
	code := otsclient.Code(err)
	return code == "OTSTableNotReady" || code == "OTSPartitionUnavailable"
}

func (s *Store) verify(t *tablestore.DescribeTableResponse) error {
	var is []string
	for _, k := range t.TableMeta.SchemaEntry {
		kind := "of unknown type"
		switch {
		case k.Type == nil:
		case *k.Type == tablestore.PrimaryKeyType_STRING:
			kind = "STRING"
		case *k.Type == tablestore.PrimaryKeyType_INTEGER:
			kind = "INTEGER"
		case *k.Type == tablestore.PrimaryKeyType_BINARY:
			kind = "BINARY"
		}
		is = append(is, value(k.Name)+" "+kind)
	}
	want := []string{keyStream + " STRING", keyKind + " STRING", keyValue + " STRING"}
	if !slices.Equal(is, want) {
		return fmt.Errorf("table %s has the primary key %s: expected %s; it belongs to another use: choose another name: %w", s.table, strings.Join(is, ", "), strings.Join(want, ", "), core.ErrInvalid)
	}
	if o := t.TableOption; o != nil && o.TimeToAlive != -1 {
		return fmt.Errorf("table %s drops what was written more than %d s ago (TimeToLive), checkpoints of idle shards too: set TimeToLive to -1: %w", s.table, o.TimeToAlive, core.ErrInvalid)
	}
	return nil
}

// createTable asks for the table as the Java client makes it. That another was quicker is no error.
func (s *Store) createTable(ctx context.Context) error {
	if s.mustExist {
		return fmt.Errorf("table %s does not exist in instance %s, and is not to be created: create it with the primary key %s, %s, %s, all STRING: %w", s.table, s.client.Instance(), keyStream, keyKind, keyValue, core.ErrNotFound)
	}
	meta := &tablestore.TableMeta{TableName: s.table}
	for _, name := range []string{keyStream, keyKind, keyValue} {
		meta.AddPrimaryKeyColumn(name, tablestore.PrimaryKeyType_STRING)
	}
	_, err := otsclient.Call(ctx, s.client, s.write("CreateTable"), func(sdk *tablestore.TableStoreClient) (*tablestore.CreateTableResponse, error) {
		return sdk.CreateTable(&tablestore.CreateTableRequest{
			TableMeta: meta, TableOption: &tablestore.TableOption{TimeToAlive: -1, MaxVersion: 1},
			ReservedThroughput: &tablestore.ReservedThroughput{Readcap: s.settings.read, Writecap: s.settings.write},
		})
	})
	if denied, ok := errors.AsType[*otsclient.Error](err); ok && errors.Is(err, core.ErrDenied) {
		denied.Hint = fmt.Sprintf("the table does not exist; %s; or create it with the primary key %s, %s, %s, all STRING", denied.Hint, keyStream, keyKind, keyValue)
	}
	if errors.Is(err, core.ErrExists) {
		return nil
	}
	return err
}

// awaitTable returns once the table can be used.
func (s *Store) awaitTable(ctx context.Context) error {
	deadline := time.Now().Add(tableWait)
	pause := firstPause
	for {
		_, err := s.getRows(ctx, probeKey)
		// A table that was created a moment ago may not be known everywhere.
		if err == nil || !coming(err) && !errors.Is(err, core.ErrNotFound) {
			return err
		}
		if time.Now().Add(pause).After(deadline) {
			return fmt.Errorf("table %s can still not be used after %v: %w", s.table, tableWait, err)
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		}
		pause = min(pause*3/2, longestWait)
	}
}

// sample looks at the first rows of a table that was there: one with none of the kinds that belong into a status table is of another use.
func (s *Store) sample(ctx context.Context) error {
	all := everything()
	rows, _, err := s.getRange(ctx, all.start, all.end, 100)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if r.kind == kindLease || r.kind == kindWorker || slices.Contains(foreignKinds, r.kind) {
			return nil
		}
	}
	if len(rows) == 0 {
		return nil
	}
	return fmt.Errorf("table %s holds rows of another use: none of the first %d has the StatusType %s, the first has %q; choose another name: %w", s.table, len(rows), kindLease, clip(rows[0].kind), core.ErrInvalid)
}

func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
