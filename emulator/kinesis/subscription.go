package kinesis

import (
	"errors"
	"net/http"
	"slices"
	"time"
)

// subscription is one running SubscribeToShard. Its request's goroutine serves it; the server's lock guards it.
type subscription struct {
	s      *Server
	stream *stream
	shard  *shard
	began  time.Time

	next     uint64    // counter of the first record not yet sent
	quiet    time.Time // when the last event was sent, or the subscription began
	sent     bucket    // bytes
	failed   *apiError // what ends it
	silenced bool      // by HalfOpen: nothing is sent any more
	endEarly bool

	wake chan struct{} // there may be something to do
}

// eventBytes is what one event holds at most, unless its first record is larger. The service does not document it.
const eventBytes = 1 << 20

// fail ends a subscription with an error within its stream, unless it has ended.
func (sub *subscription) fail(e *apiError) {
	if sub.failed == nil {
		sub.failed = e
		sub.nudge()
	}
}

func (sub *subscription) nudge() {
	select {
	case sub.wake <- struct{}{}:
	default: // it is about to look anyway
	}
}

// changed lets the subscriptions to a shard look at it: it has more records, or it was closed, or is gone.
func (h *shard) changed() {
	for _, sub := range h.subscriptions {
		sub.nudge()
	}
}

// pushed is the next thing that a subscription sends.
type pushed struct {
	frames []byte
	last   bool // the stream ends behind it
	cut    bool // only half of it is sent, and the connection is closed
}

// serve answers a call of SubscribeToShard until the subscription ends.
func (sub *subscription) serve(w http.ResponseWriter, r *http.Request, fx effects) {
	defer sub.leave()
	if fx.dropAnswer {
		panic(http.ErrAbortHandler)
	}
	h := w.Header()
	id := sub.s.requestID()
	h.Set("Content-Type", eventStreamType)
	h.Set("X-Amzn-Requestid", id)
	h.Set("X-Amz-Id-2", id)
	w.WriteHeader(http.StatusOK)
	control := http.NewResponseController(w)
	// A client that reads nothing holds its subscription no longer than one that does. A connection that can't have a deadline does without.
	_ = control.SetWriteDeadline(sub.began.Add(sub.s.config.SubscriptionLife + time.Second))
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }()
	sub.endEarly = fx.endEarly // nobody else looks at it
	p := pushed{frames: appendInitialResponse(nil), cut: fx.cutAnswer}
	for {
		buf := p.frames[:0]
		if p.cut {
			p.frames = p.frames[:len(p.frames)/2]
		}
		if _, err := w.Write(p.frames); err != nil {
			return
		}
		if err := control.Flush(); err != nil {
			return
		}
		switch {
		case p.cut:
			panic(http.ErrAbortHandler)
		case p.last:
			return
		}
		var wait time.Duration
		for {
			if p, wait = sub.push(buf); wait <= 0 {
				break
			}
			t := time.NewTimer(wait)
			select {
			case <-sub.wake:
			case <-t.C:
			case <-r.Context().Done():
				t.Stop()
				return
			case <-sub.s.closed:
				panic(http.ErrAbortHandler)
			}
			t.Stop()
		}
	}
}

func (sub *subscription) leave() {
	sub.s.mu.Lock()
	defer sub.s.mu.Unlock()
	h := sub.shard
	h.subscriptions = slices.DeleteFunc(h.subscriptions, func(other *subscription) bool { return other == sub })
}

// push gives what is to be sent now, or how long there is nothing unless something wakes the subscription.
func (sub *subscription) push(buf []byte) (p pushed, wait time.Duration) {
	s := sub.s
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	ends := sub.began.Add(s.config.SubscriptionLife)
	if sub.silenced {
		return p, time.Hour
	}
	st, err := s.named(sub.stream.name, now.UnixMilli())
	if err == nil {
		err = s.readable(st)
	}
	if err == nil && (st != sub.stream || !sub.shard.listed) {
		err = s.noSuchShard(sub.stream, sub.shard.id)
	}
	if e, ok := errors.AsType[*apiError](err); ok && sub.failed == nil {
		sub.failed = e
	}
	switch {
	case sub.failed != nil:
		return pushed{frames: appendException(buf, sub.failed), last: true}, 0
	case !now.Before(ends):
		return pushed{frames: buf, last: true}, 0
	}
	until := sub.quiet.Add(s.config.HeartbeatEvery)
	if ends.Before(until) {
		until = ends
	}
	if st.change != nil {
		if due := time.UnixMilli(st.due); due.Before(until) {
			until = due
		}
	}
	sub.shard.trimOlder(now.UnixMilli() - st.retention.Milliseconds())
	pg, after := sub.shard.log.read(sub.shard.log.find(func(m meta) bool { return m.n >= sub.next }), s.config.EventRecords, eventBytes)
	following, more := sub.shard.log.at(after)
	ended := !more && !sub.shard.open()
	if pg.count == 0 && !ended && now.Before(sub.quiet.Add(s.config.HeartbeatEvery)) {
		return p, max(1, until.Sub(now))
	}
	if !s.config.NoLimits && !sub.sent.has(now, readBytesPerSecond, float64(pg.size)) {
		// As soon as the bucket has room, or is empty where the event is more than it can hold.
		over := sub.sent.used - max(0, readBytesPerSecond-float64(pg.size))
		return p, max(time.Millisecond, min(ends.Sub(now), time.Duration(over/readBytesPerSecond*float64(time.Second))+time.Millisecond))
	}

	sub.sent.take(float64(pg.size))
	sub.quiet = now
	e := event{page: pg, of: sequence{stream: st.created, shard: sub.shard.index}}
	if pg.count > 0 {
		sub.next = pg.last.n + 1
	}
	switch {
	case ended:
		e.children = childrenOf(sub.shard)
	case pg.count > 0:
		e.continues = pg.last.n
	default: // the shard has nothing up to here
		sub.next = max(sub.next, st.counter+1)
		e.continues = st.counter
	}
	if more {
		e.behind = max(1, now.UnixMilli()-pick(pg.count > 0, pg.last, following).arrived)
	}
	e.over = ended || sub.endEarly
	p = pushed{frames: e.append(buf), last: e.over}
	switch f, hit := s.pushFault(st.name, sub.shard.id); {
	case !hit:
	case f.Kind == HalfOpen:
		sub.silenced = true
		return pushed{}, time.Hour
	case f.Kind == FailStream:
		sub.failed = refuse(f.Exception, "The subscription failed (injected fault).")
		return pushed{frames: appendException(buf, sub.failed), last: true}, 0
	case f.Kind == CutStream:
		p.cut = true
	case f.Kind == CorruptEvent:
		p.frames[len(p.frames)-1] ^= 0xff
	}
	return p, 0
}

// event is a SubscribeToShardEvent.
type event struct {
	page      page
	of        sequence // all but the counter
	continues uint64   // counter of the ContinuationSequenceNumber
	over      bool     // there is none
	children  []childShard
	behind    int64
}

func (e *event) append(b []byte) []byte {
	from := len(b)
	w := writer{b: append(beginEvent(b, "SubscribeToShardEvent"), '{')}
	w.records(e.page, e.of)
	if len(e.children) > 0 {
		w.children(e.children)
	}
	if !e.over {
		q := e.of
		q.n = e.continues
		w.textField("ContinuationSequenceNumber", q.String())
	}
	w.intField("MillisBehindLatest", e.behind)
	return endFrame(append(w.b, '}'), from)
}
