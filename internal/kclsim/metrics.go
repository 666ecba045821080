package kclsim

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// emits reports whether this worker publishes its row at the moment.
func (w *Worker) emits() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.s.Version >= V34 && w.cv != cv2X
}

// emit writes the worker's row, without figures (as with disableWorkerMetrics): the row says that it lives.
func (w *Worker) emit(ctx context.Context) {
	w.mu.Lock()
	at := w.layout.metricsOut
	w.mu.Unlock()
	now := w.wall().Unix()
	empty := &types.AttributeValueMemberM{Value: item{}}
	u := write{at: at, key: w.s.ID, expression: "SET lut = :t, sts = :e, opr = :e", values: item{":t": num(now), ":e": empty}}
	if w.s.Version >= V35 {
		u.expression += ", #sup = :one, slu = :t, entityType = :k"
		u.names = map[string]string{"#sup": "sup"}
		u.values[":one"], u.values[":k"] = num(1), str("WORKER_METRIC_STATS")
	}
	_, _ = w.update(ctx, u) // the next one comes
}

func (w *Worker) metricPlaces() []place {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.layout.metricsIn
}
