package otsclient_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aliyun/aliyun-tablestore-go-sdk/common"
	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"
	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/internal/otsclient"
)

// transport is a function as a network.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answer(status int, body []byte, header ...string) *http.Response {
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body))}
}

func refusal(status int, code, message string) *http.Response {
	body, err := proto.Marshal(protoadapt.MessageV2Of(&otsprotocol.Error{Code: &code, Message: &message}))
	if err != nil {
		panic(err)
	}
	return answer(status, body, "x-ots-requestid", "rid-1")
}

func md5sum(b []byte) string {
	sum := md5.Sum(b)
	return base64.StdEncoding.EncodeToString(sum[:])
}

var keys = &common.DefaultCredentialsProvider{AccessKeyID: "ak", AccessKeySecret: "sk"}

func client(rt http.RoundTripper) *otsclient.Client {
	return otsclient.New(otsclient.Config{Endpoint: "http://emulator", Instance: "inst", Credentials: keys, Transport: rt})
}

func listTables(ctx context.Context, c *otsclient.Client, op otsclient.Op) ([]string, error) {
	op.Name = "ListTable"
	return otsclient.Call(ctx, c, op, func(sdk *tablestore.TableStoreClient) ([]string, error) {
		out, err := sdk.ListTable()
		if err != nil {
			return nil, err
		}
		return out.TableNames, nil
	})
}

func update(ctx context.Context, c *otsclient.Client) error {
	change := new(tablestore.UpdateRowChange)
	change.TableName = "status"
	change.PrimaryKey = new(tablestore.PrimaryKey)
	change.PrimaryKey.AddPrimaryKeyColumn("k", "v")
	change.PutColumn("LeaseCounter", int64(2))
	change.SetCondition(tablestore.RowExistenceExpectation_EXPECT_EXIST)
	_, err := otsclient.Call(ctx, c, otsclient.Op{Name: "UpdateRow", Table: "status"}, func(sdk *tablestore.TableStoreClient) (*tablestore.UpdateRowResponse, error) {
		return sdk.UpdateRow(&tablestore.UpdateRowRequest{UpdateRowChange: change})
	})
	return err
}

func expect(t *testing.T, err, kind error, texts ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("error is %v, want %v", err, kind)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q does not say %q", err, text)
		}
	}
}

func TestAnswerComesBack(t *testing.T) {
	body := []byte("\x0a\x01a\x0a\x01b")
	c := client(transport(func(r *http.Request) (*http.Response, error) {
		if r.Method != "POST" || r.URL.String() != "http://emulator/ListTable" || r.Header.Get("x-ots-instancename") != "inst" || r.Header.Get("x-ots-accesskeyid") != "ak" {
			t.Errorf("request is %s %s with %v", r.Method, r.URL, r.Header)
		}
		return answer(200, body, "x-ots-contentmd5", md5sum(body)), nil
	}))
	var seen []byte
	got, err := listTables(t.Context(), c, otsclient.Op{Body: func(b []byte) ([]byte, error) { seen = slices.Clone(b); return b[:3], nil }})
	if err != nil || !slices.Equal(got, []string{"a"}) {
		t.Errorf("tables are %v, error %v: Body's answer must be what the SDK sees", got, err)
	}
	if !bytes.Equal(seen, body) {
		t.Errorf("Body saw %x, want the whole answer %x", seen, body)
	}
	if got, err = listTables(t.Context(), c, otsclient.Op{}); err != nil || !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("tables are %v, error %v: the Body of one call must not stay for the next", got, err)
	}
}

func TestTrailingSlash(t *testing.T) {
	c := otsclient.New(otsclient.Config{Endpoint: "http://emulator/", Instance: "inst", Credentials: keys, Transport: transport(func(r *http.Request) (*http.Response, error) {
		if r.URL.Path != "/ListTable" {
			t.Errorf("path is %q", r.URL.Path)
		}
		return answer(200, nil), nil
	})})
	if _, err := listTables(t.Context(), c, otsclient.Op{}); err != nil {
		t.Error(err)
	}
}

