package kinesis

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"pgregory.net/rapid"
)

func idsOf(shards []types.Shard) string {
	var b []string
	for _, s := range shards {
		b = append(b, strings.TrimLeft(strings.TrimPrefix(*s.ShardId, "shardId-"), "0"))
		if b[len(b)-1] == "" {
			b[len(b)-1] = "0"
		}
	}
	return strings.Join(b, " ")
}

// covers says whether the shards' ranges leave no hole in the hash space.
func covers(shards []types.Shard) bool {
	type rng struct{ from, to *big.Int }
	var rs []rng
	for _, s := range shards {
		from, _ := new(big.Int).SetString(*s.HashKeyRange.StartingHashKey, 10)
		to, _ := new(big.Int).SetString(*s.HashKeyRange.EndingHashKey, 10)
		rs = append(rs, rng{from, to})
	}
	slices.SortFunc(rs, func(a, b rng) int { return a.from.Cmp(b.from) })
	next := big.NewInt(0)
	for _, r := range rs {
		if r.from.Cmp(next) > 0 {
			return false
		}
		if after := new(big.Int).Add(r.to, big.NewInt(1)); after.Cmp(next) > 0 {
			next = after
		}
	}
	return next.Cmp(new(big.Int).Lsh(big.NewInt(1), 128)) == 0
}

// life is what the oracle knows of a shard: it covers the time after its creation up to and including its end.
type life struct {
	born, died time.Time // died is zero while open
	first      bool      // there from the stream's creation on, that instant included
}

func (l life) coversInstant(t time.Time) bool {
	return (l.born.Before(t) || l.first && l.born.Equal(t)) && (l.died.IsZero() || !l.died.Before(t))
}

