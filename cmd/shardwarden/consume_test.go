package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	dynamosdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dynamotypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardwarden/shardwarden/emulator/dynamodb"
	"github.com/shardwarden/shardwarden/emulator/kinesis"
)

func TestConsumePrints(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.stream("orders", 2)
	c.fill("orders", 10)
	p, e := c.consume("--stream", "orders", "--app", "billing", "--max", "10", "--worker-id", "me")
	lines := p.rest()
	p.wantExit(0)
	shape := regexp.MustCompile(`^\{"stream":"orders","shard":"shardId-00000000000[01]","sequence":"\d{56}","sub":0,"key":"key \d+","arrived":1\d{12},"data":"[A-Za-z0-9+/=]+"\}$`)
	for _, l := range lines {
		if !shape.MatchString(l) {
			t.Errorf("line %s", l)
		}
	}
	c.wantAll(parse(t, lines), 1)
	all := e.all()
	for _, v := range all {
		if v.Worker != "me" || v.Time.IsZero() || v.Event == "" {
			t.Errorf("event %+v", v)
		}
	}
	for kind, n := range map[string]int{"worker started": 1, "lease taken": 2, "shard started": 2, "lease released": 2, "worker stopped": 1} {
		if got := count(all, kind); got != n {
			t.Errorf("%d events %q, want %d", got, kind, n)
		}
	}
	if count(all, "checkpoint") == 0 {
		t.Error("no checkpoint event")
	}

	p, _ = c.consume("--stream", "orders", "--app", "peek", "--max", "10", "--text")
	for _, l := range parse(t, p.rest()) {
		if _, err := strconv.Atoi(l.Text); err != nil || l.Data != nil {
			t.Errorf("with --text: %+v", l)
		}
	}
	p.wantExit(0)
}

// --max stops at the record, and the next run goes on with the one behind it, however the shards race.
func TestConsumeMaxIsExact(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.stream("orders", 4)
	c.fill("orders", 2000)
	var all []printed
	for _, n := range []int{333, 1, 900, 766} {
		p, e := c.consume("--stream", "orders", "--app", "billing", "--max", fmt.Sprint(n))
		got := p.rest()
		p.wantExit(0)
		if len(got) != n {
			t.Errorf("--max %d printed %d records", n, len(got))
		}
		all = append(all, parse(t, got)...)
		if ev := e.all(); count(ev, "lease released") != count(ev, "lease taken") || failures(ev) > 0 {
			t.Errorf("--max %d: %d leases taken, %d released, %d errors", n, count(ev, "lease taken"), count(ev, "lease released"), failures(ev))
		}
		c.wantFree("billing")
	}
	c.wantAll(all, 1)
	wantOrder(t, all)
}

// failures counts errors, but for those of calls that the end cut short.
func failures(all []event) (n int) {
	for _, v := range all {
		if v.Event == "error" && !strings.Contains(v.Error, "context canceled") {
			n++
		}
	}
	return n
}

// wantFree checks that no lease is owned, so that the next worker need not wait for one.
func (c *cloud) wantFree(app string) {
	c.t.Helper()
	for _, row := range c.dynamo.Items(app) {
		if owner, owned := row["leaseOwner"]; owned {
			c.t.Errorf("after an orderly end %v still owns %v", owner, row["leaseKey"])
		}
	}
}

// wantOrder checks that the first printing of the records of a key is in the order they were put.
func wantOrder(t *testing.T, got []printed) {
	t.Helper()
	last, seen := map[string]int{}, map[string]bool{}
	for _, r := range got {
		if seen[string(r.Data)] {
			continue
		}
		seen[string(r.Data)] = true
		n, err := strconv.Atoi(string(r.Data))
		if before, ok := last[r.Key]; err != nil || ok && n < before {
			t.Errorf("record %s of %q came after %d", r.Data, r.Key, before)
		}
		last[r.Key] = n
	}
}

