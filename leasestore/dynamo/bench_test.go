package dynamo_test

import (
	"testing"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/dynamodb"
	"github.com/shardwarden/shardwarden/leasestore/dynamo"
)

// One renewal, client and emulator together.
func BenchmarkRenew(b *testing.B) {
	s := serve(b, emulator.Config{}).ready(b)
	l, err := s.Create(b.Context(), lease("1"))
	must(b, err)
	w := core.Renew(new(1.5))
	b.ReportAllocs()
	for b.Loop() {
		if l, err = s.Update(b.Context(), l, w.Same, w.Set); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeLease(b *testing.B) {
	row, err := parseItem([]byte(`{"leaseKey":{"S":"shardId-000000000002"},"leaseOwner":{"S":"worker-1"},"leaseCounter":{"N":"11"},"checkpoint":{"S":"49680705641539444884520439825067793287577119549523230754"},"checkpointSubSequenceNumber":{"N":"0"},"ownerSwitchesSinceCheckpoint":{"N":"0"},"parentShardId":{"SS":["shardId-000000000000"]},"startingHashKey":{"S":"0"},"endingHashKey":{"S":"85070591730234615865843651857942052862"},"throughputKBps":{"N":"0.013146"},"entityType":{"S":"LEASE"},"sw_stream":{"S":"123456789012:orders:1796039487"},"sw_run":{"S":"worker-1:7f3a"},"sw_ready":{"BOOL":true}}`))
	must(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := dynamo.DecodeLease(row); err != nil {
			b.Fatal(err)
		}
	}
}

// A look at 2,500 leases, client and emulator together.
func BenchmarkLook(b *testing.B) {
	srv := serve(b, emulator.Config{})
	s := srv.ready(b)
	fill(b, srv, 2500)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Look(b.Context(), stream); err != nil {
			b.Fatal(err)
		}
	}
}
