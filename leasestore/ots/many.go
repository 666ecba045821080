package ots

import (
	"context"
	"fmt"
	"net/http"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/internal/otsclient"
)

// batchRows is the most rows that one BatchWriteRow takes.
const batchRows = 200

// UpdateMany implements [core.ManyUpdater] by BatchWriteRow: each update has its own condition and its own outcome. A batch is sent once; where
// it is not answered, nobody knows which of its updates went through.
func (s *Store) UpdateMany(ctx context.Context, u []core.LeaseUpdate) ([]core.Lease, []error) {
	rows, errs := make([]core.Lease, len(u)), make([]error, len(u))
	changes := make([]*change, len(u))
	var left []int
	for i := range u {
		if changes[i], errs[i] = s.prepareUpdate(&u[i].Seen, u[i].Write.Same, &u[i].Write.Set); errs[i] == nil {
			left = append(left, i)
		}
	}
	for len(left) > 0 {
		batch, rest := nextBatch(u, left)
		s.updateBatch(ctx, u, changes, batch, errs)
		left = rest
	}
	for i := range u {
		w := u[i].Write
		if errs[i] == nil && w.Set.IsZero() {
			rows[i], errs[i] = s.check(ctx, u[i].Seen, w.Same)
		} else if errs[i] == nil {
			rows[i], errs[i] = s.after(ctx, u[i].Seen, w.Same, w.Set)
		}
	}
	return rows, errs
}

// nextBatch takes updates of different rows: the service refuses two of one row in a batch.
func nextBatch(u []core.LeaseUpdate, left []int) (batch, rest []int) {
	in := map[core.LeaseKey]bool{}
	for _, i := range left {
		if k := u[i].Seen.Key; !u[i].Write.Set.IsZero() {
			if in[k] || len(batch) == batchRows {
				rest = append(rest, i)
				continue
			}
			in[k] = true
			batch = append(batch, i)
		}
	}
	return batch, rest
}

func (s *Store) updateBatch(ctx context.Context, u []core.LeaseUpdate, changes []*change, batch []int, errs []error) {
	if len(batch) == 0 {
		return
	}
	request := &tablestore.BatchWriteRowRequest{RowChangesGroupByTable: map[string][]tablestore.RowChange{}}
	for _, i := range batch {
		request.RowChangesGroupByTable[s.table] = append(request.RowChangesGroupByTable[s.table], changes[i].request(s.table, leaseRow(u[i].Seen.Key)))
	}
	out, err := otsclient.Call(ctx, s.client, s.write("BatchWriteRow"), func(sdk *tablestore.TableStoreClient) (*tablestore.BatchWriteRowResponse, error) {
		return sdk.BatchWriteRow(request)
	})
	var results []tablestore.RowResult
	if err == nil {
		if results = out.TableToRowsResult[s.table]; len(results) != len(batch) {
			err = fmt.Errorf("table %s: BatchWriteRow of %d rows is answered for %d: %w", s.table, len(batch), len(results), core.ErrUnavailable)
		}
	}
	for n, i := range batch {
		switch {
		case err != nil:
			errs[i] = err
		case !results[n].IsSucceed:
			errs[i] = s.rowFailed(u[i].Seen.Key, results[n].Error)
		}
	}
}

// rowFailed is the error of one row of a batch, which comes without a status: an unknown code leaves open what became of the row.
func (s *Store) rowFailed(key core.LeaseKey, e tablestore.Error) error {
	kind := otsclient.Kind(e.Code, e.Message, http.StatusInternalServerError)
	if kind == core.ErrConflict { //nolint:errorlint // Kind returns sentinels
		return &core.ConflictError{Key: key}
	}
	return fmt.Errorf("table %s: lease %s: %s: %s: %w", s.table, key, e.Code, e.Message, kind)
}
