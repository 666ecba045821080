package dynamo_test

import (
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/dynamodb"
	"github.com/shardwarden/shardwarden/leasestore/dynamo"
)

// take2x is what a KCL 2.x does to take or steal a lease: it knows no checkpointOwner and leaves it (docs/reference/kcl.md 1.4).
func (s *service) take2x(t testing.TB, shard, me, counter string) {
	t.Helper()
	_, err := s.sdk().UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: aws.String(app), Key: item(t, `{"leaseKey":{"S":"`+shard+`"}}`),
		Expected: map[string]types.ExpectedAttributeValue{"leaseCounter": {Value: &types.AttributeValueMemberN{Value: counter}}},
		AttributeUpdates: map[string]types.AttributeValueUpdate{
			"leaseOwner":                   {Action: types.AttributeActionPut, Value: &types.AttributeValueMemberS{Value: me}},
			"leaseCounter":                 {Action: types.AttributeActionAdd, Value: &types.AttributeValueMemberN{Value: "1"}},
			"ownerSwitchesSinceCheckpoint": {Action: types.AttributeActionAdd, Value: &types.AttributeValueMemberN{Value: "1"}},
		},
	})
	must(t, err)
}

// Beside takers of KCL 2.x an ask counts as long as it is the latest of the two, and what they leave of it is nobody's ask.
func TestAskBesideTakersOf2x(t *testing.T) {
	srv := serve(t, emulator.Config{})
	s := srv.ready(t, dynamo.Layout(dynamo.KCL2))
	ctx := t.Context()
	l := lease("1")
	l.Owner, l.Run = "a", "a:1"
	l, err := s.Create(ctx, l)
	must(t, err)
	update := func(what string, seen core.Lease, w core.Write) core.Lease {
		t.Helper()
		l, err := s.Update(ctx, seen, w.Same, w.Set)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		return l
	}
	refused := func(what string, seen core.Lease, w core.Write) {
		t.Helper()
		_, err := s.Update(ctx, seen, w.Same, w.Set)
		expect(t, what, err, core.ErrConflict)
	}
	is := func(what string, owner, next core.WorkerID) core.Lease {
		t.Helper()
		l, err := s.Get(ctx, l.Key)
		must(t, err)
		if l.Owner != owner || l.Next != next {
			t.Fatalf("%s: owner %q next %q, want %q and %q; row %s", what, l.Owner, l.Next, owner, next, srv.row(t, "1"))
		}
		return l
	}

	asked := update("ask", l, core.Ask("b"))
	is("asked", "a", "b")
	refused("a renewal that knows nothing of the ask", l, core.Renew(nil))
	owned := update("renewal", asked, core.Renew(nil)) // counter 1
	is("renewed", "a", "b")

	srv.take2x(t, "1", "java", "1") // counter 2
	stolen := is("stolen in the middle of a hand-over", "java", "")
	refused("renewal by who had it", owned, core.Renew(nil))
	refused("its hand-over", owned, core.HandOver("b"))
	refused("its no", owned, core.Decline())
	refused("the ask taken back", asked, core.Unask())
	refused("an ask to who had it", l, core.Ask("c"))

	// The owner of 2.x is asked all the same by who does not know that it can't hear, and the row is right.
	asking := update("ask", stolen, core.Ask("c"))
	if asking.Owner != "java" || asking.Next != "c" {
		t.Errorf("asked: owner %q next %q", asking.Owner, asking.Next)
	}
	back := update("ask taken back", asking, core.Unask())
	is("taken back", "java", "")

	taken := update("taken from it", back, core.Take(&back, "b", "b:1"))
	if row := srv.row(t, "1"); taken.Owner != "b" || hasAny(row, "checkpointOwner", "sw_asked") {
		t.Errorf("after the take: owner %q, row %s", taken.Owner, row)
	}

	// Stolen by a worker while it is asked to hand over to it: the stamp fits, but the counter tells the two apart.
	asked = update("ask", taken, core.Ask("java"))
	srv.take2x(t, "1", "java", "3")
	refused("hand-over to a worker that has already taken", asked, core.HandOver("java"))
}

