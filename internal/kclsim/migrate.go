package kclsim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// The rows and the states of the migrations (2.1).
const (
	clientVersionKey  = "Migration3.0"
	tableMigrationKey = "TableMigration3.5"

	cvInit     = "CLIENT_VERSION_INIT"
	cvUpgrade  = "CLIENT_VERSION_UPGRADE_FROM_2X"
	cv2X       = "CLIENT_VERSION_2X"
	cvRollback = "CLIENT_VERSION_3X_WITH_ROLLBACK"
	cv3X       = "CLIENT_VERSION_3X"

	statusPrefix = "TABLE_MIGRATION_STATUS_"
)

// layout is where the rows of the coordinator and of the workers stand.
type layout struct {
	single     bool
	lock       place   // the leader's lock, and the state of the table migration
	versions   []place // the client version: read from the first that has it
	metricsOut place
	metricsIn  []place
}

// findLayout is 2.5. What is written where is settled at the start; what is read follows changes.
func (w *Worker) findLayout(ctx context.Context) error {
	coordinator := place{w.s.App + "-CoordinatorState", "key", w.s.Version >= V35}
	metrics := place{w.s.App + "-WorkerMetricStats", "wid", w.s.Version >= V35}
	old := layout{lock: coordinator, versions: []place{coordinator}, metricsOut: metrics, metricsIn: []place{metrics}}
	set := func(l layout) {
		w.mu.Lock()
		w.layout = l
		w.mu.Unlock()
	}
	if w.s.Version < V35 {
		set(old)
		if err := w.prepareTable(ctx, coordinator); err != nil {
			return err
		}
		return w.prepareTable(ctx, metrics)
	}
	here := w.leases()
	one := layout{single: true, lock: here, versions: []place{here}, metricsOut: here, metricsIn: []place{here}}
	t, err := w.describe(ctx, coordinator.table)
	if err != nil {
		return err
	}
	if t == nil {
		set(one)
		return nil
	}
	row, err := w.read(ctx, coordinator, tableMigrationKey)
	if err != nil {
		return err
	}
	both := old
	both.metricsIn = []place{metrics, here}
	both.versions = []place{coordinator, here}
	switch status := strings.TrimPrefix(textOf(row, "tm"), statusPrefix); {
	case status == "COMPLETE":
		set(one)
	case w.s.MigrateAll && status != "DEPLOYED" && status != "PENDING":
		return fmt.Errorf("migrateAllEntitiesToLeaseTable is set while the table migration is at %q", status)
	case w.s.MigrateAll:
		both.metricsOut, both.versions = here, []place{here, coordinator}
		set(both)
	default:
		set(both)
	}
	return nil
}

func (w *Worker) lockPlace() place {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.layout.lock
}

// readVersion finds the row of the client version; nil where there is none.
func (w *Worker) readVersion(ctx context.Context) (item, place, error) {
	w.mu.Lock()
	places := w.layout.versions
	w.mu.Unlock()
	for _, at := range places {
		row, err := w.read(ctx, at, clientVersionKey)
		if err != nil || row != nil {
			return row, at, err
		}
	}
	return nil, places[0], nil
}

// meetVersion is the start of the client-version machine (2.7): by the settings where there is no row, else by the row.
func (w *Worker) meetVersion(ctx context.Context) error {
	row, at, err := w.readVersion(ctx)
	if err != nil {
		return err
	}
	version := textOf(row, "cv")
	switch {
	case row == nil:
		version = cv3X
		if w.s.Compatible {
			version = cvUpgrade
		}
		now := w.wall().UnixMilli()
		row = item{at.key: str(clientVersionKey), "cv": str(version), "mb": str(w.s.ID), "mts": num(now), "h": &types.AttributeValueMemberL{Value: []types.AttributeValue{stateOf("cv", cvInit, w.s.ID, now)}}}
		if at.typed {
			row["entityType"] = str("CLIENT_VERSION_MIGRATION")
		}
		if err := w.put(ctx, at, row, "attribute_not_exists(#pk)", nil); errors.Is(err, errCondition) {
			return w.meetVersion(ctx)
		} else if err != nil {
			return err
		}
	case version == cvRollback && !w.s.Compatible:
		if err := w.changeState(ctx, at, clientVersionKey, "cv", row, cv3X); err != nil && !errors.Is(err, errCondition) {
			return err
		}
		version = cv3X
	}
	if version != cv2X {
		if err := w.prepareIndex(ctx, version == cv3X); err != nil {
			return err
		}
	}
	w.follow(ctx, version)
	return nil
}

