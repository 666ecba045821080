package leases

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/leasetable"
)

// printJSON writes one object, on lines of its own for people who read it all the same.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// page is text that is written at once, so that a failing writer is one error.
type page struct{ strings.Builder }

func (p *page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// table lines columns up. A column that no row fills is left out.
func (p *page) table(head []string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	var keep []int
	for i := range head {
		if slices.ContainsFunc(rows, func(r []string) bool { return r[i] != "" }) {
			keep = append(keep, i)
		}
	}
	w := tabwriter.NewWriter(p, 0, 0, 2, ' ', 0)
	line := func(row []string, empty string) {
		var cells []string
		for _, i := range keep {
			cells = append(cells, cmp.Or(row[i], empty))
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	line(head, "")
	for _, row := range rows {
		line(row, "-")
	}
	_ = w.Flush() // into memory
}

func (p *page) to(w io.Writer) error {
	_, err := io.WriteString(w, p.String())
	return err
}

// report is what list shows.
func (p *page) report(r *leasetable.Report) {
	p.fleet(r)
	streams := map[string][][]string{}
	for i := range r.Leases {
		l := &r.Leases[i]
		streams[l.Stream] = append(streams[l.Stream], []string{
			l.Shard, owner(l), age(l.Silence, l.State == leasetable.Held), state(l), checkpoint(l), lag(l.Lag), strings.Join(l.Parents, " "), strings.Join(l.Children, " "),
		})
	}
	for _, id := range slices.Sorted(maps.Keys(streams)) {
		p.line("")
		if id != "" {
			p.line("stream %s", id)
		}
		p.table([]string{"SHARD", "OWNER", "SEEN", "STATE", "CHECKPOINT", "BEHIND", "PARENTS", "CHILDREN"}, streams[id])
	}
	if len(r.Leases) == 0 {
		p.line("\nno leases")
	}
	p.workers(r)
	for _, bad := range r.Bad {
		p.line("\nrow %s can't be read: %s", bad.Row, bad.Error)
	}
	if r.LagError != "" {
		p.line("\nnot all is known of how far shards are behind: %s", r.LagError)
	}
}

// fleet is what the table says of all of them.
func (p *page) fleet(r *leasetable.Report) {
	held, free, ended := 0, 0, 0
	for _, l := range r.Leases {
		switch l.State {
		case leasetable.Held:
			held++
		case leasetable.Free:
			free++
		default:
			ended++
		}
	}
	of := ""
	if r.Stream != "" {
		of = " of stream " + r.Stream
	}
	p.line("table %s (%s)%s: %d leases, %d held, %d free, %d ended; %s", r.Table, r.Service, of, len(r.Leases), held, free, ended, watched(r.Watched))
	k := r.KCL
	if k == nil {
		return
	}
	if k.Regime == "" {
		p.line("its layout is not known%s", because(k.Why))
	} else {
		p.line("layout %s, regime %s%s", k.Layout, k.Regime, because(k.Why))
	}
	if l := k.Leader; l != nil {
		p.line("leader %s, lock of %s in table %s, %s", l.Owner, short(l.Duration), l.Table, renewed(l.Silence))
	}
	if k.ClientVersion != "" || k.TableMigration != "" {
		p.line("migration: client version %s, tables %s", cmp.Or(k.ClientVersion, "-"), cmp.Or(k.TableMigration, "-"))
	}
	if k.Index != "" {
		p.line("index of owners: %s", k.Index)
	}
	for _, name := range slices.Sorted(maps.Keys(k.SideTables)) {
		p.line("side table %s: %s", name, k.SideTables[name])
	}
	if k.Others > 0 {
		p.line("%d rows of unknown kinds (leases export shows them)", k.Others)
	}
}

func (p *page) workers(r *leasetable.Report) {
	var rows [][]string
	for _, w := range r.Workers {
		rows = append(rows, []string{w.ID, w.Kind, fmt.Sprint(w.Leases), age(w.Silence, true), announced(w), figures(w), instant(w.Updated)})
	}
	if len(rows) > 0 {
		p.line("")
		p.table([]string{"WORKER", "KIND", "LEASES", "SEEN", "ROW", "FIGURES", "UPDATED"}, rows)
	}
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

func watched(seconds float64) string {
	if seconds == 0 {
		return "read once"
	}
	return "watched for " + short(seconds)
}

func renewed(s *leasetable.Silence) string {
	switch {
	case s == nil, s.AtLeast && s.Seconds == 0:
		return "not watched"
	case s.AtLeast:
		return "no renewal seen in " + short(s.Seconds)
	}
	return "renewed " + short(s.Seconds) + " ago"
}

// owner shows whom the row says it belongs to, and whom it is asked for.
func owner(l *leasetable.Lease) string {
	if l.Kind == leasetable.Java {
		return l.Owner + " (java)"
	}
	return l.Owner
}

// age is how long ago the counter was seen to move.
func age(s *leasetable.Silence, owned bool) string {
	switch {
	case s == nil || !owned:
		return ""
	case s.AtLeast && s.Seconds == 0:
		return ""
	case s.AtLeast:
		return ">" + short(s.Seconds)
	}
	return short(s.Seconds)
}

// state says in words how it is with a lease.
func state(l *leasetable.Lease) string {
	out := []string{l.State}
	if l.Next != "" {
		out = append(out, "asked for by "+l.Next)
	}
	if len(l.WaitsFor) > 0 {
		out = append(out, "waits for "+strings.Join(l.WaitsFor, " "))
	}
	return strings.Join(out, ", ")
}

// checkpoint is short enough for a column; describe and --json have all of it.
func checkpoint(l *leasetable.Lease) string {
	const most = 24
	text := l.Checkpoint
	if len(text) > most {
		text = text[:8] + "…" + text[len(text)-12:]
	}
	if l.Sub > 0 {
		text += fmt.Sprintf(":%d", l.Sub)
	}
	if !l.Start.IsZero() {
		text += " " + instant(l.Start)
	}
	return text
}

func lag(s *float64) string {
	switch {
	case s == nil:
		return ""
	case *s == 0:
		return "0"
	}
	return short(*s)
}

// short is a duration without noise.
func short(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	if d >= time.Minute {
		return d.Round(time.Second).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func announced(w leasetable.Worker) string {
	switch {
	case !w.Row:
		return ""
	case w.Support != nil:
		return fmt.Sprintf("support %d", *w.Support)
	}
	return "yes"
}

// figures are the last of each metric.
func figures(w leasetable.Worker) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(w.Metrics)) {
		if list := w.Metrics[name]; len(list) > 0 {
			out = append(out, fmt.Sprintf("%s %.1f", name, list[len(list)-1]))
		}
	}
	if len(out) > 0 {
		return strings.Join(out, ", ")
	}
	for _, name := range slices.Sorted(maps.Keys(w.Load)) {
		out = append(out, fmt.Sprintf("%s %.1f", name, w.Load[name]))
	}
	return strings.Join(out, ", ")
}