// TestFiltersAgreeWithTheHistory reshards at random over many retention periods of fake time and compares every filter with what the
// history of births and deaths says, read off the definitions in the API reference.
func TestFiltersAgreeWithTheHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const retention = time.Minute // short: rapid ends after a day of the bubble's time
		r := newRig(t, Config{ShardLimit: 1 << 20, Retention: retention})
		r.http.Transport = calls{r.s}
		defer r.stop()
		run := 0
		// Without its Deadline method, which must not be called in a bubble.
		rapid.Check(struct{ testing.TB }{t}, func(t *rapid.T) {
			run++
			name := fmt.Sprint("stream-", run)
			shards := rapid.Int32Range(1, 4).Draw(t, "shards")
			r.create(name, shards)
			start := time.Now()
			var lives []life
			for range shards {
				lives = append(lives, life{born: start, first: true})
			}
			sync := func() { // births and deaths that the last call brought
				all := r.shards(name, nil)
				for _, s := range all {
					i, _ := shardIndex(*s.ShardId)
					for int(i) >= len(lives) {
						lives = append(lives, life{born: time.Now()})
					}
					if s.SequenceNumberRange.EndingSequenceNumber != nil && lives[i].died.IsZero() {
						lives[i].died = time.Now()
					}
				}
			}
			defer func() {
				_, err := r.c.DeleteStream(r.t.Context(), &sdk.DeleteStreamInput{StreamName: &name})
				r.ok(err)
			}()
			check := func(what string, f *types.ShardFilter, want func(i int) bool, whole bool) {
				var ids []string
				for i := range lives {
					if want(i) {
						ids = append(ids, fmt.Sprint(i))
					}
				}
				got := r.shards(name, f)
				if idsOf(got) != strings.Join(ids, " ") {
					t.Fatalf("%s gives shards %s, want %s\nhistory %+v", what, idsOf(got), strings.Join(ids, " "), lives)
				}
				if whole && !covers(got) {
					t.Fatalf("%s leaves a hole: shards %s", what, idsOf(got))
				}
			}
			t.Repeat(map[string]func(*rapid.T){
				"wait": func(t *rapid.T) {
					time.Sleep(time.Duration(rapid.Int64Range(1, int64(75*time.Second/time.Millisecond)).Draw(t, "ms")) * time.Millisecond)
				},
				"split": func(t *rapid.T) {
					open := r.shards(name, &types.ShardFilter{Type: types.ShardFilterTypeAtLatest})
					s := rapid.SampledFrom(open).Draw(t, "shard")
					from, _ := new(big.Int).SetString(*s.HashKeyRange.StartingHashKey, 10)
					to, _ := new(big.Int).SetString(*s.HashKeyRange.EndingHashKey, 10)
					r.split(name, *s.ShardId, from.Add(from, to).Rsh(from, 1).String())
					sync()
				},
				"merge": func(t *rapid.T) {
					open := r.shards(name, &types.ShardFilter{Type: types.ShardFilterTypeAtLatest})
					if len(open) < 2 {
						t.Skip()
					}
					slices.SortFunc(open, func(a, b types.Shard) int {
						x, _ := new(big.Int).SetString(*a.HashKeyRange.StartingHashKey, 10)
						y, _ := new(big.Int).SetString(*b.HashKeyRange.StartingHashKey, 10)
						return x.Cmp(y)
					})
					i := rapid.IntRange(0, len(open)-2).Draw(t, "lower")
					j := i + 1
					if rapid.Bool().Draw(t, "swap") {
						i, j = j, i
					}
					r.merge(name, *open[i].ShardId, *open[j].ShardId)
					sync()
				},
				"scale": func(t *rapid.T) {
					n := int32(len(r.shards(name, &types.ShardFilter{Type: types.ShardFilterTypeAtLatest})))
					_, err := r.c.UpdateShardCount(r.t.Context(), &sdk.UpdateShardCountInput{StreamName: &name, ScalingType: types.ScalingTypeUniformScaling,
						TargetShardCount: aws.Int32(rapid.Int32Range((n+1)/2, max((n+1)/2, min(2*n, 8))).Draw(t, "target"))})
					r.ok(err)
					sync()
				},
				"": func(t *rapid.T) {
					now := time.Now()
					horizon := now.Add(-retention)
					if horizon.Before(start) {
						horizon = start
					}
					listed := func(i int) bool { return lives[i].died.IsZero() || !lives[i].died.Before(now.Add(-retention)) }
					open := func(i int) bool { return lives[i].died.IsZero() }
					atHorizon := func(i int) bool { return listed(i) && lives[i].coversInstant(horizon) }
					ts := now.Add(-time.Duration(rapid.Int64Range(0, now.Sub(start).Milliseconds()+1000).Draw(t, "ago")) * time.Millisecond)
					if rapid.Bool().Draw(t, "at an event") {
						l := rapid.SampledFrom(lives).Draw(t, "event")
						ts = pick(l.died.IsZero(), l.born, l.died)
					}
					after := rapid.IntRange(0, len(lives)).Draw(t, "after")
					switch kind := rapid.SampledFrom(append(types.ShardFilterType("").Values(), "")).Draw(t, "filter"); kind {
					case "":
						check("no filter", nil, listed, true)
					case types.ShardFilterTypeFromTrimHorizon:
						check("FROM_TRIM_HORIZON", &types.ShardFilter{Type: kind}, listed, true)
					case types.ShardFilterTypeAtLatest:
						check("AT_LATEST", &types.ShardFilter{Type: kind}, open, true)
					case types.ShardFilterTypeAtTrimHorizon:
						check("AT_TRIM_HORIZON", &types.ShardFilter{Type: kind}, atHorizon, true)
					case types.ShardFilterTypeAfterShardId:
						check("AFTER_SHARD_ID", &types.ShardFilter{Type: kind, ShardId: aws.String(shardID(uint32(after)))},
							func(i int) bool { return i > after && listed(i) }, false)
					case types.ShardFilterTypeAtTimestamp:
						check("AT_TIMESTAMP", &types.ShardFilter{Type: kind, Timestamp: &ts}, func(i int) bool {
							if ts.Before(horizon) {
								return atHorizon(i)
							}
							return listed(i) && !lives[i].born.After(ts) && (open(i) || !lives[i].died.Before(ts))
						}, true)
					case types.ShardFilterTypeFromTimestamp:
						check("FROM_TIMESTAMP", &types.ShardFilter{Type: kind, Timestamp: &ts}, func(i int) bool {
							return listed(i) && (open(i) || !lives[i].died.Before(ts))
						}, true)
					}
				},
			})
		})
	})
}

