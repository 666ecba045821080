package tablestore_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha1"
	"encoding/base64"
	"encoding/hex"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aliyun/aliyun-tablestore-go-sdk/common"
	ots "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"
	pb "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"

	"github.com/shardwarden/shardwarden/emulator/tablestore"
	"github.com/shardwarden/shardwarden/internal/plainbuffer"
)

// hmacSHA1 is written again here: the emulator must not be checked with its own code.
func hmacSHA1(key, text string) string {
	m := hmac.New(sha1.New, []byte(key))
	m.Write([]byte(text))
	return base64.StdEncoding.EncodeToString(m.Sum(nil))
}

func signedLines(h map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(h)) {
		b.WriteString(name + ":" + h[name] + "\n")
	}
	return b.String()
}

// raw sends a signed request and gives the answer and its body. set changes the headers before they are signed.
func (c *client) raw(path string, body []byte, set func(map[string]string)) (*http.Response, []byte) {
	c.t.Helper()
	sum := md5.Sum(body)
	h := map[string]string{
		"x-ots-date": time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), "x-ots-apiversion": "2015-12-31", "x-ots-accesskeyid": "x",
		"x-ots-contentmd5": base64.StdEncoding.EncodeToString(sum[:]), "x-ots-instancename": inst, "x-ots-trace-threshold": "500",
	}
	if set != nil {
		set(h)
	}
	h["x-ots-signature"] = hmacSHA1("x", path+"\nPOST\n\n"+signedLines(h))
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, "http://emulator"+path, bytes.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	for name, v := range h {
		req.Header[name] = []string{v} // lower case on the wire, as from Java
	}
	return c.do(req)
}

func (c *client) do(req *http.Request) (*http.Response, []byte) {
	c.t.Helper()
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp, out
}

// rawError gives code and message of a refused request.
func rawError(t *testing.T, body []byte) string {
	t.Helper()
	var e pb.Error
	if err := proto.Unmarshal(body, protoadapt.MessageV2Of(&e)); err != nil {
		t.Fatalf("not an error of the service: %x: %v", body, err)
	}
	return e.GetCode() + " " + e.GetMessage()
}

func wire(t *testing.T, m protoadapt.MessageV1) []byte {
	t.Helper()
	b, err := proto.Marshal(protoadapt.MessageV2Of(m))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// What a Java client checks of each answer: names in lower case, the MD5, and the signature.
func TestAnswersAreSigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := start(t, tablestore.Config{})
		for path, status := range map[string]int{"/ListTable": 200, "/DescribeTable": 404} {
			var in []byte
			if path == "/DescribeTable" {
				in = wire(t, &pb.DescribeTableRequest{TableName: new("none")})
			}
			resp, body := c.raw(path, in, nil)
			if resp.StatusCode != status {
				t.Errorf("%s: %s", path, resp.Status)
			}
			h := map[string]string{}
			for name, v := range resp.Header {
				if name = strings.ToLower(name); strings.HasPrefix(name, "x-ots-") {
					h[name] = v[0]
				}
			}
			sum := md5.Sum(body)
			if h["x-ots-contentmd5"] != base64.StdEncoding.EncodeToString(sum[:]) || h["x-ots-requestid"] == "" || len(h) != 4 {
				t.Errorf("%s: headers %v", path, h)
			}
			if got, want := resp.Header.Get("Authorization"), "OTS x:"+hmacSHA1("x", signedLines(h)+path); got != want {
				t.Errorf("%s: Authorization %q, want %q", path, got, want)
			}
		}
	})
}