func stateOf(name, value, by string, at int64) types.AttributeValue {
	return &types.AttributeValueMemberM{Value: item{name: str(value), "mb": str(by), "mts": num(at)}}
}

// changeState moves a migration's row on, if it is still as read; the former state goes to the front of the history.
func (w *Worker) changeState(ctx context.Context, at place, key, name string, row item, to string) error {
	from := textOf(row, name)
	when, _ := intOf(row, "mts")
	history := []types.AttributeValue{stateOf(name, from, textOf(row, "mb"), when)}
	if h, ok := row["h"].(*types.AttributeValueMemberL); ok {
		history = append(history, h.Value...)
	}
	_, err := w.update(ctx, write{
		at: at, key: key, condition: "#pk = :k AND #state = :from", expression: "SET #state = :to, mb = :me, mts = :now, #h = :h", names: map[string]string{"#pk": at.key, "#state": name, "#h": "h"},
		values: item{":k": str(key), ":from": str(from), ":to": str(to), ":me": str(w.s.ID), ":now": num(w.wall().UnixMilli()), ":h": &types.AttributeValueMemberL{Value: history[:min(len(history), 10)]}},
	})
	return err
}

// follow takes on the rules that a client version stands for.
func (w *Worker) follow(ctx context.Context, version string) {
	m := taking
	switch version {
	case cvRollback, cv3X:
		m = led
	case cvUpgrade, cv2X:
	default:
		w.fault("reads a client version that it doesn't know: %q", version)
		return
	}
	w.mu.Lock()
	changed := w.cv != version
	leaves := w.mode == led && m != led
	w.mode, w.cv = m, version
	w.mu.Unlock()
	if changed {
		w.note("follows %s", version)
	}
	if leaves {
		w.unlock(ctx)
	}
}

// monitor polls the state of the migrations while there is something to wait for.
func (w *Worker) monitor(ctx context.Context) {
	w.mu.Lock()
	version, at := w.cv, w.layout
	w.mu.Unlock()
	if w.s.Version >= V35 && !at.single {
		if row, err := w.read(ctx, at.lock, tableMigrationKey); err == nil && textOf(row, "tm") == statusPrefix+"COMPLETE" {
			w.unlock(ctx)
			here := w.leases()
			w.mu.Lock()
			w.layout = layout{single: true, lock: here, versions: []place{here}, metricsOut: here, metricsIn: []place{here}}
			w.mu.Unlock()
		}
	}
	if version == cv3X {
		return
	}
	row, place, err := w.readVersion(ctx)
	if err != nil || row == nil {
		return
	}
	w.follow(ctx, textOf(row, "cv"))
	if textOf(row, "cv") != cvUpgrade || !w.lists(ctx) {
		return
	}
	ready, err := w.flipReady(ctx)
	w.mu.Lock()
	switch {
	case err != nil || !ready:
		w.readyAt = time.Time{}
	case w.readyAt.IsZero():
		w.readyAt = time.Now()
	}
	flip := !w.readyAt.IsZero() && time.Since(w.readyAt) >= w.s.Stabilise
	w.mu.Unlock()
	if flip && w.changeState(ctx, place, clientVersionKey, "cv", row, cvRollback) == nil {
		w.note("flips the fleet to %s", cvRollback)
	}
}

// flipReady: the index can be used, and every owner has a live row; a lease without an owner is owned by nobody, who has none.
func (w *Worker) flipReady(ctx context.Context) (bool, error) {
	status, err := w.indexStatus(ctx)
	if err != nil || status != types.IndexStatusActive {
		return false, err
	}
	all, workers, err := w.load(ctx)
	if err != nil {
		return false, err
	}
	live := map[string]bool{}
	for _, id := range workers {
		live[id] = true
	}
	for i := range all {
		if !live[all[i].owner] {
			return false, nil
		}
	}
	return true, nil
}
