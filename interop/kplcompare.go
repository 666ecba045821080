package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
)

// userRecord is a record as a consumer gives it.
type userRecord struct {
	Sequence string
	Sub      uint64
	Key      string
	Data     []byte
}

func (u userRecord) equal(v userRecord) bool {
	return u.Sequence == v.Sequence && u.Sub == v.Sub && u.Key == v.Key && bytes.Equal(u.Data, v.Data)
}

// kplVectors are the files of records that the libraries of others aggregated (testdata/vectors/README.md).
var kplVectors = []string{"aggregated.json", "kpl_native.json"}

// kplScenario has the Java KCL and our program read one stream of aggregated records, each as an application of its own, and compares what they
// give: order, sub-sequences, keys, values.
func kplScenario(ctx context.Context, r *runner) (string, error) {
	url, err := r.ours(ctx)
	if err != nil {
		return "", err
	}
	p, err := newProducer(ctx, kinesisClient(url), stream, 1)
	if err != nil {
		return "", err
	}
	containers, users := 0, 0
	for _, name := range kplVectors {
		c, u, err := p.putVectors(ctx, filepath.Join(r.root, "testdata", "vectors", "kpl", name))
		if err != nil {
			return "", err
		}
		containers, users = containers+c, users+u
	}
	bin, err := r.program(ctx)
	if err != nil {
		return "", err
	}
	ours := exec.CommandContext(ctx, bin, "consume", "kinesis", "--stream", stream, "--app", "interop-ours", "--region", region, "--endpoint-url", url, "--max", strconv.Itoa(users), "--idle-exit", "30s")
	ours.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID="+account, "AWS_SECRET_ACCESS_KEY=secret")
	kcl, err := r.kclCommand(ctx, latestKCL, "--streams", stream, "--app", "interop-java", "--worker", "java1", "--kinesis", url, "--dynamo", url, "--http1", "--records",
		"--no-worker-metrics", "--worker-metrics-ms", "1000", "--failover-ms", "3000", "--idle-ms", "250", "--expect", strconv.Itoa(users), "--seconds", "180")
	if err != nil {
		return "", err
	}
	context.AfterFunc(ctx, func() {
		if kcl.Process != nil {
			_ = kcl.Process.Kill()
		}
	})
	got := map[string][]userRecord{}
	for _, run := range []struct {
		name string
		cmd  *exec.Cmd
	}{{"java", kcl}, {"ours", ours}} {
		if got[run.name], err = r.userRecords(run.name, run.cmd); err != nil {
			return "", err
		}
	}
	text := fmt.Sprintf("%d records aggregated by others, %d user records; the KCL %s and ours give the same", containers, users, latestKCL)
	if len(got["java"]) != users {
		return "", fmt.Errorf("the KCL gave %d user records, the vectors have %d", len(got["java"]), users)
	}
	for i, want := range got["java"] {
		if i >= len(got["ours"]) || !want.equal(got["ours"][i]) {
			return "", fmt.Errorf("record %d is %+v with the KCL, and ours gave %+v", i, want, got["ours"][i:min(i+1, len(got["ours"]))])
		}
	}
	if n := len(got["ours"]); n != users {
		return "", fmt.Errorf("ours gave %d user records, the KCL %d", n, users)
	}
	return text, nil
}

// putVectors puts the records of a file of vectors, and says how many they are, and how many user records the KCL finds in them.
func (p *producer) putVectors(ctx context.Context, path string) (containers, users int, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, err
	}
	type record struct {
		Key  string `json:"partition_key"`
		Data []byte `json:"data"`
	}
	var file struct {
		Cases []struct {
			Records []record
			Expect  struct{ Records []record }
		}
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return 0, 0, fmt.Errorf("%s: %w", path, err)
	}
	for _, c := range file.Cases {
		for _, r := range c.Records {
			if _, err := p.k.PutRecord(ctx, &kinesis.PutRecordInput{StreamName: &p.stream, PartitionKey: &r.Key, Data: r.Data}); err != nil {
				return 0, 0, fmt.Errorf("%s: %w", path, err)
			}
			containers++
		}
		users += len(c.Expect.Records)
	}
	if users == 0 {
		return 0, 0, fmt.Errorf("%s holds no user records", path)
	}
	return containers, users, nil
}

// userRecords runs a consumer to its end and returns the records it printed.
func (r *runner) userRecords(name string, cmd *exec.Cmd) ([]userRecord, error) {
	log, err := os.Create(filepath.Join(r.out, name+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, log, 5*time.Second
	err = cmd.Run()
	if werr := os.WriteFile(filepath.Join(r.out, name+".jsonl"), out.Bytes(), 0o644); werr != nil || err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), werr)
	}
	var list []userRecord
	for l := range bytes.Lines(out.Bytes()) {
		var u struct {
			Event string
			userRecord
		}
		if json.Unmarshal(l, &u) != nil || u.Sequence == "" || !slices.Contains([]string{"", "record"}, u.Event) {
			continue // libraries print too, and kclpeer prints events
		}
		list = append(list, u.userRecord)
	}
	return list, nil
}
