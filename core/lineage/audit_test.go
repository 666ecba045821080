package lineage

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/shardwarden/shardwarden/core"
	"pgregory.net/rapid"
)

// keys reads "0-7f": the highest byte of the first and the last key.
func keys(s string) *core.HashRange {
	r := &core.HashRange{End: maxKey}
	if _, err := fmt.Sscanf(s, "%x-%x", &r.Start[0], &r.End[0]); err != nil {
		panic(fmt.Sprintf("keys %q: %v", s, err))
	}
	return r
}

func TestAudit(t *testing.T) {
	for _, c := range []struct {
		name   string
		shards string // shard@keys
		leases string // lease@keys, where the row has them
		bad    string
		want   string
	}{
		{name: "covered", shards: "a@00-7f b@80-ff", leases: "a=t b=H"},
		{name: "covered by rows that have no range", shards: "a@00-7f b@80-ff", leases: "a=t b=H@80-ff"},
		{name: "nothing", shards: "a@00-ff", want: "00-ff"},
		{name: "first", shards: "a@00-3f b@40-ff", leases: "b=t", want: "00-3f"},
		{name: "last", shards: "a@00-3f b@40-ff", leases: "a=t", want: "40-ff"},
		{name: "between, twice", shards: "a@00-1f b@20-3f c@40-5f d@60-7f e@80-ff", leases: "a=t c=t e=t", want: "20-3f 60-7f"},
		{name: "two in one", shards: "a@00-1f b@20-3f c@40-5f d@60-ff", leases: "a=t d=t", want: "20-5f"},
		{name: "overlap", shards: "a.@00-ff b<a@00-7f c<a@80-ff", leases: "a=t b=H c=H"},
		{name: "one within another", shards: "a@00-7f b@10-1f c@80-ff", leases: "a=t b=t c=t"},
		{name: "the parent covers for its children", shards: "a.@00-ff b<a@00-7f c<a@80-ff", leases: "a=t b=H"},
		{name: "an ended parent does not", shards: "a.@00-ff b<a@00-7f c<a@80-ff", leases: "a=E b=H", want: "80-ff"},
		{name: "row that cannot be read", shards: "a@00-7f b@80-ff", leases: "a=t", bad: "b"},
		{name: "row of a shard that is not listed", shards: "b@80-ff", leases: "a=t@00-7f b=t"},
		{name: "row without a range of a shard that is not listed", shards: "b@80-ff", leases: "a=t b=t", want: "00-7f"},
		{name: "range the wrong way round", shards: "a@00-7f b@ff-80", leases: "a=t b=t", want: "80-ff"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := Input{Stream: "s", Listed: true, Bad: ids(c.bad)}
			for f := range strings.FieldsSeq(c.shards) {
				s, r, _ := strings.Cut(f, "@")
				sh := shard(s)
				sh.Range = keys(r)
				in.Shards = append(in.Shards, sh)
			}
			for f := range strings.FieldsSeq(c.leases) {
				s, r, ok := strings.Cut(f, "@")
				l := rows(s)[0]
				if ok {
					l.Range = keys(r)
				}
				in.Leases = append(in.Leases, l)
			}
			var got []string
			for _, h := range Audit(in) {
				if h.Shard != "" || h.Range.Start[1] != 0 || h.Range.End[15] != 0xff {
					t.Errorf("hole %+v", h)
				}
				got = append(got, fmt.Sprintf("%02x-%02x", h.Range.Start[0], h.Range.End[0]))
			}
			if !slices.Equal(got, strings.Fields(c.want)) {
				t.Errorf("holes %v, want %s", got, c.want)
			}
			in.Listed = false
			if got := Audit(in); got != nil {
				t.Errorf("holes without a listing: %v", got)
			}
		})
	}
}

func TestAuditWithoutRanges(t *testing.T) {
	in := Input{Stream: "s", Shards: listing("a. b<a c<a d"), Listed: true, Leases: rows("a=E b=H")}
	want := []Hole{{Shard: "d"}, {Shard: "c"}}
	for _, in.Lacks.HashRanges = range []bool{false, true} {
		if got := Audit(in); !slices.Equal(got, want) {
			t.Errorf("holes %v, want %v", got, want)
		}
		in.Shards[0].Range = keys("00-01") // fake ranges, as of DynamoDB's streams, are worse than none: Lacks says so
	}
	if s := want[0].String(); s != "shard d has no lease" {
		t.Errorf("says %q", s)
	}
	if s := (Hole{Range: *keys("80-ff")}).String(); !strings.Contains(s, "80000000000000000000000000000000 to ffffffffffffffffffffffffffffffff") {
		t.Errorf("says %q", s)
	}
}

// Against big numbers: a key is in a hole if and only if it is in no range.
func TestHolesAreWhatIsNotCovered(t *testing.T) {
	edge := rapid.Custom(func(t *rapid.T) [16]byte {
		var k [16]byte
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			return maxKey
		case 1:
			k[15] = byte(rapid.IntRange(0, 3).Draw(t, "low"))
		case 2:
			k = maxKey
			k[15] = byte(rapid.IntRange(250, 255).Draw(t, "high"))
		default:
			k[7], k[8] = rapid.Byte().Draw(t, "middle"), byte(rapid.SampledFrom([]int{0, 255}).Draw(t, "carry"))
			k[15] = byte(rapid.SampledFrom([]int{0, 255}).Draw(t, "end"))
		}
		return k
	})
	num := func(k [16]byte) *big.Int { return new(big.Int).SetBytes(k[:]) }
	rapid.Check(t, func(t *rapid.T) {
		var ranges []core.HashRange
		for range rapid.IntRange(0, 5).Draw(t, "ranges") {
			r := core.HashRange{Start: edge.Draw(t, "start"), End: edge.Draw(t, "end")}
			if num(r.Start).Cmp(num(r.End)) > 0 {
				r.Start, r.End = r.End, r.Start
			}
			ranges = append(ranges, r)
		}
		within := func(n *big.Int, r core.HashRange) bool { return num(r.Start).Cmp(n) <= 0 && n.Cmp(num(r.End)) <= 0 }
		out := holes(slices.Clone(ranges))
		var probes []*big.Int
		for _, r := range ranges {
			for _, k := range []*big.Int{num(r.Start), num(r.End)} {
				for d := int64(-1); d <= 1; d++ {
					if n := new(big.Int).Add(k, big.NewInt(d)); n.Sign() >= 0 && n.BitLen() <= 128 {
						probes = append(probes, n)
					}
				}
			}
		}
		for _, n := range append(probes, num([16]byte{}), num(maxKey)) {
			covered := slices.ContainsFunc(ranges, func(r core.HashRange) bool { return within(n, r) })
			hole := slices.ContainsFunc(out, func(h Hole) bool { return within(n, h.Range) })
			if covered == hole {
				t.Fatalf("%x covered %v, in a hole %v: %v leaves %v", n, covered, hole, ranges, out)
			}
		}
	})
}

func BenchmarkAudit(b *testing.B) {
	in := bigStream(10_000)
	b.ReportAllocs()
	for b.Loop() {
		if holes := Audit(in); len(holes) != 0 {
			b.Fatal(len(holes))
		}
	}
}
