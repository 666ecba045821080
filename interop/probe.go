package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// probeScenario asks our emulators everything that interop/peers/probe2 knows to ask, and accepts no difference that
// docs/emulators.md does not explain; interop/probe2.accepted lists those by name.
func probeScenario(ctx context.Context, r *runner) (string, error) {
	src := filepath.Join(r.root, "interop", "peers", "probe2")
	bin := filepath.Join(r.out, "probe2")
	if err := noNetwork(second(r.command(ctx, src, nil, "go", "build", "-o", bin, "."))); err != nil {
		return "", err
	}
	list, err := readAccepted(filepath.Join(r.root, "interop", "probe2.accepted"))
	if err != nil {
		return "", err
	}
	url, err := r.ours(ctx)
	if err != nil {
		return "", err
	}
	out, err := r.command(ctx, r.out, nil, bin, "-name", "shardwarden", "-k", url, "-d", url, "-only", "check,h2")
	if werr := os.WriteFile(filepath.Join(r.out, "probe2.txt"), []byte(out), 0o644); err == nil {
		err = werr
	}
	if err != nil {
		return "", err
	}
	v := judgeProbe(out, list)
	for _, l := range v.bad {
		r.say("%s", l)
	}
	text := fmt.Sprintf("%d checks ok, %d explained", v.ok, v.explained)
	if len(v.bad) > 0 {
		return text, fmt.Errorf("%s, %d not: %s", text, len(v.bad), v.bad[0])
	}
	return text, nil
}

func second[T any](_ T, err error) error { return err }

// accepted is a difference of our emulators that is explained.
type accepted struct{ status, name, reason string }

// readAccepted reads lines "DIFF | NAME | reason" or "FAIL | NAME | reason"; # at their start makes a comment.
func readAccepted(path string) ([]accepted, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var list []accepted
	for n, l := range strings.Split(string(b), "\n") {
		if strings.TrimSpace(l) == "" || strings.HasPrefix(l, "#") {
			continue
		}
		f := strings.SplitN(l, "|", 3)
		for i := range f {
			f[i] = strings.TrimSpace(f[i])
		}
		if len(f) != 3 || f[0] != "DIFF" && f[0] != "FAIL" || f[1] == "" || f[2] == "" {
			return nil, fmt.Errorf("%s:%d: want DIFF or FAIL | the check's name | the reason: %q", path, n+1, l)
		}
		list = append(list, accepted{f[0], f[1], f[2]})
	}
	return list, nil
}

type probeVerdict struct {
	ok, explained int
	bad           []string
}

// judgeProbe reads "STATUS NAME detail" lines. What is accepted but no longer happens is reported too, so that the list stays true.
func judgeProbe(out string, list []accepted) probeVerdict {
	var v probeVerdict
	unseen := slices.Clone(list)
	finished := false
	for l := range strings.Lines(out) {
		l = strings.TrimSpace(l)
		status, rest, _ := strings.Cut(l, " ")
		// Names have spaces; the probe pads them, so that one is followed by a space.
		is := func(a accepted) bool {
			return a.status == status && strings.HasPrefix(strings.TrimSpace(rest)+" ", a.name+" ")
		}
		switch {
		case status == "==":
			finished = true
		case status == "ok":
			v.ok++
		case status != "DIFF" && status != "FAIL":
		case slices.ContainsFunc(list, is):
			v.explained++
			unseen = slices.DeleteFunc(unseen, is)
		default:
			v.bad = append(v.bad, l)
		}
	}
	for _, a := range unseen {
		v.bad = append(v.bad, fmt.Sprintf("interop/probe2.accepted lists %s %q, which no longer happens: take it out", a.status, a.name))
	}
	if !finished || v.ok == 0 {
		v.bad = append(v.bad, fmt.Sprintf("the probe did not finish (%d checks ok)", v.ok))
	}
	return v
}