func TestBadConfig(t *testing.T) {
	never := transport(func(*http.Request) (*http.Response, error) { t.Error("a request was sent"); return nil, io.EOF })
	for name, c := range map[string]struct {
		config otsclient.Config
		kind   error
		text   string
	}{
		"no endpoint":        {otsclient.Config{Instance: "i", Credentials: keys}, core.ErrInvalid, "endpoint"},
		"no scheme":          {otsclient.Config{Endpoint: "i.cn-hangzhou.ots.aliyuncs.com", Instance: "i", Credentials: keys}, core.ErrInvalid, "https://"},
		"path":               {otsclient.Config{Endpoint: "http://h/x", Instance: "i", Credentials: keys}, core.ErrInvalid, "http://h/x"},
		"not a URL":          {otsclient.Config{Endpoint: "http://%zz", Instance: "i", Credentials: keys}, core.ErrInvalid, "%zz"},
		"no instance":        {otsclient.Config{Endpoint: "http://h", Credentials: keys}, core.ErrInvalid, "instance"},
		"line in instance":   {otsclient.Config{Endpoint: "http://h", Instance: "a\nb", Credentials: keys}, core.ErrInvalid, `a\nb`},
		"empty credentials":  {otsclient.Config{Endpoint: "http://h", Instance: "i", Credentials: &common.DefaultCredentialsProvider{}}, core.ErrDenied, "TABLESTORE_ACCESS_KEY_ID"},
		"panicking provider": {otsclient.Config{Endpoint: "http://h", Instance: "i", Credentials: (*common.DefaultCredentialsProvider)(nil)}, core.ErrDenied, "provider failed"},
	} {
		t.Run(name, func(t *testing.T) {
			c.config.Transport = never
			_, err := listTables(t.Context(), otsclient.New(c.config), otsclient.Op{Attempts: 3})
			expect(t, err, c.kind, c.text)
		})
	}
}

func TestCredentialsFromEnvironment(t *testing.T) {
	t.Setenv("TABLESTORE_ACCESS_KEY_ID", "id-1")
	t.Setenv("TABLESTORE_ACCESS_KEY_SECRET", "secret")
	t.Setenv("TABLESTORE_SESSION_TOKEN", "token-1")
	var ids, tokens []string
	c := otsclient.New(otsclient.Config{Endpoint: "http://h", Instance: "i", Transport: transport(func(r *http.Request) (*http.Response, error) {
		ids, tokens = append(ids, r.Header.Get("x-ots-accesskeyid")), append(tokens, r.Header.Get("x-ots-ststoken"))
		return answer(200, nil), nil
	})})
	for _, id := range []string{"id-1", "id-2"} {
		t.Setenv("TABLESTORE_ACCESS_KEY_ID", id)
		if _, err := listTables(t.Context(), c, otsclient.Op{}); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(ids, []string{"id-1", "id-2"}) || !slices.Equal(tokens, []string{"token-1", "token-1"}) {
		t.Errorf("ids %v tokens %v: each request asks for its credentials", ids, tokens)
	}
}

func TestCancelEndsTheCallAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := transport(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		c := client(hang)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(200*time.Millisecond, cancel)
		start := time.Now()
		_, err := listTables(ctx, c, otsclient.Op{Attempts: 5})
		expect(t, err, context.Canceled)
		if d := time.Since(start); d != 200*time.Millisecond {
			t.Errorf("it took %v, want 200ms", d)
		}

		start = time.Now()
		_, err = listTables(t.Context(), c, otsclient.Op{Timeout: 3 * time.Second})
		expect(t, err, core.ErrUnavailable, "no answer within 3s")
		if d := time.Since(start); d != 3*time.Second {
			t.Errorf("it took %v, want 3s", d)
		}

		ctx, cancel = context.WithCancel(t.Context())
		cancel()
		_, err = listTables(ctx, client(transport(func(*http.Request) (*http.Response, error) {
			t.Error("sent after its context ended")
			return nil, io.EOF
		})), otsclient.Op{})
		expect(t, err, context.Canceled)
	})
}