func TestRefusedRequests(t *testing.T) {
	create := func(t *testing.T) []byte {
		return wire(t, &pb.CreateTableRequest{
			TableMeta:          &pb.TableMeta{TableName: new(tab), PrimaryKey: []*pb.PrimaryKeySchema{{Name: new("id"), Type: pb.PrimaryKeyType_STRING.Enum()}}},
			ReservedThroughput: &pb.ReservedThroughput{CapacityUnit: &pb.CapacityUnit{}},
		})
	}
	key := plainbuffer.Encode(plainbuffer.Row{PrimaryKey: []plainbuffer.Cell{plainbuffer.Key("id", plainbuffer.StringValue("a"))}})
	deleted := plainbuffer.Encode(plainbuffer.Row{PrimaryKey: []plainbuffer.Cell{plainbuffer.Key("id", plainbuffer.StringValue("a"))}, Deleted: true})
	damaged := bytes.Clone(key)
	damaged[len(damaged)-1] ^= 1
	ignored := &pb.Condition{RowExistence: pb.RowExistenceExpectation_IGNORE.Enum()}
	for _, tt := range []struct {
		name, path string
		body       func(*testing.T) []byte
		set        func(map[string]string)
		status     int
		want       string
	}{
		{name: "unknown operation", path: "/SQLQuery", status: 400, want: "OTSParameterInvalid Unsupported operation: 'SQLQuery'."},
		{name: "other case", path: "/listtable", status: 400, want: "OTSParameterInvalid Unsupported operation"},
		{name: "slash before it", path: "//ListTable", status: 400, want: "OTSParameterInvalid Unsupported operation"},
		{name: "not a message", path: "/DescribeTable", body: func(*testing.T) []byte { return []byte{0xff} }, status: 400, want: "OTSParameterInvalid Failed to parse"},
		{name: "required field missing", path: "/DescribeTable", status: 400, want: "OTSParameterInvalid Failed to parse"},
		{name: "unknown field", path: "/ListTable", body: func(*testing.T) []byte {
			return protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 1)
		},
			status: 400, want: "OTSParameterInvalid The emulator does not know field 99 of ListTableRequest"},
		{name: "unknown field within", path: "/CreateTable", body: func(t *testing.T) []byte {
			meta := protowire.AppendVarint(protowire.AppendTag(nil, 98, protowire.VarintType), 1)
			return append(create(t), protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), meta)...)
		}, status: 400, want: "OTSParameterInvalid The emulator does not know field 98 of TableMeta"},
		{name: "compressed", path: "/ListTable", set: func(h map[string]string) { h["x-ots-request-compress-type"] = "deflate" }, status: 400, want: "OTSParameterInvalid The emulator does not support compressed"},
		{name: "other version", path: "/ListTable", set: func(h map[string]string) { h["x-ots-apiversion"] = "2014-08-08" }, status: 400, want: "OTSParameterInvalid Invalid API version"},
		{name: "old date", path: "/ListTable", set: func(h map[string]string) { h["x-ots-date"] = "1999-12-31T23:00:00.000Z" }, status: 403, want: "OTSAuthFailed Mismatch between system time"},
		{name: "damaged row", path: "/GetRow", body: func(t *testing.T) []byte {
			return wire(t, &pb.GetRowRequest{TableName: new(tab), PrimaryKey: damaged, MaxVersions: new(int32(1))})
		}, status: 400, want: "OTSParameterInvalid Invalid PlainBuffer"},
		{name: "neither versions nor times", path: "/GetRow", body: func(t *testing.T) []byte {
			return wire(t, &pb.GetRowRequest{TableName: new(tab), PrimaryKey: key})
		}, status: 400, want: "OTSParameterInvalid No version condition"},
		{name: "put with a delete marker", path: "/PutRow", body: func(t *testing.T) []byte {
			return wire(t, &pb.PutRowRequest{TableName: new(tab), Row: deleted, Condition: ignored})
		}, status: 400, want: "OTSParameterInvalid The row of a PUT"},
		{name: "delete without a delete marker", path: "/DeleteRow", body: func(t *testing.T) []byte {
			return wire(t, &pb.DeleteRowRequest{TableName: new(tab), PrimaryKey: key, Condition: ignored})
		}, status: 400, want: "OTSParameterInvalid The row of a DELETE"},
		{name: "transaction", path: "/PutRow", body: func(t *testing.T) []byte {
			return wire(t, &pb.PutRowRequest{TableName: new(tab), Row: key, Condition: ignored, TransactionId: new("t")})
		}, status: 400, want: "OTSParameterInvalid The emulator does not support local transactions"},
		{name: "partitions of a new table", path: "/CreateTable", body: func(t *testing.T) []byte {
			part := wire(t, &pb.PartitionRange{Begin: []byte("a"), End: []byte("b")})
			return append(create(t), protowire.AppendBytes(protowire.AppendTag(nil, 4, protowire.BytesType), part)...)
		}, status: 400, want: "OTSParameterInvalid The emulator does not support partitions"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, c := start(t, tablestore.Config{})
			c.makeTable(tab, stringKey, 0)
			var body []byte
			if tt.body != nil {
				body = tt.body(t)
			}
			resp, out := c.raw(tt.path, body, tt.set)
			if got := rawError(t, out); resp.StatusCode != tt.status || !strings.HasPrefix(got, tt.want) {
				t.Errorf("%s %q, want %d %q", resp.Status, got, tt.status, tt.want)
			}
		})
	}
}

