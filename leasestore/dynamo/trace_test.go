package dynamo_test

import (
	"strings"
	"testing"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/dynamodb"
)

const (
	wholeRange = "endingHashKey=S 340282366920938463463374607431768211455 entityType=S LEASE"
	fixed      = "parentShardId=SS [shardId-000000000000] startingHashKey=S 0"
	key1       = "leaseKey=S shardId-000000000001"
	stamp      = " sw_stream=S 123456789012:orders:1796039487"
)

// The row after each write of a hand-over's life is the row that KCL 3.5.1 makes of the same story (docs/reference/kcl.md 1.4, row traces):
// attributes and types, but for ours, which the lines show behind a bar.
func TestRowTraceOfTheKCL(t *testing.T) {
	srv := serve(t, emulator.Config{})
	s := srv.ready(t)
	ctx := t.Context()

	l := lease("shardId-000000000001")
	l.Parents = []core.ShardID{"shardId-000000000000"}
	l.Range = &core.HashRange{}
	for i := range l.Range.End {
		l.Range.End[i] = 0xff
	}
	l, err := s.Create(ctx, l)
	must(t, err)

	step := func(name, want string) {
		t.Helper()
		got := srv.row(t, "shardId-000000000001")
		var java, ours []string
		for _, a := range splitAttrs(got) {
			if strings.HasPrefix(a, "sw_") {
				ours = append(ours, a)
			} else {
				java = append(java, a)
			}
		}
		got = strings.Join(java, " ")
		if len(ours) > 0 {
			got += " | " + strings.Join(ours, " ")
		}
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
	}
	update := func(w core.Write) {
		t.Helper()
		var err error
		l, err = s.Update(ctx, l, w.Same, w.Set)
		must(t, err)
	}

	step("create", "checkpoint=S TRIM_HORIZON checkpointSubSequenceNumber=N 0 "+wholeRange+" leaseCounter=N 0 "+key1+" ownerSwitchesSinceCheckpoint=N 0 "+fixed+" |"+stamp)

	take := core.Take(&l, "A", "A:1")
	take.Set.Switches = core.SwitchKeep // the KCL counts changes between workers only
	update(take)
	step("take A", "checkpoint=S TRIM_HORIZON checkpointSubSequenceNumber=N 0 "+wholeRange+" leaseCounter=N 1 "+key1+" leaseOwner=S A ownerSwitchesSinceCheckpoint=N 0 "+fixed+" | sw_ready=BOOL true sw_run=S A:1"+stamp)
	ours := " | sw_ready=BOOL true sw_run=S A:1" + stamp

	tput := 0.0000124
	update(core.Renew(&tput))
	step("renew", "checkpoint=S TRIM_HORIZON checkpointSubSequenceNumber=N 0 "+wholeRange+" leaseCounter=N 2 "+key1+" leaseOwner=S A ownerSwitchesSinceCheckpoint=N 0 "+fixed+" throughputKBps=N 0.000012"+ours)

	update(core.PrepareStore(&core.Pending{At: core.Position{Token: "495", Sub: 7}, State: []byte{0xca, 0xfe}}))
	step("prepare", "checkpoint=S TRIM_HORIZON checkpointSubSequenceNumber=N 0 "+wholeRange+" leaseCounter=N 3 "+key1+" leaseOwner=S A ownerSwitchesSinceCheckpoint=N 0 "+
		"parentShardId=SS [shardId-000000000000] pendingCheckpoint=S 495 pendingCheckpointState=B cafe pendingCheckpointSubSequenceNumber=N 7 startingHashKey=S 0 throughputKBps=N 0.000012"+ours)

	stale := l
	update(core.Store(core.Position{Token: "495", Sub: 7}, nil))
	step("commit", "checkpoint=S 495 checkpointSubSequenceNumber=N 7 "+wholeRange+" leaseCounter=N 4 "+key1+" leaseOwner=S A ownerSwitchesSinceCheckpoint=N 0 "+fixed+" throughputKBps=N 0.000012"+ours)

	w := core.Renew(nil)
	_, err = s.Update(ctx, stale, w.Same, w.Set)
	expect(t, "stale renew by the old holder", err, core.ErrConflict)

	update(core.Take(&l, "A2", "A2:1"))
	ours = " | sw_ready=BOOL true sw_run=S A2:1" + stamp
	step("take A2", "checkpoint=S 495 checkpointSubSequenceNumber=N 7 "+wholeRange+" leaseCounter=N 5 "+key1+" leaseOwner=S A2 ownerSwitchesSinceCheckpoint=N 1 "+fixed+" throughputKBps=N 0.000012"+ours)

	owner := l
	ask := core.Ask("B")
	asked, err := s.Update(ctx, l, ask.Same, ask.Set)
	must(t, err)
	asking := strings.Replace(ours, "| ", "| sw_asked=S B ", 1)
	step("handoff B: the counter stays", "checkpoint=S 495 checkpointOwner=S A2 checkpointSubSequenceNumber=N 7 "+wholeRange+" leaseCounter=N 5 "+key1+" leaseOwner=S B ownerSwitchesSinceCheckpoint=N 1 "+fixed+" throughputKBps=N 0.000012"+asking)
	if asked.Owner != "A2" || asked.Next != "B" || asked.Run != "A2:1" {
		t.Errorf("after the ask: owner %q next %q run %q, want A2, B, A2:1", asked.Owner, asked.Next, asked.Run)
	}
	_, err = s.Update(ctx, owner, ask.Same, ask.Set)
	expect(t, "second handoff attempt", err, core.ErrConflict)

	// The owner hears of it by its refused renewal, and goes on under both owners.
	_, err = s.Update(ctx, owner, w.Same, w.Set)
	expect(t, "renewal that knows no next owner", err, core.ErrConflict)
	l = asked
	update(core.Renew(nil))
	update(core.Store(core.Position{Token: "496"}, nil))
	step("renewed and checkpointed by A2", "checkpoint=S 496 checkpointOwner=S A2 checkpointSubSequenceNumber=N 0 "+wholeRange+" leaseCounter=N 7 "+key1+" leaseOwner=S B ownerSwitchesSinceCheckpoint=N 0 "+fixed+" throughputKBps=N 0.000012"+asking)

	update(core.HandOver("B"))
	ours = " | sw_ready=BOOL true" + stamp
	step("transfer", "checkpoint=S 496 checkpointSubSequenceNumber=N 0 "+wholeRange+" leaseCounter=N 8 "+key1+" leaseOwner=S B ownerSwitchesSinceCheckpoint=N 1 "+fixed+" throughputKBps=N 0.000012"+ours)

	update(core.Accept("B:1", false))
	if l.Run != "B:1" || l.Owner != "B" {
		t.Errorf("after accepting: owner %q run %q", l.Owner, l.Run)
	}
	update(core.Release())
	step("evict", "checkpoint=S 496 checkpointSubSequenceNumber=N 0 "+wholeRange+" leaseCounter=N 10 "+key1+" ownerSwitchesSinceCheckpoint=N 1 "+fixed+" throughputKBps=N 0.000012"+ours)

	// Metadata: the counter stays.
	update(core.AddChildren([]core.ShardID{"shardId-000000000003"}))
	update(core.AddChildren([]core.ShardID{"shardId-000000000002", "shardId-000000000003"}))
	step("children", "checkpoint=S 496 checkpointSubSequenceNumber=N 0 childShardIds=SS [shardId-000000000002 shardId-000000000003] "+wholeRange+" leaseCounter=N 10 "+key1+" ownerSwitchesSinceCheckpoint=N 1 "+fixed+" throughputKBps=N 0.000012"+ours)
}

