package dynamo_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/leasestore/dynamo"
)

// Whatever stands in a row: reading it never panics, fails with a *core.RowError or not at all, and what was read is the same after it
// was written and read again, unknown columns included.
func FuzzRow(f *testing.F) {
	dumps, err := filepath.Glob("../../testdata/kcl-tables/*.json")
	if err != nil || len(dumps) == 0 {
		f.Fatalf("no dumps: %v", err)
	}
	for _, name := range dumps {
		text, err := os.ReadFile(name)
		must(f, err)
		var d dump
		must(f, json.Unmarshal(text, &d))
		for _, row := range d.Items {
			f.Add([]byte(row))
		}
	}
	f.Add([]byte(`{"leaseKey":{"S":"1"},"leaseOwner":{"S":"B"},"checkpointOwner":{"S":"A"},"leaseCounter":{"N":"7"},"checkpoint":{"S":"LATEST"},"sw_stream":{"S":"1:s:2"},"sw_run":{"S":"A:1"},"sw_ready":{"BOOL":true},"sw_startAt":{"S":"2026-11-30T13:00:00.5+01:00"},"sw_startFor":{"S":"LATEST"},"pendingCheckpoint":{"S":"495"},"pendingCheckpointSubSequenceNumber":{"N":"7"},"pendingCheckpointState":{"B":"AQI="},"throughputKBps":{"N":"1.2E-5"},"theirs":{"L":[{"NULL":true}]}}`))
	f.Add([]byte(`{"key":{"S":"Leader"},"ownerName":{"S":"x"},"leaseDuration":{"S":"9223372036854775807"},"recordVersionNumber":{"S":"v"},"h":{"L":[{"M":{"cv":{"S":"a"}}},{"N":"1"}]}}`))
	f.Add([]byte(`{"wid":{"S":"w"},"lut":{"N":"1e300"},"sts":{"M":{"C":{"L":[]},"M":{"S":"x"}}},"opr":{"M":{"C":{"L":[{"S":"x"}]}}},"sup":{"N":"1.5"},"slu":{"S":"x"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		row, err := parseItem(text)
		if err != nil {
			t.Skip()
		}
		dynamo.KindOf(row)
		if l, err := dynamo.ReadAsAnything(row); err == nil && l != (core.Lock{}) && (l.Owner == "" || l.Version == "" || l.Duration <= 0) {
			t.Fatalf("half a lock was read: %+v", l)
		}
		l, err := dynamo.DecodeLease(row)
		if err != nil {
			if _, ok := errors.AsType[*core.RowError](err); !ok || len(err.Error()) > 2000 {
				t.Fatalf("%T of %d bytes: %v", err, len(err.Error()), err)
			}
			return
		}
		again, err := dynamo.EncodeLease(&l, l.Key.Stream, true)
		if err != nil {
			t.Fatalf("%+v was read and can't be written: %v", l, err)
		}
		back, err := dynamo.DecodeLease(again)
		if err != nil {
			t.Fatalf("%s can't be read: %v", show(again), err)
		}
		// Throughput is rounded to what the KCL keeps.
		if diff := l.Throughput - back.Throughput; diff > 1e-6 || diff < -1e-6 {
			t.Fatalf("throughput %v became %v", l.Throughput, back.Throughput)
		}
		back.Throughput = l.Throughput
		if !reflect.DeepEqual(l, back) {
			t.Fatalf("%+v\nbecame\n%+v", l, back)
		}
		if raw, ok := l.Raw.(dynamo.Attributes); ok {
			for name, v := range raw {
				if !reflect.DeepEqual(again[name], v) {
					t.Fatalf("column %q is gone", name)
				}
			}
		}
	})
}