// A body that stops in the middle hangs in the SDK's reading, which must end with the context too.
func TestCancelEndsTheReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		server := make(chan error, 1)
		go func() {
			defer far.Close()
			if _, err := far.Read(make([]byte, 4096)); err != nil {
				server <- err
				return
			}
			_, err := io.WriteString(far, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf of it")
			_, _ = io.Copy(io.Discard, far)
			server <- err
		}()
		tr := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return near, nil }}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := listTables(ctx, client(tr), otsclient.Op{})
		expect(t, err, context.DeadlineExceeded)
		tr.CloseIdleConnections()
		if err := <-server; err != nil {
			t.Error(err)
		}
	})
}

func TestWritesAreSentOnce(t *testing.T) {
	for name, f := range map[string]func() (*http.Response, error){
		"connection reset": func() (*http.Response, error) { return nil, errors.New("read: connection reset by peer") },
		"EOF":              func() (*http.Response, error) { return nil, io.EOF },
		"refused":          func() (*http.Response, error) { return nil, errors.New("dial tcp: connection refused") },
		"busy":             func() (*http.Response, error) { return refusal(503, "OTSServerBusy", "busy"), nil },
		"row conflict":     func() (*http.Response, error) { return refusal(409, "OTSRowOperationConflict", "conflict"), nil },
		"internal":         func() (*http.Response, error) { return refusal(500, "OTSInternalServerError", "oops"), nil },
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			err := update(t.Context(), client(transport(func(*http.Request) (*http.Response, error) { n++; return f() })))
			if n != 1 || err == nil {
				t.Errorf("sent %d times, error %v; want once and an error", n, err)
			}
		})
	}
}

func TestReadsAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		c := client(transport(func(*http.Request) (*http.Response, error) {
			switch n++; n {
			case 1:
				return refusal(503, "OTSServerBusy", "busy"), nil
			case 2:
				return nil, io.EOF
			}
			return answer(200, nil), nil
		}))
		if _, err := listTables(t.Context(), c, otsclient.Op{Attempts: 3}); err != nil || n != 3 {
			t.Errorf("error %v after %d attempts, want none after 3", err, n)
		}
		n = 0
		_, err := listTables(t.Context(), c, otsclient.Op{Attempts: 2})
		expect(t, err, core.ErrUnavailable)
		if n != 2 {
			t.Errorf("%d attempts, want 2", n)
		}
		n = 0
		denied := client(transport(func(*http.Request) (*http.Response, error) {
			n++
			return refusal(403, "OTSNoPermissionAccess", "no"), nil
		}))
		_, err = listTables(t.Context(), denied, otsclient.Op{Attempts: 5})
		expect(t, err, core.ErrDenied)
		if n != 1 {
			t.Errorf("%d attempts of a denied call, want 1", n)
		}
		// The pause between attempts ends with the context.
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		start := time.Now()
		n = 0
		if _, err = listTables(ctx, c, otsclient.Op{Attempts: 9}); err == nil || time.Since(start) != time.Millisecond {
			t.Errorf("error %v after %v, want one after 1ms", err, time.Since(start))
		}
	})
}

// One client serves many calls at once, and each ends with its own context only.
func TestCallsDoNotShareContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var under atomic.Int32
		c := client(transport(func(r *http.Request) (*http.Response, error) {
			under.Add(1)
			select {
			case <-r.Context().Done():
				return nil, r.Context().Err()
			case <-time.After(time.Second):
				return answer(200, nil), nil
			}
		}))
		var wg sync.WaitGroup
		var ended, answered atomic.Int32
		for i := range 20 {
			wg.Go(func() {
				ctx := t.Context()
				if i%2 == 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, 500*time.Millisecond)
					defer cancel()
				}
				if _, err := listTables(ctx, c, otsclient.Op{}); err == nil {
					answered.Add(1)
				} else if errors.Is(err, context.DeadlineExceeded) {
					ended.Add(1)
				}
			})
		}
		wg.Wait()
		if answered.Load() != 10 || ended.Load() != 10 || under.Load() != 20 {
			t.Errorf("%d of %d calls answered, %d ended", answered.Load(), under.Load(), ended.Load())
		}
	})
}
