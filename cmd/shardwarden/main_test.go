package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardwarden/shardwarden/emulator/dynamodb"
	"github.com/shardwarden/shardwarden/emulator/kinesis"
)

// The tests run the program as users do: built once, in processes of its own, against emulators that live in the test, so that a test can
// break them.

var program string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "shardwarden-test-")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(dir, "shardwarden")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		os.Exit(1)
	}
	// Tests wait for processes far more than they compute: run more of them side by side than there are processors.
	flag.Parse()
	if err := flag.Set("test.parallel", "12"); err != nil {
		panic(err)
	}
	status := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(status)
}

// limit is how long anything may take that a test waits for.
const limit = 50 * time.Second

// process is a run of the program.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	out    *bufio.Reader // stdout
	pipe   io.Closer     // its end here
	errors *feed         // stderr
	exited chan struct{} // closed once it has
}

// start runs the program. env is added to an environment that has nothing of AWS and Tablestore in it but AWS credentials that emulators take.
func start(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	return startProgram(t, program, env, args...)
}

func startProgram(t *testing.T, program string, env []string, args ...string) *process {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := startTo(t, w, program, env, args...)
	w.Close()
	t.Cleanup(func() { r.Close() })
	p.out, p.pipe = bufio.NewReader(r), r
	return p
}

// startTo lets it write to a file.
func startTo(t *testing.T, stdout *os.File, program string, env []string, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	p := &process{t: t, cmd: exec.CommandContext(ctx, program, args...), errors: newFeed(), exited: make(chan struct{})}
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "AWS_") && !strings.HasPrefix(e, "TABLESTORE_") {
			p.cmd.Env = append(p.cmd.Env, e)
		}
	}
	p.cmd.Env = append(p.cmd.Env, "AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE="+os.DevNull, "AWS_SHARED_CREDENTIALS_FILE="+os.DevNull,
		"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test")
	p.cmd.Env = append(p.cmd.Env, env...)
	p.cmd.Stdout, p.cmd.Stderr = stdout, p.errors
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // the state says it
		cancel()
		p.errors.finish()
		close(p.exited)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.exited
		if t.Failed() {
			t.Logf("stderr of %v:\n%s", args, p.errors)
		}
	})
	return p
}

// line reads a line of stdout; "" at the end.
func (p *process) line() string {
	p.t.Helper()
	s, err := p.out.ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		p.t.Fatalf("read stdout: %v", err)
	}
	return strings.TrimSuffix(s, "\n")
}

// rest reads stdout to its end, in lines.
func (p *process) rest() []string {
	p.t.Helper()
	b, err := io.ReadAll(p.out)
	if err != nil {
		p.t.Fatalf("read stdout: %v", err)
	}
	if len(b) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("signal %v: %v", s, err)
	}
}

// exit waits for the end and returns the status, -1 where a signal ended it.
func (p *process) exit() int {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(limit):
		p.t.Fatalf("it still runs after %v", limit)
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) wantExit(status int) {
	p.t.Helper()
	if got := p.exit(); got != status {
		p.t.Errorf("exit status %d, want %d; stderr:\n%s", got, status, p.errors)
	}
}

// feed is text that is written while others wait for parts of it.
type feed struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
	over    bool
}

func newFeed() *feed { return &feed{changed: make(chan struct{})} }

func (f *feed) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.text.Write(b)
	close(f.changed)
	f.changed = make(chan struct{})
	return len(b), nil
}

func (f *feed) finish() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *feed) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.text.String()
}

// await waits until the text contains a part.
func (f *feed) await(t *testing.T, part string) {
	t.Helper()
	timeout := time.After(limit)
	for {
		f.mu.Lock()
		found, over, changed := strings.Contains(f.text.String(), part), f.over, f.changed
		f.mu.Unlock()
		if found {
			return
		}
		if over {
			t.Fatalf("the end came without %q:\n%s", part, f)
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("no %q within %v:\n%s", part, limit, f)
		}
	}
}

// cloud is a Kinesis and a DynamoDB for one test.
type cloud struct {
	t          *testing.T
	kinesis    *kinesis.Server
	dynamo     *dynamodb.Server
	kurl, durl string
	client     *sdk.Client
	put        int // records so far
}

func newCloud(t *testing.T) *cloud {
	t.Helper()
	c := &cloud{t: t, kinesis: kinesis.New(kinesis.Config{NoLimits: true}), dynamo: dynamodb.New(dynamodb.Config{})}
	k, d := httptest.NewServer(c.kinesis), httptest.NewServer(c.dynamo)
	t.Cleanup(func() {
		c.kinesis.Close()
		c.dynamo.Close()
		k.Close()
		d.Close()
	})
	c.kurl, c.durl = k.URL, d.URL
	c.client = sdk.NewFromConfig(aws.Config{Region: "us-east-1", HTTPClient: direct{c.kinesis}, Credentials: credentials.NewStaticCredentialsProvider("x", "x", "")})
	return c
}

