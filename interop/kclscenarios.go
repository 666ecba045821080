package main

import (
	"context"
	"time"
)

// kclScenario is what a fleet is led through.
type kclScenario struct {
	name, what string
	jvms       int
	play       func(context.Context, *kclFleet) error
	slow       time.Duration
	only       func(pairing) bool // nil: every pairing
}

// joinStopKill: one joins; it stops in order; another joins and is killed. The first reads all in between, and at the end.
func joinStopKill(ctx context.Context, f *kclFleet) error {
	a, err := f.begin(ctx)
	if err != nil {
		return err
	}
	b, err := f.join(ctx, f.second, a)
	if err != nil {
		return err
	}
	if err := f.stopAndTake(ctx, b, a); err != nil {
		return err
	}
	if b, err = f.join(ctx, f.second, a); err != nil {
		return err
	}
	return f.killAndTake(ctx, b, a)
}

// succeed: one joins; the first, who leads, stops in order; another of the first kind joins; the one that leads now is killed.
func succeed(ctx context.Context, f *kclFleet) error {
	a, err := f.begin(ctx)
	if err != nil {
		return err
	}
	b, err := f.join(ctx, f.second, a)
	if err != nil {
		return err
	}
	if err := f.stopAndTake(ctx, a, b); err != nil {
		return err
	}
	if a, err = f.join(ctx, f.first, b); err != nil {
		return err
	}
	return f.killAndTake(ctx, b, a)
}

// begin starts the first worker and waits until it has all leases.
func (f *kclFleet) begin(ctx context.Context) (*member, error) {
	if f.first == javaKind {
		if err := f.seed(ctx); err != nil {
			return nil, err
		}
	}
	a, err := f.start(ctx, f.first)
	if err != nil {
		return nil, err
	}
	if err := f.alone(ctx, a); err != nil {
		return nil, err
	}
	return a, f.took(ctx, a)
}

// took has Java's log show that it has leases, and reads them, and leads where it is the first.
func (f *kclFleet) took(ctx context.Context, m *member) error {
	if m.kind != javaKind {
		return nil
	}
	return m.saw(ctx, m.worker+" takes leases", javaTook, javaReads)
}

// join starts another worker and waits until it shares the leases with old.
func (f *kclFleet) join(ctx context.Context, k kind, old *member) (*member, error) {
	b, err := f.start(ctx, k)
	if err != nil {
		return nil, err
	}
	if err := f.share(ctx, b, old); err != nil {
		return nil, err
	}
	return b, f.took(ctx, b)
}

// stopAndTake stops m in order, and waits until rest has everything.
func (f *kclFleet) stopAndTake(ctx context.Context, m, rest *member) error {
	if err := f.stop(ctx, m); err != nil {
		return err
	}
	if err := f.alone(ctx, rest); err != nil {
		return err
	}
	return f.succeeded(ctx, rest)
}

// killAndTake kills m, and waits until rest has everything.
func (f *kclFleet) killAndTake(ctx context.Context, m, rest *member) error {
	if err := f.kill(ctx, m); err != nil {
		return err
	}
	if err := f.alone(ctx, rest); err != nil {
		return err
	}
	return f.succeeded(ctx, rest)
}

// succeeded has the log of a Java worker that is left show that it took what was left behind, and leads.
func (f *kclFleet) succeeded(ctx context.Context, rest *member) error {
	if rest.kind != javaKind {
		return nil
	}
	return rest.saw(ctx, rest.worker+" takes what is left", javaTook, javaReads)
}
