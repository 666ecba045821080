package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"
)

// javaFleet says how a fleet of Tablestore's Java Stream Client and of ours is tried.
type javaFleet struct {
	lease, period time.Duration // of the Java workers: leaseDurationMillis; renewer and taker interval
	rounds        int           // of writes between two steps: each changes 200 rows
	reshard       bool          // partitions are split and merged while both read
}

// joining is how long a worker may wait for its first lease: each side asks for one at a time, and is heard after several renewals.
func (f javaFleet) joining() time.Duration { return 8*f.period + 30*time.Second }

// takeover is how long after a kill everything must have been read: the lease runs out, is noticed, and the tail comes again.
func (f javaFleet) takeover() time.Duration { return f.lease + 4*f.period + 60*time.Second }

// fleetRun is a scenario under way.
type fleetRun struct {
	*runner
	javaFleet
	url   string
	w     *writer
	j     *journal
	kills []kill
	notes []string
	java  bool // workers of the Java client share the table
}

// streamClientScenario has workers of the Java Stream Client and ours share one status table on our emulator: Java alone; ours joins and is given
// leases by Java; Java is killed and ours takes over; Java joins again and is given leases by ours; ours is killed and Java takes over; ours joins
// and leaves in order. Every change must come, in order per row, and again only after a kill.
func streamClientScenario(ctx context.Context, r *runner, f javaFleet) (string, error) {
	if err := r.streamClient(ctx); err != nil {
		return "", err
	}
	url, err := r.tablestore(ctx)
	if err != nil {
		return "", err
	}
	w, err := newWriter(ctx, url)
	if err != nil {
		return "", err
	}
	s := &fleetRun{runner: r, javaFleet: f, url: url, w: w, j: newJournal(), java: true}
	if err := s.play(ctx); err != nil {
		return "", err
	}
	return s.verdict()
}

// changesScenario has only workers of ours, at their defaults: the second joins, partitions are split and merged, the first is killed, a third joins
// and leaves in order.
func changesScenario(ctx context.Context, r *runner) (string, error) {
	url, err := r.tablestore(ctx)
	if err != nil {
		return "", err
	}
	w, err := newWriter(ctx, url)
	if err != nil {
		return "", err
	}
	s := &fleetRun{runner: r, javaFleet: javaFleet{lease: 10 * time.Second, period: 2500 * time.Millisecond, rounds: 5}, url: url, w: w, j: newJournal()}
	if err := w.write(s.rounds); err != nil {
		return "", err
	}
	began := time.Now()
	go1, err := s.goWorker(ctx, "go1")
	if err != nil {
		return "", err
	}
	if err := s.j.until(ctx, s.joining(), "the first change", func() bool { return s.j.distinct() > 0 }); err != nil {
		return "", err
	}
	s.note("first change after %.2f s", time.Since(began).Seconds())
	if _, err := s.goWorker(ctx, "go2"); err != nil {
		return "", err
	}
	if err := s.share(ctx, "go2", "go1"); err != nil {
		return "", err
	}
	if err := s.reshardTwice(ctx); err != nil {
		return "", err
	}
	if err := s.killIt(ctx, go1); err != nil {
		return "", err
	}
	go3, err := s.goWorker(ctx, "go3")
	if err != nil {
		return "", err
	}
	if err := s.share(ctx, "go3", "go2"); err != nil {
		return "", err
	}
	owned, err := w.owned()
	if err != nil {
		return "", err
	}
	left := kill{worker: "go3", at: time.Now(), checkpoints: map[string]string{}}
	for _, shard := range owned["go3"] {
		left.checkpoints[shard] = ""
	}
	if _, err := go3.terminate(ctx, stopping); err != nil {
		return "", err
	}
	if err := s.writeAndSee(ctx, s.joining()); err != nil {
		return "", err
	}
	s.note("shards of go3 read by the other %.1f s after it was asked to stop", failover(s.j.deliveries(), left).Seconds())
	return s.verdict()
}

