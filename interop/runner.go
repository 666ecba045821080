package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
)

// Account and region that every peer accepts; kinesalite and kinesis-local take the account from the access key.
const (
	region  = "us-east-1"
	account = "123456789012"
)

// runner is one run of one scenario: its folder of logs, and what it started.
type runner struct {
	*bench
	name, out string
	say       func(format string, a ...any)
	oursURL   string
	stops     []func()
}

func (r *runner) onStop(f func()) { r.stops = append(r.stops, f) }

// stopAll ends what was started, last first.
func (r *runner) stopAll() {
	for i := len(r.stops) - 1; i >= 0; i-- {
		r.stops[i]()
	}
	r.stops = nil
}

// tailLogs prints the end of each log: in CI the folder is gone when somebody asks why.
func (r *runner) tailLogs() {
	logs, _ := filepath.Glob(filepath.Join(r.out, "*.log"))
	peers, _ := filepath.Glob(filepath.Join(r.out, "peers", "run", "*.log"))
	for _, l := range append(logs, peers...) {
		b, err := os.ReadFile(l)
		if err == nil && len(b) > 0 {
			r.say("--- %s\n%s", strings.TrimPrefix(l, r.root+"/"), lastLines(string(b), 15))
		}
	}
}

// peer starts the named emulator and returns its endpoint. Every run has ports and a pid folder of its own, so that runs can share a machine.
func (r *runner) peer(ctx context.Context, name string) (string, error) {
	switch name {
	case "ours":
		return r.ours(ctx)
	case "ferrokinesis":
		return r.byHand(ctx, name, "FERRO", func(port string) []string { return []string{"serve", "--port", port, "--shard-limit", "1000"} })
	case "dynoxide":
		return r.byHand(ctx, name, "DYNOX", func(port string) []string { return []string{"--host", "127.0.0.1", "--port", port} })
	case "kinesis-local", "kinesalite":
		if err := r.installed(ctx, "node", "node", "npm"); err != nil {
			return "", err
		}
	case "ministack":
		if err := r.installed(ctx, "ministack", "python3"); err != nil {
			return "", err
		}
	default:
		return "", fmt.Errorf("no peer is named %q", name)
	}
	// start.sh keeps pids below PEERS_WORK: give it a folder of this run's own that shows the same installation.
	own := filepath.Join(r.out, "peers")
	if err := os.MkdirAll(own, 0o755); err != nil {
		return "", err
	}
	for _, part := range []string{"node", "venvms", "venv"} {
		if err := os.Symlink(filepath.Join(r.work, part), filepath.Join(own, part)); err != nil && !os.IsExist(err) {
			return "", err
		}
	}
	ports, err := freePorts(2)
	if err != nil {
		return "", err
	}
	env := []string{"PEERS_WORK=" + own, "TLS_PORT=" + ports[1]}
	scripts := filepath.Join(r.root, "interop", "peers")
	// start.sh leaves the peer running with this pipe's end closed; stop.sh ends it by pid.
	if _, err := r.command(ctx, r.root, env, filepath.Join(scripts, "start.sh"), name, ports[0]); err != nil {
		return "", err
	}
	r.onStop(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		if _, err := r.command(ctx, r.root, env, filepath.Join(scripts, "stop.sh"), name); err != nil {
			r.say("stop %s: %v", name, err)
		}
	})
	r.say("%s on port %s", name, ports[0])
	return "http://127.0.0.1:" + ports[0], nil
}

// ours starts our own emulators, both on one address; asked twice, it returns the same.
func (r *runner) ours(ctx context.Context) (string, error) {
	if r.oursURL != "" {
		return r.oursURL, nil
	}
	url, err := r.emulator(ctx)
	r.oursURL = url
	return url, err
}

// emulator starts the program's emulators with more flags, for the scenario alone.
func (r *runner) emulator(ctx context.Context, flags ...string) (string, error) {
	bin, err := r.program(ctx)
	if err != nil {
		return "", err
	}
	ports, err := freePorts(1)
	if err != nil {
		return "", err
	}
	args := append([]string{"emulator", "all", "--addr", "127.0.0.1:" + ports[0]}, flags...)
	if err := r.server(ctx, "emulator", ports[0], bin, args...); err != nil {
		return "", err
	}
	return "http://127.0.0.1:" + ports[0], nil
}

func (r *runner) byHand(ctx context.Context, name, env string, args func(port string) []string) (string, error) {
	bin := os.Getenv(env)
	if bin == "" {
		return "", &skip{fmt.Sprintf("%s names no %s; docs/reference/emulators.md, part 2, says how to build it", env, name)}
	}
	ports, err := freePorts(1)
	if err != nil {
		return "", err
	}
	return "http://127.0.0.1:" + ports[0], r.server(ctx, name, ports[0], bin, args(ports[0])...)
}

// server starts a program that listens on port, waits until it does, and ends it with the scenario.
func (r *runner) server(ctx context.Context, name, port, bin string, args ...string) error {
	log, err := os.Create(filepath.Join(r.out, name+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(bin, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.out, log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	r.onStop(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(10*time.Second, func() { r.say("%s ignored SIGTERM for 10 s", name); _ = cmd.Process.Kill() })
		if err := <-ended; err != nil {
			r.say("%s ended: %v", name, err)
		}
		kill.Stop()
	})
	for try := time.NewTicker(50 * time.Millisecond); ; {
		c, err := net.DialTimeout("tcp", "127.0.0.1:"+port, time.Second)
		if err == nil {
			try.Stop()
			return c.Close()
		}
		select {
		case err := <-ended:
			ended <- err
			return fmt.Errorf("%s ended before it listened: %w", name, err)
		case <-ctx.Done():
			return fmt.Errorf("%s does not listen on %s: %w", name, port, ctx.Err())
		case <-try.C:
		}
	}
}

func freePorts(n int) ([]string, error) {
	var ports []string
	var open []net.Listener
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		open = append(open, l)
		ports = append(ports, fmt.Sprint(l.Addr().(*net.TCPAddr).Port))
	}
	for _, l := range open {
		if err := l.Close(); err != nil {
			return nil, err
		}
	}
	return ports, nil
}

// A put is sent once: sent again by the SDK, a record would be in the stream twice and the ledger would know one of them.
func kinesisClient(url string) *kinesis.Client {
	return kinesis.New(kinesis.Options{Region: region, BaseEndpoint: &url, RetryMaxAttempts: 1, HTTPClient: &http.Client{Transport: ownedBody{}},
		Credentials: credentials.NewStaticCredentialsProvider(account, "secret", "")})
}

func dynamoClient(url string) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{Region: region, BaseEndpoint: &url, HTTPClient: &http.Client{Transport: ownedBody{}},
		Credentials: credentials.NewStaticCredentialsProvider(account, "secret", "")})
}

// ownedBody sends a copy of the body: the SDK closes its own before the transport has finished with it, which costs the connection
// and with it the answer (docs/reference/go-peers.md 4.1).
type ownedBody struct{}

func (ownedBody) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err := errors.Join(err, r.Body.Close()); err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	return http.DefaultTransport.RoundTrip(r)
}
