package main

import (
	"fmt"
	"os"
	"time"
)

const reportHead = `# Runs of the interop matrix

` + "`make interop`" + ` appends a line for each scenario. What each scenario does: ` + "`go run ./interop list`" + `. Peers: ` + "`interop/peers/README.md`" + `.
` + kclReportHead + `
| day | scenario | result | s | figures |
| --- | --- | --- | --- | --- |
`

// kclReportHead says what a line about a fleet with the Java KCL stands for.
const kclReportHead = `
Fleets with workers of the Java KCL (` + "`kcl-VERSION-FIRST-SECOND-SCENARIO`" + `: who starts, and so leads where one does; who joins) are judged so:

- Java's own log of level INFO, kept in ` + "`interop/out`" + `, must show each step (took, gave up, leads, ended the shard), and no exception.
- A recorder stands between the workers and DynamoDB and reads each lease row after each write, before the writer hears of it. Every state of every row, and the table at the end, must be
  one that this version of the KCL itself writes, by the rules learnt from its dumps (` + "`testdata/kcl-tables`" + `), apart from attributes with our prefix. The pairings ` + "`java-java`" + ` lead Java alone
  through the same steps under the same rules.
- The ledger of the producer and what the workers printed: everything delivered, in order by key, children after parents; again only what a worker that was killed, or
  robbed while it lived, or lost its lease by its own clock on a machine that was too slow, had delivered and not stored.
- Two workers at one shard: never where a lease was handed over, released or its owner killed. A worker that is robbed (2.x, or a forced assignment) has its next renewal to hear of it, one
  second of Java's loop, its handler, and a second for a slow machine. "overlap" is the longest that was seen.
- Timers are short (failover 3 s, leader's lock 6 s, worker metrics 1 s, hand-over 5 s); ` + "`kcl-defaults`" + ` has the libraries' own.
`

// appendReport adds a line for each result, and the head if the file is new.
func appendReport(path string, at time.Time, results []result) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err == nil && st.Size() == 0 {
		_, err = f.WriteString(reportHead)
	}
	for _, r := range results {
		if err != nil {
			break
		}
		outcome, text := "passed", r.text
		if reason, skipped := r.skipped(); skipped {
			outcome, text = "SKIPPED", reason
		} else if r.err != nil {
			outcome, text = "**FAILED**", firstLine(r.err.Error())
		}
		_, err = fmt.Fprintf(f, "| %s | %s | %s | %.0f | %s |\n", at.Format(time.DateOnly), r.name, outcome, r.took.Seconds(), text)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