// reshardTwice splits a partition and merges two while both workers read.
func (s *fleetRun) reshardTwice(ctx context.Context) error {
	for _, merge := range []bool{false, true} {
		if err := s.w.write(s.rounds); err != nil {
			return err
		}
		what, err := s.w.reshard(ctx, merge)
		if err != nil {
			return err
		}
		s.say("merge %v of %s", merge, what)
	}
	return s.writeAndSee(ctx, s.joining())
}

// verdict judges what was delivered by what the stream holds.
func (s *fleetRun) verdict() (string, error) {
	ledger, order, err := s.w.audit()
	if err != nil {
		return "", err
	}
	shards, err := s.w.shards()
	if err != nil {
		return "", err
	}
	v := judge(ledger, order, shards, s.j.deliveries(), s.kills...)
	text := fmt.Sprintf("%d changes over %d shards, %d delivered (%s), %d again after kills; %s", v.put, len(shards), v.delivered, s.j.byWorker(), v.duplicates, strings.Join(s.notes, ", "))
	if len(v.complaints) > 0 {
		return text, fmt.Errorf("%s\n  %s", text, strings.Join(v.complaints, "\n  "))
	}
	return text, nil
}

func (s *fleetRun) play(ctx context.Context) error {
	began := time.Now()
	java1, err := s.javaWorker("java1")
	if err != nil {
		return err
	}
	if err := s.writeAndSee(ctx, s.joining()); err != nil {
		return err
	}
	s.note("Java alone had all after %.1f s", time.Since(began).Seconds())
	foreign, err := s.putForeignRows()
	if err != nil {
		return err
	}
	go1, err := s.goWorker(ctx, "go1")
	if err != nil {
		return err
	}
	if err := s.share(ctx, "go1", "java1"); err != nil {
		return err
	}
	if s.reshard {
		err = s.reshardTwice(ctx)
	} else {
		err = s.writeAndSee(ctx, s.joining())
	}
	if err != nil {
		return err
	}
	if err := s.killIt(ctx, java1); err != nil {
		return err
	}
	java2, err := s.javaWorker("java2")
	if err != nil {
		return err
	}
	if err := s.share(ctx, "java2", "go1"); err != nil {
		return err
	}
	if err := s.writeAndSee(ctx, s.joining()); err != nil {
		return err
	}
	if err := s.killIt(ctx, go1); err != nil {
		return err
	}
	go2, err := s.goWorker(ctx, "go2")
	if err != nil {
		return err
	}
	if err := s.share(ctx, "go2", "java2"); err != nil {
		return err
	}
	if err := s.writeAndSee(ctx, s.joining()); err != nil {
		return err
	}
	took, err := go2.terminate(ctx, stopping)
	if err != nil {
		return err
	}
	s.note("go2 stopped in %.1f s", took.Seconds())
	if err := s.writeAndSee(ctx, s.joining()); err != nil {
		return err
	}
	if err := java2.kill(); err != nil {
		return err
	}
	return s.foreignRowsStand(foreign)
}

func (s *fleetRun) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.say("%s", text)
	s.notes = append(s.notes, text)
}

// writeAndSee writes and waits until every change so far was delivered by somebody.
func (s *fleetRun) writeAndSee(ctx context.Context, limit time.Duration) error {
	if err := s.w.write(s.rounds); err != nil {
		return err
	}
	return s.j.until(ctx, limit, "every change delivered", func() bool { return s.j.distinct() >= s.w.total })
}

// share waits until newcomer owns leases and old still does.
func (s *fleetRun) share(ctx context.Context, newcomer, old string) error {
	began := time.Now()
	var owned map[string][]string
	err := poll(ctx, s.joining(), func() (open string, err error) {
		if err := s.j.health(); err != nil {
			return "", err
		}
		if owned, err = s.w.owned(); err != nil {
			return "", err
		}
		if len(owned[newcomer]) == 0 || len(owned[old]) == 0 {
			return fmt.Sprintf("leases of %s and %s: %v", newcomer, old, owned), nil
		}
		return "", nil
	})
	if err == nil {
		s.note("%s had leases of %s after %.1f s", newcomer, old, time.Since(began).Seconds())
	}
	return err
}

