package dynamo

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardwarden/shardwarden/core"
)

// loadCPU is the figure of core.WorkerInfo.Load that the KCL has a name for.
const loadCPU = "cpu"

// workerRow is a worker as a table shows it.
type workerRow struct {
	info    core.WorkerInfo
	ours    bool
	aside   bool  // in the table of workers' metrics
	updated int64 // wall clock of whoever wrote it, seconds
	// unfit says why a leader of the KCL gives the worker nothing, as with us.
	unfit string
}

// decodeWorker reads the row of a worker, Java's or ours. What it cannot read it leaves out: a worker is counted by its key and its beat.
func decodeWorker(row Attributes, keyAttr string) workerRow {
	r := rowReader{row: row}
	w := workerRow{info: core.WorkerInfo{ID: core.WorkerID(r.text(keyAttr))}, aside: keyAttr != attrKey}
	if n := numeral(row[attrUpdated]); n != "" {
		w.info.Beat = n
		w.updated, _ = strconv.ParseInt(n, 10, 64)
	}
	if beat := plain(row[attrBeat]); beat != "" && (row[attrBeatAt] == nil || numeral(row[attrBeatAt]) == numeral(row[attrUpdated])) {
		w.info.Beat, w.ours = beat, true
	}
	stats, ranges := figures(row[attrStats]), figures(row[attrRanges])
	w.unfit = unfit(row, stats, ranges)
	load := map[string]float64{}
	if f, ok := smoothed(stats[statCPU]); ok {
		load[loadCPU] = f
		if of := ranges[statCPU]; len(of) > 0 {
			w.info.Limits = map[string]float64{loadCPU: of[0]}
		}
	}
	if more, ok := row[attrLoad].(*types.AttributeValueMemberM); ok {
		for name, v := range more.Value {
			if f, ok := figure(v); ok {
				load[name] = f
			}
		}
	}
	if len(load) > 0 {
		w.info.Load = load
	}
	return w
}

// smoothed is what the KCL takes for the figure of a worker: the exponential average of its samples with workerMetricsEMAAlpha, 0.5; below 0 stands for
// a sample that is missing.
func smoothed(samples []float64) (f float64, ok bool) {
	for _, s := range samples {
		switch {
		case s < 0:
		case !ok:
			f, ok = s, true
		default:
			f = (f + s) / 2
		}
	}
	return f, ok
}

// unfit is the KCL's own judgement of a row (docs/reference/kcl.md 2.2): without a time, with a metric that has no range or a range of nothing, or
// whose last sample is missing, the worker gets no leases.
func unfit(row Attributes, stats, ranges map[string][]float64) string {
	if numeral(row[attrUpdated]) == "" {
		return "it has no " + attrUpdated
	}
	for name, of := range ranges {
		if len(of) > 0 && of[0] == 0 {
			return fmt.Sprintf("the range of %s is 0", name)
		}
	}
	for name, of := range stats {
		switch {
		case len(of) == 0:
			return fmt.Sprintf("%s has no samples", name)
		case of[len(of)-1] == -1:
			return fmt.Sprintf("the last sample of %s is missing", name)
		case len(ranges[name]) == 0:
			return fmt.Sprintf("%s has no range", name)
		}
	}
	return ""
}

// figures is a map of lists of numbers; what is something else is left out.
func figures(v types.AttributeValue) map[string][]float64 {
	all, ok := v.(*types.AttributeValueMemberM)
	if !ok {
		return nil
	}
	out := make(map[string][]float64, len(all.Value))
	for name, v := range all.Value {
		list, ok := v.(*types.AttributeValueMemberL)
		if !ok {
			continue
		}
		out[name] = []float64{}
		for _, e := range list.Value {
			if f, ok := figure(e); ok {
				out[name] = append(out[name], f)
			}
		}
	}
	return out
}

func figure(v types.AttributeValue) (float64, bool) {
	n, ok := v.(*types.AttributeValueMemberN)
	if !ok {
		return 0, false
	}
	f, err := strconv.ParseFloat(n.Value, 64)
	return f, err == nil && !math.IsInf(f, 0) && !math.IsNaN(f)
}

// announcement is the worker row in the format of the KCL (docs/reference/kcl.md 2.2): a worker without figures counts there by the
// throughput of its leases. The support code says that it may live beside other kinds of rows, which is true; without it a worker that owns
// leases would hold up the KCL's migration to one table (V9). cpu is the last averages, oldest first.
func announcement(w core.WorkerInfo, now time.Time, cpu []float64, keyAttr string) (*expression, error) {
	seconds := number(now.Unix())
	stats, ranges, more := Attributes{}, Attributes{}, Attributes{}
	for name, f := range w.Load {
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, fmt.Errorf("worker %s: load %q is %v: %w", w.ID, name, f, core.ErrInvalid)
		}
		if name != loadCPU {
			more[name] = &types.AttributeValueMemberN{Value: javaDouble(f)}
		}
	}
	if len(cpu) > 0 {
		list := make([]types.AttributeValue, len(cpu))
		for i, f := range cpu {
			list[i] = &types.AttributeValueMemberN{Value: formatThroughput(f)}
		}
		stats[statCPU] = &types.AttributeValueMemberL{Value: list}
		ranges[statCPU] = &types.AttributeValueMemberL{Value: []types.AttributeValue{number(100)}}
	}
	beat := w.Beat
	if beat == "" {
		beat = strconv.FormatInt(now.UnixNano(), 10)
	}
	e := newExpression()
	if keyAttr == attrKey { // among leases
		e.require("(attribute_not_exists(%s) OR %s = %s)", e.name(attrKey), e.name(attrEntity), e.value(text(entityWorker)))
	}
	e.put(attrEntity, text(entityWorker))
	e.put(attrUpdated, seconds)
	e.put(attrStats, &types.AttributeValueMemberM{Value: stats})
	e.put(attrRanges, &types.AttributeValueMemberM{Value: ranges})
	e.put(attrSupport, number(1))
	e.put(attrSupportAt, seconds)
	e.put(attrBeat, text(beat))
	e.put(attrBeatAt, seconds)
	if len(more) > 0 {
		e.put(attrLoad, &types.AttributeValueMemberM{Value: more})
	} else {
		e.drop(attrLoad)
	}
	return e, nil
}
