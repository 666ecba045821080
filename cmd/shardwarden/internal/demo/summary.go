package demo

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// summary is the outcome of a demo.
type summary struct {
	options  options
	verdict  verdict
	replica  *comparison // nil: the stage has no rows
	played   played
	spoiled  int
	failover time.Duration // the longest of all cuts
	elapsed  time.Duration
}

func summarize(o options, b book, p played, s *spoiler, elapsed time.Duration) summary {
	out := summary{options: o, verdict: weigh(b), played: p, spoiled: s.count(), elapsed: elapsed}
	for _, c := range p.cuts {
		out.failover = max(out.failover, failover(b, c))
	}
	return out
}

// bad reports whether the demo failed. Sabotage that found nothing to spoil is a failure too: it proved nothing.
func (s *summary) bad() bool {
	return s.faults() || s.options.sabotage != "" && s.spoiled == 0
}

// faults reports whether anything is wrong with what was delivered.
func (s *summary) faults() bool {
	return s.verdict.faults() || s.replica != nil && s.replica.wrong > 0
}

// json is the last line: keys in this order.
func (s *summary) json() string {
	v := s.verdict
	line, err := json.Marshal(struct {
		Backend          string `json:"backend"`
		Shards           int    `json:"shards"`
		Workers          int    `json:"workers"`
		RecordsProduced  int    `json:"records_produced"`
		RecordsDelivered int    `json:"records_delivered"`
		Distinct         int    `json:"distinct"`
		Missing          int    `json:"missing"`
		Duplicates       int    `json:"duplicates"`
		OrderViolations  int    `json:"order_violations"`
		ParentViolations int    `json:"parent_violations"`
		Splits           int    `json:"splits"`
		Merges           int    `json:"merges"`
		WorkersKilled    int    `json:"workers_killed"`
		Handovers        int    `json:"handovers"`
		FailoverMs       int64  `json:"failover_ms"`
		ElapsedMs        int64  `json:"elapsed_ms"`
	}{
		s.options.backend, s.options.shards, s.options.workers, v.produced, v.delivered, v.distinct, v.missing, v.duplicates, v.order, v.parents,
		s.played.splits, s.played.merges, len(s.played.cuts), v.handovers, s.failover.Milliseconds(), s.elapsed.Milliseconds(),
	})
	if err != nil {
		panic(err) // numbers and a string
	}
	return string(line)
}

// words is the outcome for people.
func (s *summary) words() string {
	v := s.verdict
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	say("")
	if s.options.sabotage != "" {
		say("Sabotage (%s): %s deliveries were spoiled on purpose.", s.options.sabotage, grouped(s.spoiled))
	}
	if s.faults() {
		say("NOT well: the judge found faults.")
		for _, x := range []struct {
			n    int
			what string
		}{
			{v.missing, "records never came to a handler"},
			{v.order, "records came out of the order of their key"},
			{v.parents, "records of a shard came before those of its parents"},
			{v.repeats, "records were given twice to one processor"},
			{v.strangers, "deliveries were of records that nobody put there"},
		} {
			if x.n > 0 {
				say("  %s %s", grouped(x.n), x.what)
			}
		}
		for _, e := range v.examples {
			say("  for example: %s", e)
		}
		if r := s.replica; r != nil && r.wrong > 0 {
			say("  a replica of the table, built from the changes, differs from it in %s", count(r.wrong, "row"))
			say("  for example: %s", r.example)
		}
	} else {
		say("All %s records came to a handler at least once, each key in order, parents before children.", grouped(v.produced))
	}
	if r := s.replica; r != nil && r.wrong == 0 {
		say("A replica of the table, built from the changes alone, equals the table: %s.", count(r.rows, "row"))
	}
	say("%s put, %s given to handlers: %s distinct, %s again%s.", grouped(v.produced), grouped(v.delivered), grouped(v.distinct), grouped(v.duplicates), again(v))
	say("%s and %s; shards changed hands %s.", count(s.played.splits, "split"), count(s.played.merges, "merge"), count(v.handovers, "time"))
	if n := len(s.played.cuts); n > 0 {
		say("%s cut off from the network: %.1f s later the last of its shards came from another (leases last %v).", count(n, "worker"), s.failover.Seconds(), leaseDuration)
	}
	say("%s stopped in order. %.1f s in all.", count(s.played.stopped, "worker"), s.elapsed.Seconds())
	return strings.Join(out, "\n")
}

func again(v verdict) string {
	if v.stale > 0 {
		return fmt.Sprintf(" (%s of them to a worker that had lost the shard)", grouped(v.stale))
	}
	return ""
}

func count(n int, what string) string {
	if n == 1 {
		return fmt.Sprintf("1 %s", what)
	}
	return fmt.Sprintf("%d %ss", n, what)
}