func TestConsumeIdleExit(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.stream("orders", 2)
	c.fill("orders", 100)
	p, _ := c.consume("--stream", "orders", "--app", "billing", "--idle-exit", "1s")
	got := parse(t, p.rest())
	p.wantExit(0)
	c.wantAll(got, 1)
}

func TestConsumeFrom(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.stream("orders", 2)
	c.fill("orders", 100)
	// A service says the time in seconds only, so latest begins up to a second early: let that second go by.
	<-time.After(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
	p, e := c.consume("--stream", "orders", "--app", "late", "--from", "latest", "--max", "5")
	e.await(t, `"shard started"`)
	c.fill("orders", 5)
	for _, r := range parse(t, p.rest()) {
		if n, _ := strconv.Atoi(string(r.Data)); n < 100 {
			t.Errorf("from latest: record %d, which was there before", n)
		}
	}
	p.wantExit(0)
	p, _ = c.consume("--stream", "orders", "--app", "timed", "--from", "2020-01-02T03:04:05Z", "--max", "105")
	c.wantAll(parse(t, p.rest()), 1)
	p.wantExit(0)
}

// A signal ends it in order: nothing that was printed comes again, and the next worker need not wait for leases to run out.
func TestConsumeStopsInOrder(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			c := newCloud(t)
			c.stream("orders", 4)
			c.fill("orders", 1000)
			p, e := c.consume("--stream", "orders", "--app", "billing", "--lease-duration", "1h", "--checkpoint-interval", "1h")
			first := []string{p.line()}
			p.signal(s)
			first = append(first, p.rest()...)
			p.wantExit(0)
			ev := e.all()
			if taken := count(ev, "lease taken"); taken == 0 || count(ev, "lease released") != taken {
				t.Errorf("%d leases taken, %d released", taken, count(ev, "lease released"))
			}
			if last := ev[len(ev)-1]; last.Event != "worker stopped" || last.Error != "" {
				t.Errorf("last event %+v", last)
			}
			c.wantFree("billing")
			got := parse(t, first)
			if left := c.put - len(got); left > 0 {
				p, _ = c.consume("--stream", "orders", "--app", "billing", "--lease-duration", "1h", "--max", fmt.Sprint(left))
				got = append(got, parse(t, p.rest())...)
				p.wantExit(0)
			}
			c.wantAll(got, 1)
			wantOrder(t, got)
		})
	}
}

// A second signal ends it at once, though a handler hangs: here because nobody reads stdout.
func TestConsumeSecondSignal(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.stream("orders", 1)
	c.fill("orders", 5000) // far more than a pipe holds
	p, _ := c.consume("--stream", "orders", "--app", "billing")
	p.line()
	p.signal(syscall.SIGTERM)
	p.errors.await(t, "stopping in order")
	again := time.NewTicker(50 * time.Millisecond) // those of the first half second count as the first
	defer again.Stop()
	ended := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-again.C:
				_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
			case <-ended:
				return
			}
		}
	})
	p.wantExit(128 + int(syscall.SIGTERM))
	close(ended)
	wg.Wait()
}

// A reader that goes away (as head does) ends it in order, and what it did not read comes again.
func TestConsumeBrokenPipe(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.stream("orders", 2)
	c.fill("orders", 5000)
	p, e := c.consume("--stream", "orders", "--app", "billing")
	p.line()
	p.pipe.Close()
	p.wantExit(0)
	ev := e.all()
	if taken := count(ev, "lease taken"); taken == 0 || count(ev, "lease released") != taken || failures(ev) > 0 {
		t.Errorf("%d leases taken, %d released, %d errors", taken, count(ev, "lease released"), failures(ev))
	}
	p, _ = c.consume("--stream", "orders", "--app", "billing", "--idle-exit", "2s")
	rest := parse(t, p.rest())
	p.wantExit(0)
	seen := map[string]bool{}
	for _, r := range rest {
		seen[string(r.Data)] = true
	}
	// The pipe holds 64 KiB, about 400 lines: so many may have been written though nobody read them.
	if len(seen) < 4000 {
		t.Errorf("%d of 5000 records come again", len(seen))
	}
}

