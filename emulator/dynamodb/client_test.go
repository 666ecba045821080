package dynamodb_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	ddb "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/shardwarden/shardwarden/emulator/dynamodb"
)

// pipe is a listener without a network, so that a synctest bubble can hold
// both ends.
type pipe struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipe() *pipe { return &pipe{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipe) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipe) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipe) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func (p *pipe) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	mine, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return mine, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// start serves an emulator and answers it with a real client, retries off.
func start(t testing.TB, c dynamodb.Config) (*dynamodb.Server, *ddb.Client) {
	t.Helper()
	s := dynamodb.New(c)
	p := newPipe()
	srv := &http.Server{Handler: s}
	served := make(chan error)
	go func() { served <- srv.Serve(p) }()
	tr := &http.Transport{DialContext: p.dial, MaxIdleConnsPerHost: 64}
	t.Cleanup(func() {
		s.Close()
		srv.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("the server ended with %v", err)
		}
		tr.CloseIdleConnections()
	})
	return s, ddb.New(ddb.Options{
		Region:       "us-east-1",
		BaseEndpoint: aws.String("http://emulator"),
		Credentials:  credentials.NewStaticCredentialsProvider("AKIDTEST", "secret", ""),
		Retryer:      aws.NopRetryer{},
		HTTPClient:   &http.Client{Transport: tr},
	})
}

type attrs = map[string]types.AttributeValue

func S(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
func N(n any) types.AttributeValue    { return &types.AttributeValueMemberN{Value: fmt.Sprint(n)} }
func M(m attrs) types.AttributeValue  { return &types.AttributeValueMemberM{Value: m} }

func key(k string) attrs { return attrs{"leaseKey": S(k)} }

const ownerIndex = "LeaseOwnerToLeaseKeyIndex"

func attrS(n string) types.AttributeDefinition {
	return types.AttributeDefinition{AttributeName: new(n), AttributeType: types.ScalarAttributeTypeS}
}

func ownerKeys() []types.KeySchemaElement {
	return []types.KeySchemaElement{
		{AttributeName: new("leaseOwner"), KeyType: types.KeyTypeHash},
		{AttributeName: new("leaseKey"), KeyType: types.KeyTypeRange},
	}
}

// makeTable makes a lease table, with the KCL's index or without.
func makeTable(t testing.TB, c *ddb.Client, name string, withIndex bool) {
	t.Helper()
	in := &ddb.CreateTableInput{
		TableName: &name, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{attrS("leaseKey")},
		KeySchema:            []types.KeySchemaElement{{AttributeName: new("leaseKey"), KeyType: types.KeyTypeHash}},
	}
	if withIndex {
		in.AttributeDefinitions = append(in.AttributeDefinitions, attrS("leaseOwner"))
		in.GlobalSecondaryIndexes = []types.GlobalSecondaryIndex{{
			IndexName: new(ownerIndex), KeySchema: ownerKeys(),
			Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
		}}
	}
	if _, err := c.CreateTable(t.Context(), in); err != nil {
		t.Fatalf("CreateTable %s: %v", name, err)
	}
}

func put(t testing.TB, c *ddb.Client, table string, it attrs) {
	t.Helper()
	if _, err := c.PutItem(t.Context(), &ddb.PutItemInput{TableName: &table, Item: it}); err != nil {
		t.Fatalf("PutItem: %v", err)
	}
}

func get(t testing.TB, c *ddb.Client, table, k string) attrs {
	t.Helper()
	o, err := c.GetItem(t.Context(), &ddb.GetItemInput{TableName: &table, Key: key(k), ConsistentRead: new(true)})
	if err != nil {
		t.Fatalf("GetItem %s: %v", k, err)
	}
	return o.Item
}

// num is a number attribute's text, "" if it is not there.
func num(it attrs, a string) string {
	if v, ok := it[a].(*types.AttributeValueMemberN); ok {
		return v.Value
	}
	return ""
}

func str(it attrs, a string) string {
	if v, ok := it[a].(*types.AttributeValueMemberS); ok {
		return v.Value
	}
	return ""
}

// code is the service's name for an error, "" for none.
func code(err error) string {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[smithy.APIError](err); ok {
		return e.ErrorCode()
	}
	return "not an API error: " + err.Error()
}

func wantCode(t testing.TB, what string, err error, want string) {
	t.Helper()
	if got := code(err); got != want {
		t.Errorf("%s: got error %q (%v), want %q", what, got, err, want)
	}
}
