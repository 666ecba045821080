package kclsim

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strconv"
	"time"
)

// lock is what the lock client (dynamodb-lock-client 1.4.0) and the decider around it remember.
type lock struct {
	held    bool
	version string    // of the lock, while held
	foreign string    // the version seen of another's lock
	since   time.Time // when it was first seen
	checked time.Time // when somebody who does not lead last tried
}

const leaderKey = "Leader"

// leads reports whether this worker leads. One that does not tries to, at most once a heartbeat period.
func (w *Worker) leads(ctx context.Context) bool {
	w.mu.Lock()
	held, due := w.lock.held, time.Since(w.lock.checked) >= w.s.LeaderHeartbeat || w.lock.checked.IsZero()
	if !held && due {
		w.lock.checked = time.Now()
	}
	w.mu.Unlock()
	if held || !due {
		return held
	}
	return w.tryLock(ctx)
}

func (w *Worker) tryLock(ctx context.Context) bool {
	at := w.lockPlace()
	row, err := w.read(ctx, at, leaderKey)
	if err != nil {
		return false
	}
	condition, values := "attribute_not_exists(#pk)", item{}
	if row != nil {
		version := textOf(row, "recordVersionNumber")
		lasts, err := strconv.ParseInt(textOf(row, "leaseDuration"), 10, 64)
		if err != nil {
			w.fault("reads a lock row whose leaseDuration is no number: %q", textOf(row, "leaseDuration"))
			return false
		}
		w.mu.Lock()
		if w.lock.foreign != version {
			w.lock.foreign, w.lock.since = version, time.Now()
		}
		waited := time.Since(w.lock.since) >= time.Duration(lasts)*time.Millisecond
		w.mu.Unlock()
		switch {
		case textOf(row, "isReleased") == "1":
			condition, values = "attribute_exists(#pk) AND isReleased = :v", item{":v": str("1")}
		case !waited:
			return false
		default:
			condition, values = "attribute_exists(#pk) AND recordVersionNumber = :v", item{":v": str(version)}
		}
	}
	version := uuid()
	mine := item{at.key: str(leaderKey), "ownerName": str(w.s.ID), "leaseDuration": str(strconv.FormatInt(w.s.LeaderLease.Milliseconds(), 10)), "recordVersionNumber": str(version)}
	if w.s.Version >= V35 {
		mine["entityType"] = str("LEADER")
	}
	if err := w.put(ctx, at, mine, condition, values); err != nil {
		return false
	}
	w.mu.Lock()
	w.lock = lock{held: true, version: version}
	w.assigner = assigner{} // what the pass of a former term saw is forgotten
	w.mu.Unlock()
	w.note("leads")
	return true
}

// heartbeat writes the lock anew. Where it is no longer as written, the worker leads no more.
func (w *Worker) heartbeat(ctx context.Context) {
	w.mu.Lock()
	l := w.lock
	w.mu.Unlock()
	if !l.held {
		return
	}
	at, next := w.lockPlace(), uuid()
	_, err := w.update(ctx, write{
		at: at, key: leaderKey, condition: "attribute_exists(#pk) AND recordVersionNumber = :v AND ownerName = :me", names: map[string]string{"#pk": at.key},
		expression: "SET recordVersionNumber = :n, leaseDuration = :d",
		values:     item{":v": str(l.version), ":me": str(w.s.ID), ":n": str(next), ":d": str(strconv.FormatInt(w.s.LeaderLease.Milliseconds(), 10))},
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case errors.Is(err, errCondition):
		w.lock = lock{}
		w.log = append(w.log, time.Now().Format("15:04:05.000 ")+"leads no more: the lock is another's")
	case err == nil && w.lock.version == l.version:
		w.lock.version = next
	}
}

// unlock gives the lock back: the row is deleted.
func (w *Worker) unlock(ctx context.Context) {
	w.mu.Lock()
	l := w.lock
	w.lock = lock{checked: time.Now()}
	w.mu.Unlock()
	if !l.held {
		return
	}
	at := w.lockPlace()
	err := w.remove(ctx, at, leaderKey, "attribute_exists(#pk) AND recordVersionNumber = :v AND ownerName = :me", item{":v": str(l.version), ":me": str(w.s.ID)}, map[string]string{"#pk": at.key})
	w.note("gives the lock back: %v", err)
}

func uuid() string {
	b := make([]byte, 16)
	rand.Read(b) // never fails, by its documentation
	t := hex.EncodeToString(b)
	return t[:8] + "-" + t[8:12] + "-" + t[12:16] + "-" + t[16:20] + "-" + t[20:]
}