func TestListShardsPages(t *testing.T) {
	for name, tc := range map[string]struct {
		in    sdk.ListShardsInput
		pages string
	}{
		"all":             {sdk.ListShardsInput{}, "0 1 2|3 4 5|6"},
		"filter is kept":  {sdk.ListShardsInput{ShardFilter: &types.ShardFilter{Type: types.ShardFilterTypeAtLatest}}, "1 2 3|4 5 6"},
		"timestamp kept":  {sdk.ListShardsInput{ShardFilter: &types.ShardFilter{Type: types.ShardFilterTypeFromTimestamp}}, "1 2 3|4 5 6"},
		"after a shard":   {sdk.ListShardsInput{ExclusiveStartShardId: aws.String(shardID(2))}, "3 4 5|6"},
		"after the last":  {sdk.ListShardsInput{ExclusiveStartShardId: aws.String(shardID(6))}, ""},
		"the later start": {sdk.ListShardsInput{ExclusiveStartShardId: aws.String(shardID(2)), ShardFilter: &types.ShardFilter{Type: types.ShardFilterTypeAfterShardId, ShardId: aws.String(shardID(4))}}, "5 6"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(t *testing.T, r *rig) {
				r.create("orders", 5)
				r.split("orders", shardID(0), "1000")
				time.Sleep(time.Second)
				in := tc.in
				in.StreamName, in.MaxResults = aws.String("orders"), aws.Int32(3)
				if f := in.ShardFilter; f != nil && f.Type == types.ShardFilterTypeFromTimestamp {
					f.Timestamp = aws.Time(time.Now())
				}
				var pages []string
				for {
					o, err := r.c.ListShards(t.Context(), &in)
					r.ok(err)
					pages = append(pages, idsOf(o.Shards))
					if o.NextToken == nil {
						break
					}
					in = sdk.ListShardsInput{NextToken: o.NextToken, MaxResults: aws.Int32(3)}
				}
				if got := strings.Join(pages, "|"); got != tc.pages {
					t.Errorf("pages %q, want %q", got, tc.pages)
				}
			})
		})
	}
}