// killIt kills a worker that is delivering, writes more, and waits until the other has read everything.
func (s *fleetRun) killIt(ctx context.Context, c *consumer) error {
	had := s.j.of(c.worker)
	if err := s.w.write(1); err != nil {
		return err
	}
	if err := s.j.until(ctx, s.joining(), c.worker+" delivering before its kill", func() bool { return s.j.of(c.worker) > had }); err != nil {
		return err
	}
	k := kill{worker: c.worker, at: time.Now(), checkpoints: map[string]string{}}
	if err := c.kill(); err != nil {
		return err
	}
	rows, err := s.w.status()
	if err != nil {
		return err
	}
	for _, row := range rows {
		// Its place is an iterator, which nothing can be compared with. A lease that was on its way to somebody else is its too.
		if row.kind == javaLease && row.owner == c.worker && row.checkpoint != "SHARD_END" {
			k.checkpoints[row.shard] = ""
		}
	}
	s.say("killed %s, which owned %v", c.worker, slices.Sorted(maps.Keys(k.checkpoints)))
	s.kills = append(s.kills, k)
	if err := s.writeAndSee(ctx, s.takeover()); err != nil {
		return err
	}
	s.note("%s's shards were read by the other %.1f s after its kill", c.worker, failover(s.j.deliveries(), k).Seconds())
	return nil
}

// putForeignRows puts rows beside the leases as DataX does (docs/reference/tablestore.md 3.4).
func (s *fleetRun) putForeignRows() ([]statusRow, error) {
	id, err := s.w.streamID()
	if err != nil {
		return nil, err
	}
	for _, row := range []struct {
		kind, value string
		columns     map[string]any
	}{
		{"CheckpointForDataxReader", fmt.Sprintf("%16d\tshard-1", int64(1700000000000)), map[string]any{"Checkpoint": "an iterator", "Version": int64(1), "SkipCount": int64(0), "SendRecordCount": int64(7)}},
		{"CheckpointForDataxReader", fmt.Sprintf("%16d", int64(1700000000000)), map[string]any{"ShardCount": int64(1)}},
		{"DataxJobDesc", fmt.Sprintf("%16d", int64(1700000000000)), map[string]any{"Version": int64(1), "TableName": stream, "StartTime": int64(0)}},
	} {
		pk := &tablestore.PrimaryKey{}
		pk.AddPrimaryKeyColumn("StreamId", string(*id))
		pk.AddPrimaryKeyColumn("StatusType", row.kind)
		pk.AddPrimaryKeyColumn("StatusValue", row.value)
		c := &tablestore.PutRowChange{TableName: statusTable, PrimaryKey: pk}
		for name, v := range row.columns {
			c.AddColumn(name, v)
		}
		c.SetCondition(tablestore.RowExistenceExpectation_IGNORE)
		if _, err := s.w.sdk.PutRow(&tablestore.PutRowRequest{PutRowChange: c}); err != nil {
			return nil, fmt.Errorf("put a row of another kind: %w", err)
		}
	}
	return s.foreignRows()
}

func (s *fleetRun) foreignRows() ([]statusRow, error) {
	rows, err := s.w.status()
	return slices.DeleteFunc(rows, func(r statusRow) bool { return !strings.Contains(strings.ToLower(r.kind), "datax") }), err
}

func (s *fleetRun) foreignRowsStand(want []statusRow) error {
	got, err := s.foreignRows()
	if err == nil && !reflect.DeepEqual(got, want) {
		err = fmt.Errorf("rows of DataX are %v, and were %v", got, want)
	}
	return err
}

// tablestore starts our emulator.
func (r *runner) tablestore(ctx context.Context) (string, error) {
	bin, err := r.program(ctx)
	if err != nil {
		return "", err
	}
	ports, err := freePorts(1)
	if err != nil {
		return "", err
	}
	return "http://127.0.0.1:" + ports[0], r.server(ctx, "emulator", ports[0], bin, "emulator", "tablestore", "--addr", "127.0.0.1:"+ports[0])
}

