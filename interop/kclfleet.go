package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// kind of worker: in which language it is.
type kind string

const (
	javaKind kind = "java"
	goKind   kind = "go"
)

// pairing is who shares a lease table: who starts the fleet, and so leads it where one does, and who joins.
type pairing struct {
	version         string // version of the Java KCL
	first, second   kind
	kinesis, dynamo string // the emulators; empty: ours
}

// led reports whether the fleet's leases are assigned by a leader: KCL 3.x.
func (p pairing) led() bool { return strings.HasPrefix(p.version, "3.") }

// layout is the form of the table, as consume kinesis --layout has it.
func (p pairing) layout() string {
	switch {
	case !p.led():
		return "kcl2"
	case p.version < "3.5":
		return "kcl3-tables"
	}
	return "kcl3-single"
}

// Timers of the fleet. Java's other times follow from its failover time: it renews after a third, discovers and assigns after once and twice that.
const (
	failoverTime = 3 * time.Second
	leaderLease  = 6 * time.Second
	handOverTime = 5 * time.Second
	// What a loser that is not asked may need to stop: it hears of it at its next renewal, and Java's consumers look each second.
	renewal  = 1200 * time.Millisecond // ours; Java's is a third of the failover time
	dispatch = time.Second
	// How long a step may take before it is called failed: many times what it takes on an idle machine.
	stepTime = 2 * time.Minute
)

// kclFleet is a fleet of workers of the Java KCL and of ours that share one lease table, under way.
type kclFleet struct {
	*runner
	pairing
	kinesisURL string
	d          *dynamodb.Client
	ps         []*producer // one a stream
	j          *journal
	rec        *rowRecorder
	model      *model
	workers    []*member
	kills      []kill
	notes      []string
	slow       time.Duration // each batch takes a handler so long
	defaults   bool          // all timers are the libraries' own, and nothing is checkpointed
	midway     bool          // the workers that start now store the middle of an aggregated record and stay there
	programs   bool          // workers of ours are our program, and not worker.go
	flags      []string      // more of each Java worker
}

// member is a worker of the fleet.
type member struct {
	*consumer
	kind    kind
	log     string // Java's
	read    int    // how far its log was looked through, see saw
	stopped bool   // in order

	stoppedAt time.Time
}

// newKCLFleet makes the streams, of so many shards each. Several are of a table of the KCL's multi-stream mode.
func newKCLFleet(ctx context.Context, r *runner, pair pairing, shards int, streams ...string) (*kclFleet, error) {
	f := &kclFleet{runner: r, pairing: pair, j: newJournal()}
	var err error
	if f.kinesisURL, err = r.peer(ctx, orOurs(pair.kinesis)); err != nil {
		return nil, err
	}
	durl, err := r.peer(ctx, orOurs(pair.dynamo))
	if err != nil {
		return nil, err
	}
	f.d = dynamoClient(durl)
	if f.model, err = loadModel(r.root, pair.version, len(streams) > 1); err != nil {
		return nil, err
	}
	if f.rec, err = newRowRecorder(durl, app); err != nil {
		return nil, err
	}
	for _, s := range streams {
		p, err := newProducer(ctx, kinesisClient(f.kinesisURL), s, shards)
		if err != nil {
			return nil, err
		}
		if len(streams) > 1 {
			p.prefix = s + "/"
		}
		f.ps = append(f.ps, p)
	}
	return f, nil
}

// shardOf is the name under which the ledger has the shard of a lease: that of the shard, behind that of its stream where there are several.
func (f *kclFleet) shardOf(leaseKey string) string {
	part := strings.Split(leaseKey, ":") // account, stream, epoch, shard
	return f.named(strings.Join(part[:len(part)-1], ":"), part[len(part)-1])
}

// named does so for a shard of a stream, which is told as account:stream:epoch or by its name.
func (f *kclFleet) named(stream, shard string) string {
	if !f.model.several {
		return shard
	}
	if part := strings.Split(stream, ":"); len(part) == 3 {
		stream = part[1]
	}
	return stream + "/" + shard
}

func orOurs(name string) string {
	if name == "" {
		return "ours"
	}
	return name
}

// feed puts batches until the function it returns is called: leases that bring nothing are not balanced by the KCL's variance rule.
func (f *kclFleet) feed(ctx context.Context) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		every := 400 * time.Millisecond * time.Duration(max(1, f.ps[0].within))
		if f.kinesis == "kinesis-local" || f.defaults {
			every *= 5 // it is slow; or it is for long
		}
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			for _, p := range f.ps {
				if err := p.put(context.WithoutCancel(ctx), 1); err != nil { // all of it, so that the ledger has what the stream has
					f.j.fail(fmt.Errorf("put: %w", err))
					done <- err
					return
				}
			}
			select {
			case <-ctx.Done():
				done <- nil
				return
			case <-tick.C:
			}
		}
	}()
	return sync.OnceValue(func() error { cancel(); return <-done })
}