// A signal also ends what waits for a service that does not answer.
func TestConsumeStopsWhileStarting(t *testing.T) {
	t.Parallel()
	p := start(t, nil, "consume", "kinesis", "--stream", "orders", "--app", "billing", "--region", "us-east-1", "--endpoint-url", "http://127.0.0.1:1")
	p.errors.await(t, "trying again")
	p.signal(syscall.SIGTERM)
	p.wantExit(0)
}

// A disk that is full is an error, and costs nothing: what could not be written comes again.
func TestConsumeToAFullDisk(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("there is no /dev/full here")
	}
	defer full.Close()
	c := newCloud(t)
	c.stream("orders", 2)
	c.fill("orders", 100)
	args := []string{"consume", "kinesis", "--region", "us-east-1", "--endpoint-url", c.kurl, "--dynamodb-endpoint-url", c.durl, "--stream", "orders", "--app", "billing"}
	p := startTo(t, full, program, nil, args...)
	p.wantExit(1)
	if !strings.Contains(p.errors.String(), "shardwarden: write to stdout: ") {
		t.Errorf("the error is not told: %s", p.errors)
	}
	c.wantFree("billing")
	p, _ = c.consume("--stream", "orders", "--app", "billing", "--max", "100")
	c.wantAll(parse(t, p.rest()), 1)
	p.wantExit(0)

	p = start(t, nil, append(args, "--events", "/dev/full", "--idle-exit", "1ms")...)
	p.wantExit(1)
	if !strings.Contains(p.errors.String(), "shardwarden: --events: ") {
		t.Errorf("events that cannot be written: %s", p.errors)
	}
}

// Two workers share a stream; one is killed. Every record is printed, in order per key, and what is printed twice is what the killed one had
// printed and not stored.
func TestConsumeKill9(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.stream("orders", 4)
	c.fill("orders", 400)
	args := []string{"--stream", "orders", "--app", "billing", "--lease-duration", "2s", "--checkpoint-interval", "500ms"}
	type shown struct {
		printed
		by string
	}
	var mu sync.Mutex
	var all []shown
	news := make(chan struct{}, 1)
	collect := func(p *process, name string) <-chan struct{} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				l, err := p.out.ReadString('\n')
				if err != nil {
					return // of a killed worker the last line may be cut; it is not counted
				}
				r := parse(t, []string{l})[0]
				mu.Lock()
				all = append(all, shown{r, name})
				mu.Unlock()
				select {
				case news <- struct{}{}:
				default:
				}
			}
		}()
		return done
	}
	until := func(ok func() bool) {
		for {
			mu.Lock()
			fine := ok()
			mu.Unlock()
			if fine {
				return
			}
			select {
			case <-news:
			case <-t.Context().Done():
				t.Fatal("the test ended")
			}
		}
	}
	a, ae := c.consume(append(args, "--worker-id", "a")...)
	b, be := c.consume(append(args, "--worker-id", "b")...)
	aDone, bDone := collect(a, "a"), collect(b, "b")
	ae.await(t, `"shard started"`)
	be.await(t, `"shard started"`)
	by := func(name string) func() bool {
		n := len(all)
		return func() bool {
			return slices.ContainsFunc(all[min(n, len(all)):], func(s shown) bool { return s.by == name })
		}
	}
	for _, name := range []string{"a", "b", "a"} {
		mu.Lock()
		ok := by(name)
		mu.Unlock()
		c.fill("orders", 200)
		until(ok)
	}
	a.signal(syscall.SIGKILL)
	<-aDone
	c.fill("orders", 400)
	until(func() bool {
		seen := map[string]bool{}
		for _, s := range all {
			seen[string(s.Data)] = true
		}
		return len(seen) == c.put
	})
	b.signal(syscall.SIGTERM)
	<-bDone
	b.wantExit(0)
	var plain []printed
	first := map[string]shown{}
	for _, s := range all {
		plain = append(plain, s.printed)
		if before, again := first[string(s.Data)]; again && (before.by != "a" || s.by != "b") {
			t.Errorf("record %s was printed by %s and again by %s", s.Data, before.by, s.by)
		}
		first[string(s.Data)] = s
	}
	c.wantAll(plain, 2)
	wantOrder(t, plain)
}

