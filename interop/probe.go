package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/shardwarden/shardwarden/emulator/dynamodb"
	"github.com/shardwarden/shardwarden/emulator/kinesis"
)

// probeScenario asks our emulators everything that interop/peers/probe2 knows to ask, and accepts no difference that
// docs/emulators.md does not explain; interop/probe2.accepted lists those by name. It asks twice: the program's emulators as they are
// ("program"), and the library's without limits, with the delays of the real service and with HTTP/2 ("library"), so that what the
// probe can't do within the limits is checked all the same.
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
	program, err := r.emulator(ctx, "--latency", probeLatency.String())
	if err != nil {
		return "", err
	}
	library, err := r.library()
	if err != nil {
		return "", err
	}
	var texts, bad []string
	for _, s := range []struct{ server, url string }{{"program", program}, {"library", library}} {
		out, err := r.probe(ctx, bin, s.server, s.url)
		if err != nil {
			return "", err
		}
		v := judgeProbe(out, slices.DeleteFunc(slices.Clone(list), func(a accepted) bool { return a.server != s.server && a.server != "both" }))
		for _, l := range v.bad {
			bad = append(bad, s.server+": "+l)
			r.say("%s: %s", s.server, l)
		}
		texts = append(texts, fmt.Sprintf("%s: %d checks ok, %d explained", s.server, v.ok, v.explained))
	}
	text := strings.Join(texts, "; ")
	if len(bad) > 0 {
		return text, fmt.Errorf("%s; %d not: %s", text, len(bad), bad[0])
	}
	return text, nil
}

// probeLatency is what the servers wait before they look at a call. The probe's SDK closes a request's body as soon as it has the answer, and
// net/http gives a connection up whose body it can't read to its end: an answer in no time, as only a loopback gives, loses the race at
// random. Nothing in the probe is about so short times.
const probeLatency = 5 * time.Millisecond

// lostConnection is how the probe shows that its SDK closed a request's body too early and so lost the connection with the answer
// (docs/reference/go-peers.md 4.1): in the error, or, in a check that throws the error of its listing away, as an empty listing.
var lostConnection = []string{"use of closed network connection", "read 0 of 300; []"}

// probe runs the probe. A run in which its SDK lost a connection says nothing about us and is repeated.
func (r *runner) probe(ctx context.Context, bin, server, url string) (string, error) {
	for try := 1; ; try++ {
		out, err := r.command(ctx, r.out, nil, bin, "-name", server, "-k", url, "-d", url, "-only", "check,h2")
		if werr := os.WriteFile(filepath.Join(r.out, server+".txt"), []byte(out), 0o644); err == nil {
			err = werr
		}
		if err != nil || try == 4 || !slices.ContainsFunc(lostConnection, func(sign string) bool { return strings.Contains(out, sign) }) {
			return out, err
		}
		r.say("%s: the SDK lost a connection of its own; asking again", server)
	}
}

// library serves both emulators as a test would that has no patience for limits but wants the states in between.
func (r *runner) library() (string, error) {
	const delay = 50 * time.Millisecond
	k := kinesis.New(kinesis.Config{NoLimits: true, CreateDelay: delay, UpdateDelay: delay})
	d := dynamodb.New(dynamodb.Config{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Protocols: protocols, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		time.Sleep(probeLatency)
		if strings.HasPrefix(req.Header.Get("X-Amz-Target"), "DynamoDB_") {
			d.ServeHTTP(w, req)
			return
		}
		k.ServeHTTP(w, req)
	})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	r.onStop(func() {
		k.Close()
		d.Close()
		_ = server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			r.say("the library's server: %v", err)
		}
	})
	return "http://" + l.Addr().String(), nil
}

func second[T any](_ T, err error) error { return err }

// accepted is a difference of our emulators that is explained.
type accepted struct{ server, status, name, reason string }

// readAccepted reads lines "SERVER | STATUS | NAME | reason", of program, library or both, and DIFF or FAIL; # at the start makes a comment.
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
		f := strings.SplitN(l, "|", 4)
		for i := range f {
			f[i] = strings.TrimSpace(f[i])
		}
		if len(f) != 4 || !slices.Contains([]string{"program", "library", "both"}, f[0]) || f[1] != "DIFF" && f[1] != "FAIL" || f[2] == "" || f[3] == "" {
			return nil, fmt.Errorf("%s:%d: want program, library or both | DIFF or FAIL | the check's name | the reason: %q", path, n+1, l)
		}
		list = append(list, accepted{f[0], f[1], f[2], f[3]})
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