func TestOnlyPost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := start(t, tablestore.Config{})
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://emulator/ListTable", nil)
		resp, out := c.do(req)
		if got := rawError(t, out); resp.StatusCode != 405 || !strings.HasPrefix(got, "OTSMethodNotAllowed") {
			t.Errorf("%s %q", resp.Status, got)
		}
	})
}

func TestBodyTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := start(t, tablestore.Config{})
		resp, out := c.raw("/PutRow", make([]byte, 17<<20), nil)
		if got := rawError(t, out); resp.StatusCode != 413 || !strings.HasPrefix(got, "OTSRequestBodyTooLarge") {
			t.Errorf("%s %q", resp.Status, got)
		}
		time.Sleep(time.Second) // net/http waits before it closes such a connection
	})
}

// The conditions of leases, byte by byte as the vendor's Java client sends them.
func TestGoldenConditionAndRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := start(t, tablestore.Config{})
		k := []keySpec{{"k", ots.PrimaryKeyType_STRING, false}}
		c.makeTable(tab, k, 0)
		unhex := func(s string) []byte {
			b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		row := unhex("75000000 01 03 04 01000000 6b 05 06000000 03 01000000 76 0a 34 02 03 04 0c000000 4c65617365436f756e746572 05 09000000 00 0200000000000000 0a 61 09 aa")
		condition := unhex("0800 1223 0801 121f 0801 120c 4c65617365436f756e746572 1a09 000100000000000000 2001 2801")
		body := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), tab)
		body = protowire.AppendBytes(protowire.AppendTag(body, 2, protowire.BytesType), row)
		body = protowire.AppendBytes(protowire.AppendTag(body, 3, protowire.BytesType), condition)
		v := new(ots.PrimaryKey)
		v.AddPrimaryKeyColumn("k", "v")
		resp, out := c.raw("/UpdateRow", body, nil)
		if got := rawError(t, out); resp.StatusCode != 403 || got != "OTSConditionCheckFail Condition check failed." {
			t.Errorf("no row: %s %q", resp.Status, got)
		}
		c.mustPut(tab, v, cols{"LeaseCounter": int64(1)})
		if resp, out = c.raw("/UpdateRow", body, nil); resp.StatusCode != 200 {
			t.Errorf("counter is 1: %s %q", resp.Status, out)
		}
		if got := c.get(tab, v)["LeaseCounter"]; got != int64(2) {
			t.Errorf("counter is %v, want 2", got)
		}
		resp, _ = c.raw("/UpdateRow", body, nil)
		if resp.StatusCode != 403 {
			t.Errorf("counter is 2: %s", resp.Status)
		}
	})
}

func TestCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := start(t, tablestore.Config{Credentials: map[string]string{"id": "secret"}, Instances: []string{inst}})
		try := func(instance, id, secret string) error {
			_, err := connect(t, c.transport, instance, id, secret).ListTable()
			return err
		}
		wantCode(t, "right", try(inst, "id", "secret"), "")
		wantCode(t, "wrong secret", try(inst, "id", "Secret"), "OTSAuthFailed")
		wantCode(t, "unknown id", try(inst, "x", "x"), "OTSAuthFailed")
		wantCode(t, "unknown instance", try("other", "id", "secret"), "OTSAuthFailed")
	})
	synctest.Test(t, func(t *testing.T) {
		_, c := start(t, tablestore.Config{})
		try := func(id, secret string) error {
			_, err := connect(t, c.transport, inst, id, secret).ListTable()
			return err
		}
		wantCode(t, "secret is the id", try("me", "me"), "")
		if err := try("me", "other"); code(err) != "OTSAuthFailed" || !strings.Contains(err.Error(), "its secret is the AccessKeyID itself") {
			t.Errorf("the hint is missing: %v", err)
		}
	})
}

// fixed provides the same credentials always.
type fixed struct{ common.Credentials }

func (f fixed) GetCredentials() common.Credentials { return f.Credentials }

func TestSignatureV4(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := start(t, tablestore.Config{Credentials: map[string]string{"id": "secret"}})
		try := func(secret string) error {
			v4 := common.CreateByCredentials(&common.DefaultCredentials{AccessKeyID: "id", AccessKeySecret: secret, SecurityToken: "sts"}, "cn-hangzhou")
			config := ots.NewDefaultTableStoreConfig()
			config.RetryTimes, config.Transport = 0, c.transport
			_, err := ots.NewClientWithCredentialsProvider("http://emulator", inst, fixed{v4}, config).ListTable()
			return err
		}
		wantCode(t, "right", try("secret"), "")
		wantCode(t, "wrong", try("other"), "OTSAuthFailed")
	})
}