func TestConsumeBadInput(t *testing.T) {
	t.Parallel()
	none := []string{"AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY="}
	denyKinesis := func(ops ...string) func(*cloud) {
		return func(c *cloud) {
			for _, op := range ops {
				if err := c.kinesis.SetFault(kinesis.Fault{Kind: kinesis.AccessDenied, Operation: op}); err != nil {
					c.t.Fatal(err)
				}
			}
		}
	}
	denyDynamo := func(ops ...string) func(*cloud) {
		return func(c *cloud) {
			for _, op := range ops {
				c.dynamo.SetFault(dynamodb.Fault{Kind: dynamodb.FaultDenied, Op: op})
			}
		}
	}
	tests := []struct {
		name   string
		break_ func(*cloud)
		args   []string
		env    []string
		want   []string // parts of stderr
	}{
		{"unknown stream", nil, []string{"--stream", "nope"}, nil, []string{`stream "nope"`, "us-east-1", "not found"}},
		{"wrong region", nil, []string{"--stream", "nope", "--region", "eu-west-1"}, nil, []string{"eu-west-1", "not found"}},
		{"region of the ARN is another", nil, []string{"--stream", "arn:aws:kinesis:eu-west-1:000000000000:stream/orders"}, nil, []string{"eu-west-1", "us-east-1"}},
		{"a consumer of another stream", nil, []string{"--fan-out", "--consumer", "arn:aws:kinesis:us-east-1:000000000000:stream/payments/consumer/billing:1700000000"}, nil, []string{"payments", "orders", "another stream"}},
		{"no stream name", nil, []string{"--stream", "no such name"}, nil, []string{"no such name", "invalid"}},
		{"no credentials", nil, nil, none, []string{"credentials"}},
		{"denied to describe", denyKinesis("DescribeStreamSummary", "DescribeStream"), nil, nil, []string{"kinesis:DescribeStream", "access denied"}},
		{"denied to list", denyKinesis("ListShards", "DescribeStream"), nil, nil, []string{"kinesis:ListShards", "access denied"}},
		{"denied to read", denyKinesis("GetShardIterator", "GetRecords"), nil, nil, []string{"kinesis:GetShardIterator on", "kinesis:GetRecords on", "access denied"}},
		{"denied to create the table", denyDynamo("CreateTable"), nil, nil, []string{"dynamodb:CreateTable", "access denied"}},
		{"denied to scan", denyDynamo("Scan"), nil, nil, []string{"dynamodb:Scan", "access denied"}},
		{"denied to write", denyDynamo("PutItem", "UpdateItem", "DeleteItem"), nil, nil, []string{"dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem", "access denied"}},
		{"table of another shape", (*cloud).foreignTable, nil, nil, []string{"billing", "leaseKey"}},
		{"no table name", nil, []string{"--app", "a"}, nil, []string{`"a"`, "3 to 255"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newCloud(t)
			c.stream("orders", 1)
			if tt.break_ != nil {
				tt.break_(c)
			}
			args := []string{"consume", "kinesis", "--endpoint-url", c.kurl, "--dynamodb-endpoint-url", c.durl}
			for name, value := range map[string]string{"--stream": "orders", "--app": "billing", "--region": "us-east-1"} {
				if !slices.Contains(tt.args, name) {
					args = append(args, name, value)
				}
			}
			p := start(t, tt.env, append(args, tt.args...)...)
			if out := p.rest(); len(out) > 0 {
				t.Errorf("stdout: %q", out)
			}
			p.wantExit(1)
			last := p.errors.String()
			last = last[strings.LastIndex(strings.TrimSpace(last), "shardwarden: ")+1:]
			for _, part := range tt.want {
				if !strings.Contains(last, part) {
					t.Errorf("the error lacks %q: %s", part, last)
				}
			}
		})
	}
}

