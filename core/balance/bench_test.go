package balance

import (
	"fmt"
	"testing"

	"github.com/shardwarden/shardwarden/core"
)

// busy is a fleet of m workers and n leases. All are held evenly but by the last tenth of the workers, who just joined; the leases of one
// that died are free.
func busy(n, m int) Input {
	in := Input{Seed: 1}
	for i := range m {
		in.Workers = append(in.Workers, Worker{ID: core.WorkerID(fmt.Sprintf("ip-10-0-3-%d.eu-west-1.compute.internal-4711-%08x", i, i))})
	}
	holders := m - m/10
	for i := range n {
		l := Lease{
			Key:     core.LeaseKey{Stream: "123456789012:orders:1700000000", Shard: core.ShardID(fmt.Sprintf("shardId-%012d", i))},
			Movable: true, Weight: float64(i%97) + 1,
		}
		if i%(holders+1) == holders {
			l.Owner, l.Free = "dead", true
		} else {
			l.Owner = in.Workers[i%(holders+1)].ID
		}
		in.Leases = append(in.Leases, l)
	}
	return in
}

func BenchmarkMake(b *testing.B) {
	for _, c := range []struct {
		name string
		in   func() Input
	}{
		{"joining", func() Input { return busy(10_000, 100) }},
		{"even", func() Input { return after(busy(10_000, 100)) }},
		{"first", func() Input { return allFree(busy(10_000, 100)) }},
		{"waited", func() Input {
			in := allFree(busy(10_000, 100))
			for i := range in.Leases {
				in.Leases[i].Waited = 2
			}
			return in
		}},
		{"weights", func() Input { in := busy(10_000, 100); in.Weights = true; return in }},
	} {
		b.Run(c.name, func(b *testing.B) {
			in := c.in()
			b.ReportAllocs()
			for b.Loop() {
				Make(in)
			}
		})
	}
}

func allFree(in Input) Input {
	for i := range in.Leases {
		in.Leases[i].Owner, in.Leases[i].Free = core.Nobody, true
	}
	return in
}