// direct calls a server without a network, so that no put is ever sent twice.
type direct struct{ server http.Handler }

func (d direct) Do(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d.server.ServeHTTP(w, r)
	return w.Result(), nil
}

func (c *cloud) stream(name string, shards int32) {
	c.t.Helper()
	if _, err := c.client.CreateStream(c.t.Context(), &sdk.CreateStreamInput{StreamName: &name, ShardCount: &shards}); err != nil {
		c.t.Fatal(err)
	}
}

// fill puts n records, a number each, under 50 keys.
func (c *cloud) fill(stream string, n int) {
	c.t.Helper()
	for n > 0 {
		in := &sdk.PutRecordsInput{StreamName: &stream}
		for range min(n, 500) {
			in.Records = append(in.Records, types.PutRecordsRequestEntry{PartitionKey: aws.String(fmt.Sprint("key ", c.put%50)), Data: fmt.Append(nil, c.put)})
			c.put++
			n--
		}
		out, err := c.client.PutRecords(c.t.Context(), in)
		if err != nil || aws.ToInt32(out.FailedRecordCount) != 0 {
			c.t.Fatalf("put: %v, %v failed", err, out)
		}
	}
}

// consume runs a worker. Its events can be read as they happen.
func (c *cloud) consume(args ...string) (*process, *events) {
	c.t.Helper()
	return startConsume(c.t, nil, append([]string{"kinesis", "--region", "us-east-1", "--endpoint-url", c.kurl, "--dynamodb-endpoint-url", c.durl}, args...)...)
}

func startConsume(t *testing.T, env []string, args ...string) (*process, *events) {
	t.Helper()
	fifo := filepath.Join(t.TempDir(), "events")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, env, append(append([]string{"consume"}, args...), "--events", fifo)...)
	e := &events{t: t, feed: newFeed()}
	go func() {
		defer e.finish()
		f, err := os.OpenFile(fifo, os.O_RDWR, 0) // both ways, so that opening waits for nobody
		if err != nil {
			return
		}
		defer f.Close()
		// What the program wrote is in the pipe before it is gone; a zero byte behind it ends the reading.
		go func() {
			<-p.exited
			_, _ = f.Write([]byte{0})
		}()
		b, err := bufio.NewReader(io.TeeReader(f, e.feed)).ReadBytes(0)
		if err != nil || len(b) == 0 {
			t.Errorf("read events: %v", err)
		}
	}()
	return p, e
}

// events are the lines of an event file.
type events struct {
	t *testing.T
	*feed
}

type event struct {
	Time                                            time.Time
	Worker, Event, Of, Shard, Position, Error, Text string
}

// all waits for the end and returns the events.
func (e *events) all() []event {
	e.t.Helper()
	timeout := time.After(limit)
	for {
		e.mu.Lock()
		over, changed := e.over, e.changed
		e.mu.Unlock()
		if over {
			break
		}
		select {
		case <-changed:
		case <-timeout:
			e.t.Fatal("the events do not end")
		}
	}
	var out []event
	for l := range strings.SplitSeq(strings.Trim(e.String(), "\n\x00"), "\n") {
		var v event
		if err := json.Unmarshal([]byte(l), &v); err != nil {
			e.t.Fatalf("event %q: %v", l, err)
		}
		out = append(out, v)
	}
	return out
}

// count counts events of a kind.
func count(all []event, kind string) (n int) {
	for _, v := range all {
		if v.Event == kind {
			n++
		}
	}
	return n
}

// printed is a line of the program's output.
type printed struct {
	Stream, Shard, Sequence, Key, Text string
	Sub                                uint64
	Arrived                            int64
	Data                               []byte
}

func parse(t *testing.T, lines []string) []printed {
	t.Helper()
	out := make([]printed, len(lines))
	for i, l := range lines {
		if err := json.Unmarshal([]byte(l), &out[i]); err != nil {
			t.Fatalf("line %q: %v", l, err)
		}
	}
	return out
}

// wantAll checks that the records put so far came, each so often at most.
func (c *cloud) wantAll(got []printed, most int) {
	c.t.Helper()
	seen := map[string]int{}
	for _, r := range got {
		seen[string(r.Data)]++
	}
	for i := range c.put {
		if n := seen[fmt.Sprint(i)]; n == 0 || n > most {
			c.t.Errorf("record %d was printed %d times, want 1 to %d", i, n, most)
		}
		delete(seen, fmt.Sprint(i))
	}
	if len(seen) > 0 {
		c.t.Errorf("records that nobody put: %v", seen)
	}
}
