package conformance

import (
	"context"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// call is one method of a store, for rules that try them all.
type call struct {
	name   string
	writes bool
	do     func(ctx context.Context) error
}

// calls are the methods on a row that is there; a write that goes through changes it.
func (t *table) calls(s core.LeaseStore, l core.Lease) []call {
	fresh := t.plain()
	return []call{
		{"List", false, func(ctx context.Context) error {
			_, err := core.Collect(s.List(ctx, t.stream))
			return err
		}},
		{"Get", false, func(ctx context.Context) error { _, err := s.Get(ctx, l.Key); return err }},
		{"Create", true, func(ctx context.Context) error { _, err := s.Create(ctx, fresh); return err }},
		{"Update", true, func(ctx context.Context) error {
			_, err := s.Update(ctx, l, core.SameCounter, core.Set{Bump: true, Checkpoint: &core.Position{Token: sequence(7)}})
			return err
		}},
		{"Delete", true, func(ctx context.Context) error { return s.Delete(ctx, l, core.SameCounter) }},
	}
}

func storeErrorRules() []rule[MakeStore] {
	kind := func(f Fault, name string, want error) rule[MakeStore] {
		return storeRule("error-"+name, "A service that is "+string(f)+" gives errors that match "+want.Error()+" from behind any wraps, and a write that failed so has changed nothing.", func(t *table) {
			b := need[Breaker](t.checker, t.h, "Break")
			l := t.create(t.full())
			heal := t.breakdown(b, f)
			for _, x := range t.calls(t.b, l) {
				if err := x.do(t.ctx); !is(err, want) {
					t.errorf("%s: %v, want %v", x.name, err, want)
				}
			}
			heal()
			t.want("row after the failures", t.get(l.Key), l)
			t.settle()
			t.complete("List after the failures", t.list(t.b, t.stream), map[core.LeaseKey]core.Lease{l.Key: l})
		})
	}
	return []rule[MakeStore]{
		kind(Unavailable, "unavailable", core.ErrUnavailable),
		kind(Throttled, "throttled", core.ErrThrottled),
		kind(Denied, "denied", core.ErrDenied),
		storeRule("write-sent-once", "A write whose answer is lost is ErrUnavailable, was carried out once, and is not sent again below the engine.", func(t *table) {
			b := need[Breaker](t.checker, t.h, "Break")
			l := t.create(t.full())
			heal := t.breakdown(b, LostAnswer)
			set := core.Set{Bump: true, Checkpoint: &core.Position{Token: sequence(7)}}
			if _, err := t.a.Update(t.ctx, l, core.SameCounter, set); !is(err, core.ErrUnavailable) {
				t.errorf("Update whose answer is lost: %v, want ErrUnavailable", err)
			}
			made := t.plain()
			if _, err := t.a.Create(t.ctx, made); !is(err, core.ErrUnavailable) {
				t.errorf("Create whose answer is lost: %v, want ErrUnavailable", err)
			}
			kids := core.Set{Bump: true, Children: []core.ShardID{"child-3"}}
			if _, err := t.a.Update(t.ctx, l, 0, kids); !is(err, core.ErrUnavailable) {
				t.errorf("Update without a condition whose answer is lost: %v, want ErrUnavailable", err)
			}
			heal()
			want := set.Apply(l)
			t.want("row", t.get(l.Key), kids.Apply(want))
			t.want("row made", t.get(made.Key), made)
		}),
		storeRule("cancelled-before", "A call whose context has ended already fails, and changes nothing.", func(t *table) {
			l := t.create(t.full())
			ctx, cancel := context.WithCancel(t.ctx)
			cancel()
			for _, x := range t.calls(t.b, l) {
				if err := x.do(ctx); err == nil || !ended(ctx, err) {
					t.errorf("%s with a context that has ended: %v, want its error", x.name, err)
				}
			}
			t.want("row after it", t.get(l.Key), l)
			t.settle()
			t.complete("List after it", t.list(t.b, t.stream), map[core.LeaseKey]core.Lease{l.Key: l})
		}),
		storeRule("cancelled-during", "A call that waits for a service that does not answer returns promptly when its context ends.", func(t *table) {
			b := need[Breaker](t.checker, t.h, "Break")
			l := t.create(t.full())
			heal := t.breakdown(b, Silent)
			defer heal()
			for _, x := range t.calls(t.b, l) {
				t.prompt(x.name, x.do)
			}
		}),
	}
}

// promptly is how long a call may need to see that its context has ended.
const promptly = time.Second

// prompt asks that a call that waits comes back when its context ends.
func (c *checker) prompt(what string, do func(ctx context.Context) error) {
	c.returns(what, func() {
		const after = 100 * time.Millisecond
		ctx, cancel := context.WithTimeout(c.ctx, after)
		defer cancel()
		began := time.Now()
		err := do(ctx)
		if took := time.Since(began); took > after+promptly {
			c.errorf("%s came back %v after its context had ended", what, took-after)
		}
		if err == nil {
			c.errorf("%s: no error, though it was not answered and its context ended", what)
		} else if ctx.Err() != nil && !ended(ctx, err) {
			c.errorf("%s: %v, want the error of its context, or ErrUnavailable", what, err)
		}
	})
}