// What 2.x leaves behind a steal can be gone on with by each write, whatever it is.
func TestRowLeftBy2x(t *testing.T) {
	for name, write := range map[string]func(*core.Lease) core.Write{
		"take":     func(l *core.Lease) core.Write { return core.Take(l, "c", "c:1") },
		"renew":    func(*core.Lease) core.Write { return core.Renew(nil) },
		"accept":   func(*core.Lease) core.Write { return core.Accept("java:1", true) },
		"ask":      func(*core.Lease) core.Write { return core.Ask("c") },
		"decline":  func(*core.Lease) core.Write { return core.Decline() },
		"release":  func(*core.Lease) core.Write { return core.Release() },
		"handover": func(*core.Lease) core.Write { return core.HandOver("c") },
	} {
		for _, row := range []string{
			`"leaseOwner":{"S":"java"},"checkpointOwner":{"S":"a"},"sw_asked":{"S":"b"},"sw_run":{"S":"a:1"}`,
			`"leaseOwner":{"S":"java"},"checkpointOwner":{"S":"a"}`,
			`"leaseOwner":{"S":"java"},"checkpointOwner":{"S":"java"},"sw_asked":{"S":"java"}`,
			`"checkpointOwner":{"S":"a"},"sw_asked":{"S":"b"}`,
		} {
			t.Run(name, func(t *testing.T) {
				srv := serve(t, emulator.Config{})
				s := srv.ready(t, dynamo.Layout(dynamo.KCL2))
				srv.put(t, `{"leaseKey":{"S":"1"},"leaseCounter":{"N":"3"},"checkpoint":{"S":"495"},"checkpointSubSequenceNumber":{"N":"0"},`+row+`}`)
				l, err := s.Get(t.Context(), core.LeaseKey{Stream: stream, Shard: "1"})
				must(t, err)
				if l.Next != core.Nobody || l.Owner != core.Nobody && l.Owner != "java" {
					t.Fatalf("owner %q next %q", l.Owner, l.Next)
				}
				w := write(&l)
				got, err := s.Update(t.Context(), l, w.Same, w.Set)
				if name == "ask" && l.Owner == core.Nobody {
					expect(t, "an ask of nobody", err, core.ErrInvalid)
					return
				}
				must(t, err)
				want := w.Set.Apply(l)
				if got.Owner != want.Owner || got.Next != want.Next || got.Counter != want.Counter || got.Run != want.Run {
					t.Errorf("owner %q next %q counter %d run %q, want %q %q %d %q", got.Owner, got.Next, got.Counter, got.Run, want.Owner, want.Next, want.Counter, want.Run)
				}
			})
		}
	}
}

// Rows mean what the rules at the time of reading say, also in the reading that shows the rules to have changed.
func TestMeaningOfRowsChangesWithTheRules(t *testing.T) {
	srv := serve(t, emulator.Config{})
	s := srv.ready(t, dynamo.Layout(dynamo.Auto))
	owner := func() string {
		t.Helper()
		sight, err := s.Look(t.Context(), stream)
		must(t, err)
		if len(sight.Leases) != 1 {
			t.Fatalf("%d leases", len(sight.Leases))
		}
		return string(sight.Leases[0].Owner) + ">" + string(sight.Leases[0].Next)
	}
	srv.put(t, typedLease("1", `,"leaseOwner":{"S":"b"},"checkpointOwner":{"S":"a"},"sw_asked":{"S":"b"},"sw_run":{"S":"a:1"},"sw_ready":{"BOOL":true}`))
	if got := owner(); got != "a>b" {
		t.Errorf("asked: %s", got)
	}
	srv.take2x(t, "1", "java", "3")
	if got := owner(); got != "java>" {
		t.Errorf("stolen: %s", got)
	}
	srv.put(t, versionRow("leaseKey", "CLIENT_VERSION_3X"))
	if got := owner(); got != "a>java" {
		t.Errorf("as a leader of 3.x would mean it: %s", got)
	}
}

func hasAny(row string, attrs ...string) bool {
	for _, have := range attrsOf(row) {
		if slices.Contains(attrs, have) {
			return true
		}
	}
	return false
}