// streamClient builds interop/peers/streamclient with Maven.
func (r *runner) streamClient(ctx context.Context) error {
	return r.once("streamclient", func() error {
		if err := r.have("java", "mvn"); err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Join(r.work, "streamclient", "streamclient.jar")); err == nil {
			return nil
		}
		_, err := r.command(ctx, r.root, nil, "mvn", "-q", "-B", "-f", filepath.Join(r.root, "interop", "peers", "streamclient", "pom.xml"),
			"-DbuildDirectory="+filepath.Join(r.work, "streamclient"), "package")
		return noNetwork(err)
	})
}

func (s *fleetRun) javaWorker(name string) (*consumer, error) {
	ms := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	c := &consumer{worker: name}
	c.cmd = exec.Command(filepath.Join(s.root, "interop", "peers", "streamclient", "run.sh"), "--endpoint", s.url, "--instance", instance, "--table", stream,
		"--status", statusTable, "--worker", name, "--seconds", "900", "--lease-ms", ms(s.lease), "--renew-ms", ms(s.period), "--take-ms", ms(s.period))
	c.cmd.Env = append(os.Environ(), "PEERS_WORK="+s.work)
	return c, s.follow(s.j, c, parseJavaChange)
}

// parseJavaChange reads a line of interop/peers/streamclient.
func parseJavaChange(worker string, text []byte) (delivery, error) {
	var l struct {
		Event, Shard, Sequence, Error string
		Key                           []string
	}
	if !bytes.HasPrefix(text, []byte(`{"ms":`)) {
		return delivery{}, nil // libraries print too
	}
	if err := json.Unmarshal(text, &l); err != nil {
		return delivery{}, fmt.Errorf("worker %s wrote %q: %w", worker, text, err)
	}
	switch l.Event {
	case "record":
	case "error":
		return delivery{}, fmt.Errorf("worker %s died: %s", worker, l.Error)
	default:
		return delivery{}, nil
	}
	var n [3]int64
	for i, f := range strings.SplitN(l.Sequence, "/", 3) {
		var err error
		if n[i], err = strconv.ParseInt(f, 10, 64); err != nil {
			return delivery{}, fmt.Errorf("worker %s: sequence %q: %w", worker, l.Sequence, err)
		}
	}
	return change(worker, l.Shard, strings.Join(l.Key, ","), n), nil
}

func change(worker, shard, key string, n [3]int64) delivery {
	seq := sequence(n[0], n[1], n[2])
	return delivery{worker: worker, shard: shard, seq: seq, key: key, id: place(shard, seq)}
}

func (s *fleetRun) goWorker(ctx context.Context, name string) (*consumer, error) {
	bin, err := s.program(ctx)
	if err != nil {
		return nil, err
	}
	c := &consumer{worker: name, events: filepath.Join(s.out, name+".events.jsonl")}
	c.cmd = exec.Command(bin, "consume", "tablestore", "--instance", instance, "--table", stream, "--status-table", statusTable, "--endpoint", s.url,
		"--worker-id", name, "--events", c.events)
	if s.java {
		c.cmd.Args = append(c.cmd.Args, "--with-java", s.lease.String(), "--lease-duration", min(s.lease, 10*time.Second).String())
	}
	c.cmd.Env = append(os.Environ(), "TABLESTORE_ACCESS_KEY_ID=interop", "TABLESTORE_ACCESS_KEY_SECRET=interop")
	return c, s.follow(s.j, c, parseGoChange)
}

// parseGoChange reads a line of the program's output.
func parseGoChange(worker string, text []byte) (delivery, error) {
	var l struct {
		Stream, Shard, Sequence, Key string
		Data                         json.RawMessage
	}
	if err := json.Unmarshal(text, &l); err != nil {
		return delivery{}, fmt.Errorf("worker %s wrote a line that is no JSON object: %q: %w", worker, text, err)
	}
	var n [3]int64
	if _, err := fmt.Sscanf(l.Sequence, "%x:%x:%x", &n[0], &n[1], &n[2]); err != nil || l.Shard == "" || l.Key == "" || len(l.Data) == 0 || l.Data[0] != '{' {
		return delivery{}, fmt.Errorf("worker %s wrote a line without one of shard sequence key data: %s", worker, text)
	}
	return change(worker, l.Shard, l.Key, n), nil
}