// start starts a worker, named by its kind and how many there were of it.
func (f *kclFleet) start(ctx context.Context, k kind) (*member, error) {
	n := 1
	for _, m := range f.workers {
		if m.kind == k {
			n++
		}
	}
	m := &member{consumer: &consumer{worker: string(k) + strconv.Itoa(n)}, kind: k}
	door, err := f.rec.door(f.runner, m.worker)
	if err != nil {
		return nil, err
	}
	parse := f.parsePeer
	if k == javaKind {
		m.log = filepath.Join(f.out, m.worker+".log")
		m.java = true
		m.cmd, err = f.kclCommand(ctx, f.version, f.javaArgs(m.worker, door)...)
	} else {
		m.events = filepath.Join(f.out, m.worker+".events.jsonl")
		m.cmd, err = f.goCommand(ctx, m, door)
		if f.programs {
			parse = f.parseProgram
		}
	}
	if err != nil {
		return nil, err
	}
	if err := f.follow(f.j, m.consumer, parse); err != nil {
		return nil, err
	}
	f.workers = append(f.workers, m)
	return m, nil
}

func (f *kclFleet) javaArgs(worker, door string) []string {
	var streams []string
	for _, p := range f.ps {
		streams = append(streams, p.stream)
	}
	// On one host all workers see the same processor, by which none can be told from another.
	args := []string{"--streams", strings.Join(streams, ","), "--app", app, "--worker", worker, "--kinesis", f.kinesisURL, "--dynamo", door, "--http1", "--records",
		"--no-worker-metrics", "--handler-ms", ms(f.slow)}
	if f.defaults {
		return append(append(args, "--checkpoint-ms", "86400000"), f.flags...)
	}
	if f.programs {
		// The program announces itself as often as the KCL does by default, and with what its processor does.
		if f.layout() == "kcl3-single" {
			args = append(args, "--count-rule")
		}
	} else {
		args = append(args, "--worker-metrics-ms", "1000")
	}
	args = append(args, "--failover-ms", ms(failoverTime), "--leader-lease-ms", ms(leaderLease), "--handoff-ms", ms(handOverTime),
		"--balance-every", "1", "--shard-sync-ms", "1000", "--parent-poll-ms", "1000", "--idle-ms", "250")
	if f.midway {
		args = append(args, "--checkpoint-midway")
	}
	return append(args, f.flags...)
}

func ms(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// goCommand is the worker of worker.go, or our program, in a process of its own.
func (f *kclFleet) goCommand(ctx context.Context, m *member, door string) (*exec.Cmd, error) {
	bin, err := os.Executable()
	args := []string{"worker", "--handler", f.slow.String()}
	if f.defaults {
		args = append(args, "--no-checkpoints")
	} else {
		args = append(args, "--leader-lease", leaderLease.String(), "--metrics-every", "1s", "--lease-duration", failoverTime.String())
	}
	if f.midway {
		args = append(args, "--checkpoint-midway")
	}
	if f.programs {
		bin, err = f.program(ctx)
		args = []string{"consume", "kinesis", "--region", region, "--lease-duration", failoverTime.String(), "--checkpoint-interval", "1s", "--events", m.events}
	}
	if err != nil {
		return nil, err
	}
	layout := f.layout()
	if f.first == javaKind {
		layout = "auto" // what is there tells
	}
	for _, p := range f.ps {
		args = append(args, "--stream", p.stream)
	}
	args = append(args, "--app", app, "--worker-id", m.worker, "--endpoint-url", f.kinesisURL, "--dynamodb-endpoint-url", door,
		"--layout", layout)
	cmd := exec.Command(bin, args...)
	cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID="+account, "AWS_SECRET_ACCESS_KEY=secret", "AWS_EC2_METADATA_DISABLED=true")
	return cmd, nil
}

// parseProgram reads a line of our program.
func (f *kclFleet) parseProgram(worker string, text []byte) (delivery, error) {
	d, err := parseDelivery(worker, text)
	d.shard = f.named(d.stream, d.shard)
	return d, err
}

// parsePeer reads a line of a Java worker, or of worker.go.
func (f *kclFleet) parsePeer(worker string, text []byte) (delivery, error) {
	d, err := parsePeer(worker, text)
	d.shard = f.named(d.stream, d.shard)
	return d, err
}