func TestListShardsRefusals(t *testing.T) {
	r := newRig(t, Config{})
	r.create("orders", 2)
	o, err := r.c.ListShards(t.Context(), &sdk.ListShardsInput{StreamName: aws.String("orders"), MaxResults: aws.Int32(1)})
	r.ok(err)
	token := o.NextToken
	filter := func(f types.ShardFilter) sdk.ListShardsInput {
		return sdk.ListShardsInput{StreamName: aws.String("orders"), ShardFilter: &f}
	}
	made := r.summary("orders").StreamCreationTimestamp
	for name, tc := range map[string]struct {
		in         sdk.ListShardsInput
		code, word string
	}{
		"token and name":           {sdk.ListShardsInput{NextToken: token, StreamName: aws.String("orders")}, "InvalidArgumentException", "StreamName"},
		"token and ARN":            {sdk.ListShardsInput{NextToken: token, StreamARN: aws.String(r.s.arnOf("orders"))}, "InvalidArgumentException", "StreamARN"},
		"token and start":          {sdk.ListShardsInput{NextToken: token, ExclusiveStartShardId: aws.String(shardID(0))}, "InvalidArgumentException", "ExclusiveStartShardId"},
		"token and creation":       {sdk.ListShardsInput{NextToken: token, StreamCreationTimestamp: made}, "InvalidArgumentException", "StreamCreationTimestamp"},
		"token and filter":         {sdk.ListShardsInput{NextToken: token, ShardFilter: &types.ShardFilter{Type: types.ShardFilterTypeAtLatest}}, "InvalidArgumentException", "ShardFilter"},
		"no token":                 {sdk.ListShardsInput{NextToken: aws.String("AAAA")}, "InvalidArgumentException", "NextToken"},
		"neither name nor ARN":     {sdk.ListShardsInput{}, "InvalidArgumentException", "StreamName"},
		"too many":                 {sdk.ListShardsInput{StreamName: aws.String("orders"), MaxResults: aws.Int32(10_001)}, "ValidationException", "maxResults"},
		"no such start":            {sdk.ListShardsInput{StreamName: aws.String("orders"), ExclusiveStartShardId: aws.String("shard-1")}, "InvalidArgumentException", "shard-1"},
		"unknown filter":           {filter(types.ShardFilter{Type: "AT_ODDS"}), "ValidationException", "shardFilter.type"},
		"after no shard":           {filter(types.ShardFilter{Type: types.ShardFilterTypeAfterShardId}), "InvalidArgumentException", "ShardId"},
		"latest after a shard":     {filter(types.ShardFilter{Type: types.ShardFilterTypeAtLatest, ShardId: aws.String(shardID(0))}), "InvalidArgumentException", "ShardId"},
		"at no time":               {filter(types.ShardFilter{Type: types.ShardFilterTypeAtTimestamp}), "InvalidArgumentException", "Timestamp"},
		"horizon at a time":        {filter(types.ShardFilter{Type: types.ShardFilterTypeAtTrimHorizon, Timestamp: made}), "InvalidArgumentException", "Timestamp"},
		"in the future":            {filter(types.ShardFilter{Type: types.ShardFilterTypeFromTimestamp, Timestamp: aws.Time(time.Now().Add(time.Minute))}), "InvalidArgumentException", "Timestamp"},
		"another incarnation":      {sdk.ListShardsInput{StreamName: aws.String("orders"), StreamCreationTimestamp: aws.Time(made.Add(-time.Hour))}, "ResourceNotFoundException", "orders"},
		"stream that is not there": {sdk.ListShardsInput{StreamName: aws.String("nope")}, "ResourceNotFoundException", "nope"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := r.c.ListShards(t.Context(), &tc.in)
			wantCode(t, err, tc.code, tc.word)
		})
	}
	for name, at := range map[string]time.Time{"exact": *made, "whole second": made.Truncate(time.Second)} {
		if _, err := r.c.ListShards(t.Context(), &sdk.ListShardsInput{StreamName: aws.String("orders"), StreamCreationTimestamp: &at}); err != nil {
			t.Errorf("%s time of creation: %v", name, err)
		}
	}
}

func TestPageTokensExpireAndDieWithTheirStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{})
		defer r.stop()
		r.create("orders", 2)
		list := func(in sdk.ListShardsInput) (*sdk.ListShardsOutput, error) {
			in.MaxResults = aws.Int32(1)
			return r.c.ListShards(t.Context(), &in)
		}
		o, err := list(sdk.ListShardsInput{StreamName: aws.String("orders")})
		r.ok(err)
		time.Sleep(300 * time.Second)
		_, err = list(sdk.ListShardsInput{NextToken: o.NextToken})
		r.ok(err)
		time.Sleep(time.Millisecond)
		_, err = list(sdk.ListShardsInput{NextToken: o.NextToken})
		wantCode(t, err, "ExpiredNextTokenException")

		o, err = list(sdk.ListShardsInput{StreamName: aws.String("orders")})
		r.ok(err)
		_, err = r.c.DeleteStream(t.Context(), &sdk.DeleteStreamInput{StreamName: aws.String("orders")})
		r.ok(err)
		r.create("orders", 2)
		_, err = list(sdk.ListShardsInput{NextToken: o.NextToken})
		wantCode(t, err, "ResourceNotFoundException")
	})
}
