package demo

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// frame is what the display shows at one instant.
type frame struct {
	title              string
	elapsed            time.Duration
	total              int
	put, handled, more int // records: put, distinct that reached a handler, and given again
	workers            []workerLine
	shards             []shardLine
	events             []string // the latest last
}

type workerLine struct {
	name   string
	state  state
	shards int
}

type shardLine struct {
	node
	state      string // "reading", "ended", …
	owner      string
	lag        time.Duration // negative: unknown
	checkpoint string
	put, got   int
}

const barCells = 30

// bar is a line of cells: full for what was handled, half for what was put and not yet handled.
func bar(total, put, handled int) string {
	cells := func(n int) int {
		if total == 0 {
			return 0
		}
		return min(barCells, n*barCells/total)
	}
	h, p := cells(handled), cells(put)
	p = max(p, h)
	return strings.Repeat("█", h) + strings.Repeat("▒", p-h) + strings.Repeat("·", barCells-p)
}

// page draws a frame for a terminal, at most so many columns and rows.
func (f frame) page(columns, rows int) []string {
	lines := []string{
		fmt.Sprintf("%s   %.1f s", f.title, f.elapsed.Seconds()),
		fmt.Sprintf("%s put %s of %s, handled %s, again %s", bar(f.total, f.put, f.handled), grouped(f.put), grouped(f.total), grouped(f.handled), grouped(f.more)),
		f.crew(),
	}
	lines = append(lines, f.family()...)
	if room := rows - 1 - len(f.events); len(lines) > room && room > 3 {
		hidden := len(lines) - room + 1
		lines = append(lines[:room-1], fmt.Sprintf("  … %d more shards", hidden))
	}
	lines = append(lines, f.events...)
	for i, l := range lines {
		lines[i] = cutTo(l, columns)
	}
	return lines
}

func (f frame) crew() string {
	var parts []string
	for _, w := range f.workers {
		switch w.state {
		case zombie:
			parts = append(parts, w.name+" cut off")
		case stopped:
			parts = append(parts, w.name+" stopped")
		default:
			parts = append(parts, fmt.Sprintf("%s reads %d", w.name, w.shards))
		}
	}
	return strings.Join(parts, " · ")
}

func (f frame) family() []string {
	var nodes []node
	by := map[string]shardLine{}
	for _, s := range f.shards {
		nodes = append(nodes, s.node)
		by[s.id] = s
	}
	out := []string{pad("shard", 22) + pad("owner", 9) + pad("state", 11) + pad("behind", 16) + "checkpoint"}
	for _, b := range tree(nodes) {
		s := by[b.id]
		name := b.lines + short(b.id)
		if len(b.also) > 0 {
			name += " (and " + shortAll(b.also) + ")"
		}
		out = append(out, pad(name, 22)+pad(s.owner, 9)+pad(s.state, 11)+pad(behind(s), 16)+tail(s.checkpoint))
	}
	return out
}

func behind(s shardLine) string {
	if s.put == s.got && s.lag <= 0 {
		return "-"
	}
	out := grouped(s.put-s.got) + " records"
	if s.lag > 0 {
		out += fmt.Sprintf(", %.1f s", s.lag.Seconds())
	}
	return out
}

// line is a frame in one line, for logs.
func (f frame) line() string {
	open := 0
	for _, s := range f.shards {
		if s.state != "ended" {
			open++
		}
	}
	return fmt.Sprintf("%5.1f s  put %s of %s, handled %s, again %s; %d shards, %d ended; %s", f.elapsed.Seconds(), grouped(f.put), grouped(f.total),
		grouped(f.handled), grouped(f.more), len(f.shards), len(f.shards)-open, f.crew())
}

// tail is the end of a checkpoint: sequence numbers have 56 digits and differ in the last.
func tail(s string) string {
	if len(s) > 16 {
		return "…" + s[len(s)-12:]
	}
	return s
}

func pad(s string, n int) string {
	return s + strings.Repeat(" ", max(1, n-utf8.RuneCountInString(s)))
}

func cutTo(s string, n int) string {
	if n > 0 && utf8.RuneCountInString(s) > n {
		return string([]rune(s)[:n-1]) + "…"
	}
	return s
}

// display shows frames until it is stopped: redrawn in place on a terminal, else a line a second.
type display struct {
	out    io.Writer
	size   func() (columns, rows int) // nil: no terminal
	frame  func() frame
	mu     sync.Mutex
	recent []string
	drawn  int // lines on the screen
	stop   chan struct{}
	done   chan struct{}
}

const recentEvents = 6

func newDisplay(out io.Writer, size func() (int, int), f func() frame) *display {
	return &display{out: out, size: size, frame: f, stop: make(chan struct{}), done: make(chan struct{})}
}

func (d *display) run() {
	defer close(d.done)
	every := time.Second
	if d.size != nil {
		every = 200 * time.Millisecond
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		d.draw()
		select {
		case <-tick.C:
		case <-d.stop:
			d.draw()
			return
		}
	}
}

// close draws once more and returns when nothing more will be written.
func (d *display) close() {
	close(d.stop)
	<-d.done
}

func (d *display) draw() {
	f := d.frame()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.size == nil {
		fmt.Fprintln(d.out, f.line())
		return
	}
	f.events = d.recent
	columns, rows := d.size()
	lines := f.page(columns, rows)
	// Plain ANSI: up to the first line drawn before, then clear to the end of the screen.
	if d.drawn > 0 {
		fmt.Fprintf(d.out, "\x1b[%dA\x1b[J", d.drawn)
	}
	fmt.Fprintln(d.out, strings.Join(lines, "\n"))
	d.drawn = len(lines)
}

// say shows that something happened.
func (d *display) say(at time.Duration, text string) {
	line := fmt.Sprintf("%5.1f s  * %s", at.Seconds(), text)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.size == nil {
		fmt.Fprintln(d.out, line)
		return
	}
	d.recent = append(d.recent, line)
	d.recent = d.recent[max(0, len(d.recent)-recentEvents):]
}
