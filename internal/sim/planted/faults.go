//go:build planted

package planted

// fault is one way to break the engine: texts that are replaced in a file.
type fault struct {
	name  string
	rule  string // of the design or the protocol
	seeds int    // the simulation finds it within so many
	edits []edit
}

type edit struct{ file, old, new string }

// faults are what the simulation must find. Paths are from the root of the module.
var faults = []fault{
	{"renewal in the delivery loop", "2, 13: nothing that a handler does delays a renewal", 5, []edit{
		{"core/worker/deliver.go", `	return safely("handler", func() error { return proc.Process(c.ctx, b) })`,
			`	if c.h.w.cfg.Checkpoints == Automatic {
		c.h.token <- struct{}{}
		defer c.h.unlockWrite()
	}
	return safely("handler", func() error { return proc.Process(c.ctx, b) })`},
	}},
	{"own deadline from the end of the write", "2: from its start", 5, []edit{
		{"core/worker/holding.go", `			h.wrote(row, start)
			return nil`, `			h.wrote(row, time.Now())
			return nil`},
	}},
	{"own deadline from the end of the take", "2: from its start", 25, []edit{
		{"core/worker/look.go", `	w.hold(row, run, start, LeaseTaken, seen.Owner)`, `	w.hold(row, run, start.Add(time.Since(start)), LeaseTaken, seen.Owner)`},
	}},
	{"self-fence left out", "2: nothing is delivered after D_self", 5, []edit{
		{"core/worker/holding.go", `	return !h.over && now.Sub(h.goodAt) < h.w.trust`, `	return !h.over`},
		{"core/worker/holding.go", `Err: core.ErrUnavailable})
	if c != nil {
		c.end(core.ErrLeaseLost)
	}`, `Err: core.ErrUnavailable})
	_ = c`},
	}},
	{"handlers are not told when the lease runs out", "2: their contexts end with the right to process", 15, []edit{
		{"core/worker/holding.go", `Err: core.ErrUnavailable})
	if c != nil {
		c.end(core.ErrLeaseLost)
	}`, `Err: core.ErrUnavailable})
	_ = c`},
	}},
	{"D_self as long as D_obs", "2: two numbers, never one", 5, []edit{
		{"core/worker/worker.go", `c.LeaseDuration - c.StopMargin,`, `c.LeaseDuration,`},
	}},
	{"expiry counted from the start of the read", "1: from its end", 10, []edit{
		{"core/worker/look.go", `	sight, err := w.see(ctx, ids)
	end := time.Now()`, `	end := time.Now()
	sight, err := w.see(ctx, ids)`},
	}},
	{"a lost answer is credited to the re-read", "2: to the start of the oldest attempt", 25, []edit{
		{"core/worker/holding.go", `			h.goodAt = h.oldest //`, `			h.goodAt = time.Now() //`},
	}},
	{"a lost answer is credited to the latest attempt", "2: to the start of the oldest", 80, []edit{
		{"core/worker/holding.go", `		if h.unanswered == 0 {
			h.oldest = start
		}`, `		h.oldest = start`},
	}},
	{"take not conditional on the counter", "core/doc.go: Take", 5, []edit{
		{"core/writes.go", `	if seen.Owner != me {
		s.Switches = SwitchAdd
	}
	return Write{SameCounter | NotEnded, s}`, `	if seen.Owner != me {
		s.Switches = SwitchAdd
	}
	return Write{NotEnded, s}`},
	}},
	{"ask without a condition", "core/doc.go: Ask", 25, []edit{
		{"core/writes.go", `func Ask(me WorkerID) Write { return AskFor(me) }`, `func Ask(me WorkerID) Write { return Write{NotEnded, Set{Next: new(me)}} }`},
	}},
	{"a lease that was given is read before it is accepted", "4", 5, []edit{
		{"core/worker/look.go", `	write := core.Accept(run, ready)
	row, err := w.store.Update(callCtx, seen, write.Same, write.Set)`, `	row, err := w.store.Get(callCtx, seen.Key)`},
	}},
	{"a child starts though its parent has no lease yet", "5: a parent that is listed blocks", 20, []edit{
		{"core/lineage/gate.go", `	return NoLease, parent.shard != nil && !g.begins(child)`, `	return NoLease, false`},
		{"core/lineage/gate.go", `		return Unlisted, true //`, `		return Unlisted, false //`},
	}},
	{"a child of a merge waits for one parent", "5: for both", 5, []edit{
		{"core/lineage/gate.go", `	for _, p := range g.up.of(i) {
		if why`, `	for _, p := range g.up.of(i)[:min(1, len(g.up.of(i)))] {
		if why`},
	}},
	{"a take does not set Ready", "5: parents no longer matter after the first take", 5, []edit{
		{"core/writes.go", `Run: run, Ready: true}
	if seen.Owner`, `Run: run}
	if seen.Owner`},
	}},
	{"END before the leases of the children", "6", 5, []edit{
		{"core/worker/end.go", `		return w.createChildren(c.ctx, h, children)
	}); err`, `		return nil
	}); err`},
		{"core/worker/end.go", `	h.checkpointed(core.AtShardEnd)
	return errEnded`, `	h.checkpointed(core.AtShardEnd)
	_ = w.createChildren(w.base, h, children)
	return errEnded`},
	}},
	{"an old acknowledgement is stored after END", "7: a checkpoint never falls", 100, []edit{
		{"core/worker/end.go", `	h.acked(c, core.AtShardEnd) //`, `	//`},
	}},
	{"a finished lease is deleted before its children have begun", "6", 50, []edit{
		{"core/lineage/delete.go", `!g.childrenBegun(at, isGone), g.parentsRemain(at):`, `g.parentsRemain(at):`},
	}},
	{"a lease that was deleted after END is made again", "6: not what was read to its end", 5, []edit{
		{"core/lineage/create.go", `	case below[i].settled:
		return gone
	case anyDone:`, `	case anyDone:`},
		{"core/lineage/create.go", `	if root && !below[i].needed && !n.atStart && !g.appeared(below[i]) {
		return gone
	}
`, ``},
	}},
	{"checkpoint without a condition", "7: conditional on the counter held", 5, []edit{
		{"core/writes.go", `	return Write{SameCounter, Set{Bump: true, Checkpoint: new(p)`, `	return Write{0, Set{Bump: true, Checkpoint: new(p)`},
		{"core/worker/holding.go", `			w.Set = core.Store(ack, t).Set`, `			w = core.Store(ack, t)`},
	}},
	{"acknowledged before the handler returns", "7: never ahead of what was acknowledged", 5, []edit{
		{"core/worker/consume.go", `		b := core.NewBatch(c.session, p.page)
		var err error`, `		b := core.NewBatch(c.session, p.page)
		c.handled(b)
		var err error`},
	}},
	{"a batch of many keys is done when one is", "7: at the low-water mark", 40, []edit{
		{"core/worker/deliver.go", `			wg.Go(func() { errs[l] = c.deliverWhole(proc, b.Pick(idx), false) })`, `			wg.Go(func() {
				if errs[l] = c.deliverWhole(proc, b.Pick(idx), false); errs[l] == nil {
					c.handled(b)
				}
			})`},
	}},
	{"what a handler does after its right has ended counts", "core: it counts for nothing", 30, []edit{
		{"core/worker/holding.go", `	if h.over || h.fenced || h.consumer != c || c.ctx.Err() != nil {`, `	if h.over {`},
	}},
	{"a retry skips", "core: an error never skips records", 5, []edit{
		{"core/worker/deliver.go", `		if cfg.OnError.GiveUpAfter > 0 && n >=`, `		if n >= 3 {
			return nil
		}
		if cfg.OnError.GiveUpAfter > 0 && n >=`},
	}},
	{"a reader begun anew starts where the lease began", "design 6: from the last page read", 5, []edit{
		{"core/worker/read.go", `				r.close()
				reader = nil
			}
			pause := &b`, `				r.close()
				reader = nil
				at = c.start
			}
			pause := &b`},
	}},
	{"a page is lost when a read fails", "core: Next neither repeats nor skips", 5, []edit{
		{"core/worker/read.go", `		at = pageEnd(page, at)
		if !r.push(page, at) {`, `		at = pageEnd(page, at)
		if c.reads.errs > 0 && !page.End {
			c.reads.failed(nil)
			c.reads.errs = 0
			continue
		}
		if !r.push(page, at) {`},
	}},
	{"LATEST resolved by each worker", "design 2: once per stream", 40, []edit{
		{"core/worker/consume.go", `	c.reads.at = c.start`, `	if c.start.Anchor == core.Latest {
		c.start.Time = time.Now()
	}
	c.reads.at = c.start`},
	}},
	{"hand-over in two writes", "8: one write", 5, []edit{
		{"core/writes.go", `Set{Bump: true, Owner: new(to), Next: new(Nobody), Switches: SwitchAdd}`, `Set{Owner: new(to), Next: new(Nobody), Switches: SwitchAdd}`},
		{"core/worker/holding.go", `			h.w.noteRow(row)
			h.gone(to, row.Counter)`, `			row, _ = h.w.store.Update(ctx, row, 0, core.Set{Bump: true})
			h.w.noteRow(row)
			h.gone(to, row.Counter)`},
	}},
	{"hand-over without a condition", "core/doc.go: HandOver", 10, []edit{
		{"core/writes.go", `	return Write{SameCounter | SameNext, Set{Bump: true, Owner: new(to)`, `	return Write{0, Set{Bump: true, Owner: new(to)`},
	}},
	{"release without a condition", "core/doc.go: Release", 30, []edit{
		{"core/writes.go", `	return Write{SameCounter, Set{Bump: true, Owner: new(Nobody)`, `	return Write{0, Set{Bump: true, Owner: new(Nobody)`},
	}},
	{"decline leaves the counter", "8: declining bumps it", 10, []edit{
		{"core/writes.go", `	return Write{SameCounter | SameNext, Set{Bump: true, Next: new(Nobody)}}`, `	return Write{SameCounter | SameNext, Set{Next: new(Nobody)}}`},
	}},
	{"handed over though the handler has not returned", "8: user code returns first", 30, []edit{
		{"core/worker/stop.go", `				if !errors.Is(g.why, core.ErrShutdown) {
					w.decline(h, "the handler did not return in time")
				}
				return //`, `				//`},
	}},
	{"handed over before the checkpoint is in", "8: the checkpoint is in first", 5, []edit{
		{"core/worker/stop.go", `	if !ack.IsZero() {
		if err := h.store(by, ack, nil)`, `	if !ack.IsZero() && h == nil {
		if err := h.store(by, ack, nil)`},
	}},
	{"processed again after a hand-over without an answer", "8: once sent, never again under that counter", 20, []edit{
		{"core/worker/holding.go", `		err = h.resolveGift(ctx, seen, start, err, to)
		if err == nil || errors.Is(err, core.ErrLeaseLost) {
			return err
		}`, `		err = h.resolveGift(ctx, seen, start, err, to)
		if err == nil || errors.Is(err, core.ErrLeaseLost) {
			return err
		}
		if to != core.Nobody {
			h.resume(nil)
			return err
		}`},
	}},
}
