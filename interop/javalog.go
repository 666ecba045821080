package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// What the KCL's own log says of a step (docs/reference/kcl.md 3). The KCL of 2.x has no leader that assigns, and no hand-over.
var (
	javaTook  = regexp.MustCompile(`New leases assigned to worker : \S+, count : [1-9]|successfully took [1-9]\d* leases`)
	javaReads = regexp.MustCompile(`Created new shardConsumer for : .*shardId=`)
	javaLeads = regexp.MustCompile(`Worker : \S+ is new (?:L|l)eader`)
	javaEnded = regexp.MustCompile(`(?i)reached end of shard|end of shard \S+ and have no records to process`)
	javaGives = regexp.MustCompile(`Calling graceful shutdown for lease|lost lease with key`)
)

// naming is a line of that kind that names the lease.
func naming(kind *regexp.Regexp, lease string) *regexp.Regexp {
	return regexp.MustCompile(`(?:` + kind.String() + `).*` + regexp.QuoteMeta(lease))
}

// saw waits until the log of a Java worker has a line of each kind behind what earlier calls have seen, and reads on behind the last of them.
func (m *member) saw(ctx context.Context, step string, kinds ...*regexp.Regexp) error {
	end := m.read
	err := poll(ctx, stepTime, func() (string, error) {
		b, err := os.ReadFile(m.log)
		if err != nil {
			return "", err
		}
		text := string(b)
		for _, k := range kinds {
			at := k.FindStringIndex(text[m.read:])
			if at == nil {
				return fmt.Sprintf("%s: the log of %s has no line of the form %q", step, m.worker, k), nil
			}
			end = max(end, m.read+at[1])
		}
		return "", nil
	})
	m.read = end
	return err
}

// ever waits until the log has a line of that kind, anywhere.
func (m *member) ever(ctx context.Context, step string, kind *regexp.Regexp) error {
	return poll(ctx, stepTime, func() (string, error) {
		b, err := os.ReadFile(m.log)
		if err == nil && !kind.Match(b) {
			return fmt.Sprintf("%s: the log of %s has no line of the form %q", step, m.worker, kind), nil
		}
		return "", err
	})
}

// harmless are exceptions that the KCL logs in a fleet of its own kind, too.
var harmless = []*regexp.Regexp{
	// Its shutdown interrupts its threads, and each says so in its own way.
	regexp.MustCompile(`\bInterruptedException\b`),
}

// javaExceptions are the exceptions in a log, each once, that are not harmless.
func javaExceptions(log string) []string {
	b, err := os.ReadFile(log)
	if err != nil {
		return []string{err.Error()}
	}
	return exceptionsIn(log[strings.LastIndex(log, "/")+1:], string(b))
}

func exceptionsIn(name, text string) []string {
	var out []string
	seen := map[string]bool{}
lines:
	for n, l := range strings.Split(text, "\n") {
		if !strings.Contains(l, "Exception") && !strings.Contains(l, " ERROR ") || strings.HasPrefix(l, "\t") {
			continue
		}
		for _, h := range harmless {
			if h.MatchString(l) {
				continue lines
			}
		}
		what := l[strings.Index(l, "]")+1:] // without its time and thread
		if seen[what] {
			continue
		}
		seen[what] = true
		out = append(out, fmt.Sprintf("%s:%d: %.300s", name, n+1, l))
	}
	return out
}