// What is denied once it runs is reported, with the permission that is missing, and tried again: it may be granted meanwhile.
func TestConsumeDeniedLater(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"kinesis:GetShardIterator", "kinesis:GetRecords", "dynamodb:PutItem", "dynamodb:UpdateItem"} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			c := newCloud(t)
			c.stream("orders", 1)
			c.fill("orders", 10)
			heal := c.kinesis.ClearFaults
			if name, ok := strings.CutPrefix(op, "kinesis:"); ok {
				// The first call of each is that of the check at start.
				if err := c.kinesis.SetFault(kinesis.Fault{Kind: kinesis.AccessDenied, Operation: name, Skip: 1}); err != nil {
					t.Fatal(err)
				}
			} else {
				heal = c.dynamo.ClearFaults
				// What is tried at the start is a row of no lease.
				c.dynamo.SetFault(dynamodb.Fault{Kind: dynamodb.FaultDenied, Op: strings.TrimPrefix(op, "dynamodb:"), KeyPrefix: "shardId-"})
			}
			p, e := c.consume("--stream", "orders", "--app", "billing", "--max", "10", "--lease-duration", "2s")
			e.await(t, op+" on arn:aws:")
			heal()
			got := parse(t, p.rest())
			p.wantExit(0)
			c.wantAll(got, 1)
			ev := e.all()
			if !slices.ContainsFunc(ev, func(v event) bool { return v.Event == "error" && strings.Contains(v.Error, op) }) {
				t.Errorf("no error event names %s: %+v", op, ev)
			}
		})
	}
}

// foreignTable makes a table of the application's name that holds something else.
func (c *cloud) foreignTable() {
	c.t.Helper()
	d := dynamosdk.NewFromConfig(aws.Config{Region: "us-east-1", BaseEndpoint: &c.durl, Credentials: credentials.NewStaticCredentialsProvider("x", "x", "")})
	_, err := d.CreateTable(c.t.Context(), &dynamosdk.CreateTableInput{
		TableName: aws.String("billing"), BillingMode: dynamotypes.BillingModePayPerRequest,
		AttributeDefinitions: []dynamotypes.AttributeDefinition{{AttributeName: aws.String("invoice"), AttributeType: dynamotypes.ScalarAttributeTypeN}},
		KeySchema:            []dynamotypes.KeySchemaElement{{AttributeName: aws.String("invoice"), KeyType: dynamotypes.KeyTypeHash}},
	})
	if err != nil {
		c.t.Fatal(err)
	}
}

// A table that belongs to another stream, or to a former one of the same name, is left alone.
func TestConsumeTableOfAnother(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.stream("orders", 1)
	c.stream("invoices", 1)
	c.fill("orders", 10)
	p, _ := c.consume("--stream", "orders", "--app", "billing", "--max", "10")
	p.rest()
	p.wantExit(0)
	p, _ = c.consume("--stream", "invoices", "--app", "billing")
	p.wantExit(1)
	if !strings.Contains(p.errors.String(), "belongs to another stream") {
		t.Errorf("another stream: %s", p.errors)
	}
	if _, err := c.client.DeleteStream(t.Context(), &sdk.DeleteStreamInput{StreamName: aws.String("orders")}); err != nil {
		t.Fatal(err)
	}
	c.stream("orders", 1)
	p, _ = c.consume("--stream", "orders", "--app", "billing")
	p.wantExit(1)
	if !strings.Contains(p.errors.String(), "belongs to another stream") {
		t.Errorf("a former stream of the same name: %s", p.errors)
	}
}

// Two workers of one id notice each other, and say so.
func TestConsumeTwins(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.stream("orders", 2)
	args := []string{"--stream", "orders", "--app", "billing", "--worker-id", "same", "--lease-duration", "1s"}
	a, ae := c.consume(args...)
	ae.await(t, `"shard started"`)
	b, be := c.consume(args...)
	ae.await(t, `"event":"twin"`)
	be.await(t, `"event":"twin"`)
	for _, p := range []*process{a, b} {
		p.signal(syscall.SIGTERM)
		p.rest()
		p.wantExit(0)
	}
}
