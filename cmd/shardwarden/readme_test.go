package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardwarden/shardwarden/emulator/tablestore"
)

const root = "../.."

func readme(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The first program of the README is the example, which compiles.
func TestReadmeProgram(t *testing.T) {
	t.Parallel()
	example, err := os.ReadFile(filepath.Join(root, "examples/kinesis/main.go"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "```go\n" + strings.TrimSpace(string(example)) + "\n```\n"; !strings.Contains(readme(t), want) {
		t.Error("the first program in README.md is not examples/kinesis/main.go")
	}
}

// Each guarantee names a test that there is.
func TestReadmeGuarantees(t *testing.T) {
	t.Parallel()
	rows := regexp.MustCompile("(?m)^\\| .* \\| `([a-z/]+)` (Test\\w+) \\|$").FindAllStringSubmatch(readme(t), -1)
	if len(rows) < 20 {
		t.Fatalf("%d guarantees with a test", len(rows))
	}
	for _, row := range rows {
		files, err := filepath.Glob(filepath.Join(root, row[1], "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(b), "\nfunc "+row[2]+"(")
		}
		if !found {
			t.Errorf("there is no %s in %s", row[2], row[1])
		}
	}
}

// What the README links to is there.
func TestReadmeLinks(t *testing.T) {
	t.Parallel()
	links := regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllStringSubmatch(readme(t), -1)
	if len(links) < 8 {
		t.Fatalf("%d links", len(links))
	}
	for _, l := range links {
		if _, err := os.Stat(filepath.Join(root, l[1])); err != nil {
			t.Errorf("link to %s: %v", l[1], err)
		}
	}
}

// The example of Tablestore prints a change as it happens.
func TestTablestoreExample(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "example")
	build := exec.Command("go", "build", "-o", binary, "./examples/tablestore")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	s := newShop(t, tablestore.Config{})
	s.table("orders", 24, "id")
	p := startProgram(t, binary, append([]string{"TABLESTORE_ENDPOINT=" + s.url, "TABLESTORE_INSTANCE=any"}, keys...))
	// It begins at what is written once it runs, and does not say when that is.
	printed, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			s.fill("orders", 1)
			select {
			case <-tick.C:
			case <-printed:
				return
			}
		}
	}()
	first, second := p.line(), p.line()
	close(printed)
	<-done
	if !regexp.MustCompile(`^put "key \d\d"$`).MatchString(first) || !regexp.MustCompile(`^ +put n \d+$`).MatchString(second) {
		t.Errorf("it printed %q and %q", first, second)
	}
	p.signal(syscall.SIGTERM)
	p.rest()
	p.wantExit(0)
}

// The first program runs as the README says, against the emulators of the program.
func TestFirstProgram(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "first")
	build := exec.Command("go", "build", "-o", binary, "./examples/kinesis")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	_, url := ready(t, "all", "--addr", "127.0.0.1:0")
	k, _ := clients(url)
	if _, err := k.CreateStream(t.Context(), &kinesis.CreateStreamInput{StreamName: aws.String("orders"), ShardCount: aws.Int32(4)}); err != nil {
		t.Fatal(err)
	}
	put, err := k.PutRecord(t.Context(), &kinesis.PutRecordInput{StreamName: aws.String("orders"), PartitionKey: aws.String("customer-7"), Data: []byte("hello")})
	if err != nil {
		t.Fatal(err)
	}
	p := startProgram(t, binary, []string{"AWS_ENDPOINT_URL=" + url, "AWS_REGION=us-east-1"})
	if got, want := p.line(), *put.ShardId+" customer-7 hello"; got != want {
		t.Errorf("it printed %q, want %q", got, want)
	}
	p.signal(syscall.SIGTERM)
	p.wantExit(0)
}
