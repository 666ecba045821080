package main

import (
	"fmt"
	"os"
	"time"
)

const reportHead = `# Runs of the interop matrix

` + "`make interop`" + ` appends a line for each scenario. What each scenario does: ` + "`go run ./interop list`" + `. Peers: ` + "`interop/peers/README.md`" + `.

| day | scenario | result | s | figures |
| --- | --- | --- | --- | --- |
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
