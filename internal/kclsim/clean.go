package kclsim

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// queueForCleanup puts an ended lease on the queue of leases to delete. It is in memory only.
func (w *Worker) queueForCleanup(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finished[key] = true
}

// setChildren is updateLeaseWithMetaInfo: the row must exist, and its counter stays.
func (w *Worker) setChildren(ctx context.Context, key string, children []string) error {
	_, err := w.update(ctx, write{at: w.leases(), key: key, condition: "leaseKey = :k", expression: "SET childShardIds = :c", values: item{":k": str(key), ":c": &types.AttributeValueMemberSS{Value: children}}})
	return err
}

// clean deletes leases that have ended: when every child has been begun, and no parent is left (4.4). The write has no condition.
func (w *Worker) clean(ctx context.Context) {
	w.mu.Lock()
	due := time.Since(w.cleaned) >= cleanCompleted && !w.s.NoCleanup
	keys := make([]string, 0, len(w.finished))
	for k := range w.finished {
		keys = append(keys, k)
	}
	w.mu.Unlock()
	if !due || len(keys) == 0 {
		return
	}
	for _, key := range keys {
		over, err := w.mayDelete(ctx, key)
		if err != nil || !over {
			continue
		}
		if err := w.remove(ctx, w.leases(), key, "", nil, nil); err != nil {
			continue
		}
		w.note("deletes the lease of %s", key)
		w.mu.Lock()
		delete(w.finished, key)
		w.cleaned = time.Now()
		w.mu.Unlock()
	}
}

func (w *Worker) mayDelete(ctx context.Context, key string) (bool, error) {
	l, err := w.lease(ctx, key)
	if err != nil || l == nil {
		return err == nil, err
	}
	if l.checkpoint != shardEnd || len(l.children) == 0 {
		return false, nil
	}
	for _, id := range l.children {
		child, err := w.lease(ctx, id)
		if err != nil || child == nil || child.checkpoint == trimHorizon || child.checkpoint == atTimestamp {
			return false, err
		}
	}
	for _, id := range l.parents {
		if p, err := w.lease(ctx, id); err != nil || p != nil {
			return false, err
		}
	}
	return true, nil
}
