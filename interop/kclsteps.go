package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func (f *kclFleet) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	f.say("%s", text)
	f.notes = append(f.notes, text)
}

// owned are the leases that are not at their end, by owner.
func (f *kclFleet) owned(ctx context.Context) (map[string][]string, error) {
	t, err := readTable(ctx, f.d, app)
	if _, none := errors.AsType[*types.ResourceNotFoundException](err); none {
		return nil, nil // nobody has made it yet
	}
	if err != nil {
		return nil, err
	}
	out := map[string][]string{}
	for _, i := range t.Items {
		if isLease(i.str("entityType")) && i.str("checkpoint") != "SHARD_END" {
			out[i.owner()] = append(out[i.owner()], i.str("leaseKey"))
		}
	}
	return out, nil
}

// leader is who holds the lock, in the lease table or in that beside it.
func (f *kclFleet) leader(ctx context.Context) (string, error) {
	table, key := app, "leaseKey"
	if f.layout() == "kcl3-tables" {
		table, key = app+"-CoordinatorState", "key"
	}
	out, err := f.d.GetItem(ctx, &dynamodb.GetItemInput{TableName: &table, ConsistentRead: new(true), Key: map[string]types.AttributeValue{key: text("Leader")}})
	if _, none := errors.AsType[*types.ResourceNotFoundException](err); none {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	row, err := plainItem(out.Item)
	return row.str("ownerName"), err
}

// until waits for what the leases say. open says what is missing, empty: nothing.
func (f *kclFleet) until(ctx context.Context, what string, open func(owned map[string][]string) string) error {
	began := time.Now()
	err := poll(ctx, stepTime, func() (string, error) {
		if err := f.j.health(); err != nil {
			return "", err
		}
		owned, err := f.owned(ctx)
		if err != nil {
			return "", err
		}
		if missing := open(owned); missing != "" {
			return fmt.Sprintf("%s: %s (leases: %v)", what, missing, owned), nil
		}
		return "", nil
	})
	if err == nil {
		f.note("%s after %.1f s", what, time.Since(began).Seconds())
	}
	return err
}

// share waits until newcomer owns leases and old still owns some.
func (f *kclFleet) share(ctx context.Context, newcomer, old *member) error {
	return f.until(ctx, newcomer.worker+" has leases beside "+old.worker, func(owned map[string][]string) string {
		if len(owned[newcomer.worker]) == 0 || len(owned[old.worker]) == 0 {
			return "one of the two has none"
		}
		return ""
	})
}

// reads waits until m has delivered, from now on, of every lease that it owns. What is asked of a worker of the KCL before its consumers run may be left
// undone for ever: a hand-over that its leader begins in that moment leaves the row with two owners, and nobody reads the shard (3.4.2).
func (f *kclFleet) reads(ctx context.Context, m *member) error {
	seen, gave := len(f.j.deliveries()), map[string]bool{}
	return poll(ctx, stepTime, func() (string, error) {
		if err := f.j.health(); err != nil {
			return "", err
		}
		owned, err := f.owned(ctx)
		if err != nil {
			return "", err
		}
		more := f.j.from(seen)
		seen += len(more)
		for _, d := range more {
			if d.worker == m.worker {
				gave[d.shard] = true
			}
		}
		for _, key := range owned[m.worker] {
			if !gave[f.shardOf(key)] {
				return fmt.Sprintf("%s delivers nothing of %s", m.worker, key), nil
			}
		}
		return "", nil
	})
}

// alone waits until m owns every lease that is not at its end.
func (f *kclFleet) alone(ctx context.Context, m *member) error {
	return f.until(ctx, m.worker+" has all leases", func(owned map[string][]string) string {
		for w, keys := range owned {
			if w != m.worker {
				return fmt.Sprintf("%v are of %q", keys, w)
			}
		}
		if len(owned) == 0 {
			return "there are none"
		}
		return ""
	})
}

// kill is kill -9, in the middle of what it delivers.
func (f *kclFleet) kill(ctx context.Context, m *member) error {
	had := f.j.of(m.worker)
	if err := f.j.until(ctx, stepTime, m.worker+" delivering before its kill", func() bool { return f.j.of(m.worker) > had }); err != nil {
		return err
	}
	return f.killNow(ctx, m)
}

func (f *kclFleet) killNow(ctx context.Context, m *member) error {
	if err := m.kill(); err != nil {
		return err
	}
	return f.noteKill(ctx, m)
}

// noteKill remembers what m owned when it was killed.
func (f *kclFleet) noteKill(ctx context.Context, m *member) error {
	k := kill{worker: m.worker, at: time.Now()}
	// Nobody can have taken its leases yet: they run for seconds.
	t, err := readTable(ctx, f.d, app)
	if err != nil {
		return err
	}
	k.checkpoints, k.subs = map[string]string{}, map[string]uint64{}
	for _, i := range t.Items {
		if isLease(i.str("entityType")) && i.owner() == m.worker {
			shard := f.shardOf(i.str("leaseKey"))
			k.checkpoints[shard] = i.str("checkpoint")
			if k.subs[shard], err = strconv.ParseUint(i.str("checkpointSubSequenceNumber"), 10, 64); err != nil {
				return fmt.Errorf("lease %s: %w", i.str("leaseKey"), err)
			}
		}
	}
	if len(k.checkpoints) == 0 {
		return fmt.Errorf("%s owned no lease when it was killed", m.worker)
	}
	f.kills = append(f.kills, k)
	f.say("killed %s, which owned %v", m.worker, slices.Sorted(maps.Keys(k.checkpoints)))
	return nil
}

// stop asks m to end as a deploy does. Java waits for its processors, up to 20 s by kclpeer.
func (f *kclFleet) stop(ctx context.Context, m *member) error {
	took, err := m.terminate(ctx, time.Minute)
	if err == nil {
		m.stopped, m.stoppedAt = true, time.Now()
		f.note("%s stopped in %.1f s", m.worker, took.Seconds())
	}
	return err
}
