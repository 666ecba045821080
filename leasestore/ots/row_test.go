package ots_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/leasestore/ots"
)

const stream = core.StreamID("orders_1764500000000000")

func keyOf(shard core.ShardID) core.LeaseKey { return core.LeaseKey{Stream: stream, Shard: shard} }

// rowOfJava is a row as the Java client creates it (docs/reference/tablestore.md 3.5), changed as told.
func rowOfJava(change ...any) ots.Columns {
	row := ots.Columns{"LeaseCounter": int64(0), "LeaseOwner": "", "LeaseStealer": "", "Checkpoint": "TRIM_HORIZON", "ParentShardIds": ""}
	for i := 0; i < len(change); i += 2 {
		if name := change[i].(string); change[i+1] == nil {
			delete(row, name)
		} else {
			row[name] = change[i+1]
		}
	}
	return row
}

// What a row means, whoever wrote it. The mark is sha256 of "it-7", cut to 16 digits.
func TestRowsMean(t *testing.T) {
	const mark = "87aa62c14f410c18"
	for name, c := range map[string]struct {
		row  ots.Columns
		want core.Lease
	}{
		"created by Java":       {rowOfJava(), core.Lease{Checkpoint: core.FromHorizon}},
		"with parents":          {rowOfJava("ParentShardIds", "p1\np2\n"), core.Lease{Checkpoint: core.FromHorizon, Parents: []core.ShardID{"p1", "p2"}}},
		"held by Java":          {rowOfJava("LeaseOwner", "w1", "LeaseCounter", int64(9), "Checkpoint", "it-7"), core.Lease{Owner: "w1", Counter: 9, Checkpoint: core.Position{Token: "it-7"}}},
		"ended":                 {rowOfJava("Checkpoint", "SHARD_END"), core.Lease{Checkpoint: core.AtShardEnd}},
		"an emptied checkpoint": {rowOfJava("Checkpoint", ""), core.Lease{Checkpoint: core.FromHorizon}},
		"stolen":                {rowOfJava("LeaseOwner", "w1", "LeaseStealer", "w2"), core.Lease{Owner: "w1", Next: "w2", Checkpoint: core.FromHorizon}},
		"transferred":           {rowOfJava("LeaseOwner", "w2", "LeaseStealer", "w2"), core.Lease{Owner: "w2", Checkpoint: core.FromHorizon}},
		"stealer of nobody's":   {rowOfJava("LeaseStealer", "w2"), core.Lease{Checkpoint: core.FromHorizon}},
		"ours":                  {rowOfJava("LeaseOwner", "w1", "sw_run", "w1:a.1", "sw_ready", true), core.Lease{Owner: "w1", Run: "w1:a.1", Ready: true, Checkpoint: core.FromHorizon}},
		"ours, asked for":       {rowOfJava("LeaseOwner", "w1", "LeaseStealer", "j", "sw_run", "w1:a.1"), core.Lease{Owner: "w1", Next: "j", Run: "w1:a.1", Checkpoint: core.FromHorizon}},
		"taken over by Java":    {rowOfJava("LeaseOwner", "j", "sw_run", "w1:a.1"), core.Lease{Owner: "j", Checkpoint: core.FromHorizon}},
		"given back by Java":    {rowOfJava("LeaseOwner", "w1", "LeaseStealer", "w1", "sw_run", "w1:a.1"), core.Lease{Owner: "w1", Checkpoint: core.FromHorizon}},
		"inside a batch":        {rowOfJava("Checkpoint", "it-7", "sw_taken", mark+" 3"), core.Lease{Checkpoint: core.Position{Token: "it-7", Sub: 3}}},
		"Java went on":          {rowOfJava("Checkpoint", "it-8", "sw_taken", mark+" 3", "sw_start", mark+" 2026-11-30T12:00:00Z", "sw_pending", mark+" 1 it-7", "sw_pendingState", []byte("x")), core.Lease{Checkpoint: core.Position{Token: "it-8"}}},
		"Java ended it":         {rowOfJava("Checkpoint", "SHARD_END", "sw_taken", mark+" 3"), core.Lease{Checkpoint: core.AtShardEnd}},
		"a resolved start":      {rowOfJava("Checkpoint", "it-7", "sw_start", mark+" 2026-11-30T12:00:00.5Z"), core.Lease{Checkpoint: core.Position{Token: "it-7"}, StartAt: time.Date(2026, 11, 30, 12, 0, 0, 5e8, time.UTC)}},
		"prepared": {rowOfJava("Checkpoint", "it-7", "sw_pending", mark+" 2 it-8", "sw_pendingState", []byte("x")), core.Lease{Checkpoint: core.Position{Token: "it-7"},
			Pending: &core.Pending{At: core.Position{Token: "it-8", Sub: 2}, State: []byte("x")}}},
		"strange columns": {rowOfJava("GoExtra", int64(1)), core.Lease{Checkpoint: core.FromHorizon, Raw: ots.Columns{"GoExtra": int64(1)}}},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.Key = keyOf("s1")
			got, err := ots.DecodeLease(c.want.Key, c.row)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

// Garbage is reported, with the row, the column, what it holds and what was expected.
func TestGarbage(t *testing.T) {
	for name, c := range map[string]struct {
		row   ots.Columns
		texts []string
	}{
		"debris":                   {ots.Columns{"LeaseCounter": int64(7)}, []string{"1 columns", "delete it"}},
		"no owner column":          {rowOfJava("LeaseOwner", nil, "x", "y"), []string{"LeaseOwner is missing", "STRING"}},
		"no stealer column":        {rowOfJava("LeaseStealer", nil, "x", "y"), []string{"LeaseStealer is missing"}},
		"no checkpoint column":     {rowOfJava("Checkpoint", nil, "x", "y"), []string{"Checkpoint is missing"}},
		"no parents column":        {rowOfJava("ParentShardIds", nil, "x", "y"), []string{"ParentShardIds is missing"}},
		"counter is a text":        {rowOfJava("LeaseCounter", "seven"), []string{`LeaseCounter is STRING "seven"`, "INTEGER"}},
		"counter is a fraction":    {rowOfJava("LeaseCounter", 7.5), []string{"DOUBLE 7.5"}},
		"owner is a number":        {rowOfJava("LeaseOwner", int64(7)), []string{"LeaseOwner is INTEGER 7"}},
		"checkpoint is binary":     {rowOfJava("Checkpoint", []byte("it")), []string{"BINARY of 2 bytes"}},
		"a start Java dies on":     {rowOfJava("Checkpoint", "LATEST"), []string{"Checkpoint", "LATEST", "iterator"}},
		"run is a number":          {rowOfJava("sw_run", int64(1)), []string{"sw_run"}},
		"ready is a text":          {rowOfJava("sw_ready", "yes"), []string{"sw_ready", "BOOLEAN"}},
		"taken without a mark":     {rowOfJava("sw_taken", "3"), []string{"sw_taken", "mark"}},
		"taken is no number":       {rowOfJava("Checkpoint", "it-7", "sw_taken", "87aa62c14f410c18 three"), []string{"sw_taken", "number of records"}},
		"taken of another word":    {rowOfJava("sw_taken", "84d0d27b7e7b6d10 3"), nil},
		"taken of a word":          {rowOfJava("sw_taken", "0f1ce921aa526698 3"), []string{"sw_taken", "TRIM_HORIZON"}},
		"start is no instant":      {rowOfJava("Checkpoint", "it-7", "sw_start", "87aa62c14f410c18 noon"), []string{"sw_start", "RFC 3339"}},
		"pending is no position":   {rowOfJava("Checkpoint", "it-7", "sw_pending", "87aa62c14f410c18 3 "), []string{"sw_pending", "empty"}},
		"state is a text":          {rowOfJava("Checkpoint", "it-7", "sw_pending", "87aa62c14f410c18 3 it-8", "sw_pendingState", "x"), []string{"sw_pendingState", "BINARY"}},
		"throughput below 0":       {rowOfJava("sw_throughput", -1.0), []string{"sw_throughput"}},
		"throughput is none":       {rowOfJava("sw_throughput", math.NaN()), []string{"sw_throughput"}},
		"range is half":            {rowOfJava("sw_range", strings.Repeat("0", 32)), []string{"sw_range"}},
		"range upside down":        {rowOfJava("sw_range", strings.Repeat("f", 32)+"-"+strings.Repeat("0", 32)), []string{"sw_range", "not above"}},
		"child under another name": {rowOfJava("sw_child_0000000000000000", "c1"), []string{"sw_child_0000000000000000"}},
		"a long text":              {rowOfJava("LeaseCounter", strings.Repeat("x", 1<<20)), []string{"LeaseCounter"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ots.DecodeLease(keyOf("s1"), c.row)
			if c.texts == nil {
				if err != nil {
					t.Errorf("what belongs to another checkpoint is not looked at: %v", err)
				}
				return
			}
			bad, ok := errors.AsType[*core.RowError](err)
			if !ok || bad.Key != keyOf("s1") {
				t.Fatalf("error is %v, want a *core.RowError of s1", err)
			}
			for _, text := range append(c.texts, "s1") {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("error %q does not say %q", err, text)
				}
			}
			if len(err.Error()) > 1000 {
				t.Errorf("the error is %d bytes long", len(err.Error()))
			}
		})
	}
}

// What can't be stored so that it is read back as the same is refused.
func TestUnstorable(t *testing.T) {
	for name, change := range map[string]func(l *core.Lease){
		"LATEST":                    func(l *core.Lease) { l.Checkpoint = core.FromLatest },
		"a time":                    func(l *core.Lease) { l.Checkpoint = core.From(time.Unix(1, 0)) },
		"no checkpoint":             func(l *core.Lease) { l.Checkpoint = core.Position{} },
		"a token that is a word":    func(l *core.Lease) { l.Checkpoint = core.Position{Token: "SHARD_END"} },
		"a token that is no text":   func(l *core.Lease) { l.Checkpoint = core.Position{Token: "\xff"} },
		"records taken of the end":  func(l *core.Lease) { l.Checkpoint = core.Position{Anchor: core.ShardEnd, Sub: 1} },
		"a pending start":           func(l *core.Lease) { l.Pending = &core.Pending{At: core.FromLatest} },
		"an owner that is no text":  func(l *core.Lease) { l.Owner = "\xff" },
		"next of nobody's":          func(l *core.Lease) { l.Next = "B" },
		"next is the owner":         func(l *core.Lease) { l.Owner, l.Next = "B", "B" },
		"a parent with a line feed": func(l *core.Lease) { l.Parents = []core.ShardID{"a\nb"} },
		"an empty parent":           func(l *core.Lease) { l.Parents = []core.ShardID{""} },
		"endless throughput":        func(l *core.Lease) { l.Throughput = math.Inf(1) },
	} {
		t.Run(name, func(t *testing.T) {
			l := core.Lease{Key: keyOf("s1"), Checkpoint: core.FromHorizon}
			change(&l)
			if _, err := ots.EncodeLease(&l); !errors.Is(err, core.ErrInvalid) {
				t.Errorf("error is %v, want ErrInvalid", err)
			}
		})
	}
}

func anyLease() *rapid.Generator[core.Lease] {
	text := rapid.StringN(1, 20, 60)
	id := rapid.StringMatching(`[a-z0-9_-]{1,12}`)
	return rapid.Custom(func(t *rapid.T) core.Lease {
		position := rapid.Custom(func(t *rapid.T) core.Position {
			switch rapid.IntRange(0, 3).Draw(t, "anchor") {
			case 0:
				return core.FromHorizon
			case 1:
				return core.AtShardEnd
			}
			token := text.Filter(func(s string) bool {
				return !slices.Contains([]string{"TRIM_HORIZON", "LATEST", "AT_TIMESTAMP", "SHARD_END"}, s)
			})
			return core.Position{Token: token.Draw(t, "token"), Sub: rapid.Uint64().Draw(t, "sub")}
		})
		l := core.Lease{
			Key: keyOf(core.ShardID(id.Draw(t, "shard"))), Counter: rapid.Int64Min(0).Draw(t, "counter"), Checkpoint: position.Draw(t, "checkpoint"),
			Ready: rapid.Bool().Draw(t, "ready"), Switches: rapid.Int64Min(0).Draw(t, "switches"), Throughput: rapid.Float64Range(0, 1e9).Draw(t, "throughput"),
		}
		if rapid.Bool().Draw(t, "owned") {
			l.Owner = core.WorkerID(text.Draw(t, "owner"))
			if next := core.WorkerID(text.Draw(t, "next")); next != l.Owner && rapid.Bool().Draw(t, "asked") {
				l.Next = next
			}
			if rapid.Bool().Draw(t, "has run") {
				l.Run = core.NewRun(l.Owner, id.Draw(t, "run"))
			}
		}
		if rapid.Bool().Draw(t, "started") {
			l.StartAt = time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "start"), rapid.Int64Range(0, 999999999).Draw(t, "ns")).UTC()
		}
		if rapid.Bool().Draw(t, "prepared") {
			l.Pending = &core.Pending{At: position.Draw(t, "pending")}
			if state := rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "state"); len(state) > 0 {
				l.Pending.State = state
			}
		}
		for _, p := range rapid.SliceOfNDistinct(id, 0, 2, rapid.ID).Draw(t, "parents") {
			l.Parents = append(l.Parents, core.ShardID(p))
		}
		for _, c := range rapid.SliceOfNDistinct(id, 0, 3, rapid.ID).Draw(t, "children") {
			l.Children = append(l.Children, core.ShardID(c))
		}
		slices.Sort(l.Children)
		if rapid.Bool().Draw(t, "ranged") {
			l.Range = &core.HashRange{Start: [16]byte{1, 2}, End: [16]byte{255, 15: 7}}
		}
		if rapid.Bool().Draw(t, "strange") {
			l.Raw = ots.Columns{"theirs": rapid.SampledFrom([]any{int64(1), 1.5, true, "x", []byte("y")}).Draw(t, "value")}
		}
		return l
	})
}

func TestRowsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := anyLease().Draw(t, "lease")
		row, err := ots.EncodeLease(&l)
		if err != nil {
			t.Fatal(err)
		}
		for name := range row {
			if !legalColumn(name) {
				t.Errorf("column %q can't be a column's name", name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(rowOfJava())) {
			if reflect.TypeOf(row[name]) != reflect.TypeOf(rowOfJava()[name]) {
				t.Errorf("%s is %T, and Java reads %T", name, row[name], rowOfJava()[name])
			}
		}
		back, err := ots.DecodeLease(l.Key, row)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(back, l) {
			t.Errorf("got  %+v\nwant %+v", back, l)
		}
	})
}

func legalColumn(name string) bool {
	return len(name) <= 255 && strings.Trim(name, "_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" && (name[0] < '0' || name[0] > '9')
}

// Whatever a Java worker does to a row leaves no position that it did not write.
func TestJavaWritesVoidOurs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := anyLease().Draw(t, "lease")
		row, err := ots.EncodeLease(&l)
		if err != nil {
			t.Fatal(err)
		}
		row["LeaseCounter"], row["LeaseOwner"], row["LeaseStealer"] = l.Counter/2+1, "java", ""
		row["Checkpoint"] = "iterator of Java's"
		back, err := ots.DecodeLease(l.Key, row)
		if err != nil {
			t.Fatal(err)
		}
		if back.Checkpoint != (core.Position{Token: "iterator of Java's"}) || !back.StartAt.IsZero() || back.Pending != nil || back.Run != "" {
			t.Errorf("after Java's checkpoint: %+v", back)
		}
		if back.Ready != l.Ready || !slices.Equal(back.Children, l.Children) {
			t.Errorf("what stands for the life of the row is gone: %+v", back)
		}
	})
}