// A declined hand-over leaves the owner where it was and kills one still on its way.
func TestDecline(t *testing.T) {
	srv := serve(t, emulator.Config{})
	s := srv.ready(t)
	ctx := t.Context()
	l := lease("1")
	l.Owner = "A"
	l, err := s.Create(ctx, l)
	must(t, err)
	ask, late, decline := core.Ask("B"), core.HandOver("B"), core.Decline()
	asked, err := s.Update(ctx, l, ask.Same, ask.Set)
	must(t, err)
	declined, err := s.Update(ctx, asked, decline.Same, decline.Set)
	must(t, err)
	if declined.Owner != "A" || declined.Next != core.Nobody || declined.Counter != 1 {
		t.Errorf("after declining: owner %q next %q counter %d, want A, nobody, 1", declined.Owner, declined.Next, declined.Counter)
	}
	if row := srv.row(t, "1"); strings.Contains(row, "checkpointOwner") || !strings.Contains(row, "leaseOwner=S A ") {
		t.Errorf("row after declining: %s", row)
	}
	_, err = s.Update(ctx, asked, late.Same, late.Set)
	expect(t, "the hand-over that was on its way", err, core.ErrConflict)
}

// splitAttrs splits what show prints; values hold blanks, so it goes by the names.
func splitAttrs(row string) (out []string) {
	for word := range strings.FieldsSeq(row) {
		if name, _, ok := strings.Cut(word, "="); ok && name != "" {
			out = append(out, word)
		} else {
			out[len(out)-1] += " " + word
		}
	}
	return out
}
