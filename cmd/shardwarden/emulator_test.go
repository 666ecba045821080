package main

import (
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	ots "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
)

// ready starts an emulator and returns its address.
func ready(t *testing.T, args ...string) (p *process, url string) {
	t.Helper()
	p = start(t, nil, append([]string{"emulator"}, args...)...)
	line := p.line()
	kind, url, ok := strings.Cut(line, " emulator ready at ")
	if !ok || kind != args[0] {
		t.Fatalf("first line: %q", line)
	}
	if hint := p.line(); !strings.Contains(hint, "="+url+" ") {
		t.Errorf("second line: %q", hint)
	}
	return p, url
}

func clients(url string) (*kinesis.Client, *dynamodb.Client) {
	c := aws.Config{Region: "us-east-1", BaseEndpoint: &url, Credentials: credentials.NewStaticCredentialsProvider("x", "x", ""),
		Retryer: func() aws.Retryer { return aws.NopRetryer{} }}
	return kinesis.NewFromConfig(c), dynamodb.NewFromConfig(c)
}

func otsClient(url string) *ots.TableStoreClient {
	c := ots.NewDefaultTableStoreConfig()
	c.RetryTimes = 0
	return ots.NewClientWithConfig(url, "any", "x", "x", "", c)
}

func TestEmulator(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind                        string
		kinesis, dynamo, tablestore bool
		end                         syscall.Signal
	}{
		{"kinesis", true, false, false, syscall.SIGINT}, {"dynamodb", false, true, false, syscall.SIGTERM},
		{"tablestore", false, false, true, syscall.SIGTERM}, {"all", true, true, true, syscall.SIGINT},
	} {
		t.Run(tt.kind, func(t *testing.T) {
			t.Parallel()
			p, url := ready(t, tt.kind, "--addr", "127.0.0.1:0")
			k, d := clients(url)
			if _, err := k.ListStreams(t.Context(), &kinesis.ListStreamsInput{}); (err == nil) != tt.kinesis {
				t.Errorf("Kinesis: %v", err)
			}
			if _, err := d.ListTables(t.Context(), &dynamodb.ListTablesInput{}); (err == nil) != tt.dynamo {
				t.Errorf("DynamoDB: %v", err)
			}
			if _, err := otsClient(url).ListTable(); (err == nil) != tt.tablestore {
				t.Errorf("Tablestore: %v", err)
			}
			admin, err := http.Get(url + "/emulator/calls")
			if err != nil {
				t.Fatal(err)
			}
			calls, _ := io.ReadAll(admin.Body)
			admin.Body.Close()
			if strings.Contains(string(calls), `{"ListTable":1}`) != tt.tablestore {
				t.Errorf("admin call of Tablestore: %s %s", admin.Status, calls)
			}
			p.signal(tt.end)
			p.wantExit(0)
		})
	}
}

func TestEmulatorFaults(t *testing.T) {
	t.Parallel()
	_, url := ready(t, "all", "--addr", "127.0.0.1:0", "--throttle", "1", "--latency", "1ms")
	k, d := clients(url)
	_, err := k.ListStreams(t.Context(), &kinesis.ListStreamsInput{})
	if err == nil || !strings.Contains(err.Error(), "ProvisionedThroughputExceededException") {
		t.Errorf("Kinesis: %v", err)
	}
	_, err = d.ListTables(t.Context(), &dynamodb.ListTablesInput{})
	if err == nil || !strings.Contains(err.Error(), "ProvisionedThroughputExceededException") {
		t.Errorf("DynamoDB: %v", err)
	}
	_, err = otsClient(url).ListTable()
	if err == nil || !strings.Contains(err.Error(), "OTSServerBusy") {
		t.Errorf("Tablestore: %v", err)
	}
}

func TestEmulatorPortInUse(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := start(t, nil, "emulator", "all", "--addr", l.Addr().String())
	p.wantExit(1)
	for _, part := range []string{l.Addr().String() + " is in use", "choose another address"} {
		if !strings.Contains(p.errors.String(), part) {
			t.Errorf("stderr lacks %q: %s", part, p.errors)
		}
	}
}