func FuzzRow(f *testing.F) {
	f.Add("w1", "w2", int64(7), "it-7", "p1\np2\n", "w1:a.1", "87aa62c14f410c18 3", "87aa62c14f410c18 2026-11-30T12:00:00Z", "87aa62c14f410c18 2 it-8", []byte("x"), 1.5, "00-ff")
	f.Add("w1", "w1", int64(0), "SHARD_END", "", "", "", "", "", []byte{}, 0.0, "")
	f.Fuzz(func(t *testing.T, owner, stealer string, counter int64, checkpoint, parents, run, taken, start, pending string, state []byte, throughput float64, hashRange string) {
		row := ots.Columns{
			"LeaseOwner": owner, "LeaseStealer": stealer, "LeaseCounter": counter, "Checkpoint": checkpoint, "ParentShardIds": parents, "sw_run": run,
			"sw_pendingState": state, "sw_throughput": throughput,
		}
		for name, s := range map[string]string{"sw_taken": taken, "sw_start": start, "sw_pending": pending, "sw_range": hashRange} {
			if s != "" {
				row[name] = s
			}
		}
		l, err := ots.DecodeLease(keyOf("s1"), row)
		if err != nil {
			if _, ok := errors.AsType[*core.RowError](err); !ok || len(err.Error()) > 2000 {
				t.Fatalf("%T of %d bytes: %v", err, len(err.Error()), err)
			}
			return
		}
		again, err := ots.EncodeLease(&l)
		if err != nil {
			if strings.Contains(fmt.Sprint(row), "\ufffd") || strings.Contains(err.Error(), "UTF-8") {
				return // the service holds no such text
			}
			t.Fatalf("%+v was read and can't be written: %v", l, err)
		}
		back, err := ots.DecodeLease(keyOf("s1"), again)
		if err != nil {
			t.Fatalf("%v can't be read: %v", again, err)
		}
		if l.Pending != nil && len(l.Pending.State) == 0 {
			l.Pending.State, back.Pending.State = nil, nil
		}
		if !reflect.DeepEqual(l, back) {
			t.Fatalf("%+v\nbecame\n%+v", l, back)
		}
	})
}
