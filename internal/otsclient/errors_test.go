package otsclient_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/internal/otsclient"
)

// The rows are those of docs/reference/tablestore.md 1.8.
func TestKinds(t *testing.T) {
	for _, c := range []struct {
		code    string
		status  int
		message string
		want    error
	}{
		{"OTSConditionCheckFail", 403, "", core.ErrConflict},
		{"OTSTrimmedDataAccess", 404, "", core.ErrTrimmed},
		{"OTSRowOperationConflict", 409, "", core.ErrUnavailable},
		{"OTSNotEnoughCapacityUnit", 403, "", core.ErrThrottled},
		{"OTSCapacityUnitExhausted", 403, "", core.ErrThrottled},
		{"OTSFlowControl", 429, "", core.ErrThrottled},
		{"OTSServerBusy", 503, "", core.ErrThrottled},
		{"OTSStorageServerBusy", 503, "", core.ErrThrottled},
		{"OTSPartitionUnavailable", 503, "", core.ErrUnavailable},
		{"OTSTableNotReady", 404, "", core.ErrUnavailable},
		{"OTSTimeout", 503, "", core.ErrUnavailable},
		{"OTSServerUnavailable", 503, "", core.ErrUnavailable},
		{"OTSInternalServerError", 500, "", core.ErrUnavailable},
		{"OTSQuotaExhausted", 403, "Too frequent table operations.", core.ErrThrottled},
		{"OTSQuotaExhausted", 403, "Number of tables exceeded the quota.", core.ErrDenied},
		{"OTSObjectNotExist", 404, "Requested table does not exist.", core.ErrNotFound},
		{"OTSObjectAlreadyExist", 409, "", core.ErrExists},
		{"OTSParameterInvalid", 400, "", core.ErrInvalid},
		{"OTSInvalidPK", 400, "", core.ErrInvalid},
		{"OTSAuthFailed", 403, "", core.ErrDenied},
		{"OTSNoPermissionAccess", 403, "", core.ErrDenied},
		{"OTSRequestBodyTooLarge", 413, "", core.ErrInvalid},
		{"OTSMethodNotAllowed", 405, "", core.ErrInvalid},
		{"OTSRequestTimeout", 408, "", core.ErrUnavailable},
		{"OTSOutOfRowSizeLimit", 400, "", core.ErrInvalid},
		{"OTSOutOfColumnCountLimit", 400, "", core.ErrInvalid},
		// Codes that no catalogue has go by the status.
		{"OTSNew", 400, "", core.ErrInvalid},
		{"OTSNew", 401, "", core.ErrDenied},
		{"OTSNew", 403, "", core.ErrDenied},
		{"OTSNew", 404, "", core.ErrNotFound},
		{"OTSNew", 408, "", core.ErrUnavailable},
		{"OTSNew", 429, "", core.ErrThrottled},
		{"OTSNew", 500, "", core.ErrUnavailable},
		{"OTSNew", 502, "", core.ErrUnavailable},
	} {
		if got := otsclient.Kind(c.code, c.message, c.status); !errors.Is(got, c.want) {
			t.Errorf("%s with HTTP %d is %v, want %v", c.code, c.status, got, c.want)
		}
		c2 := client(transport(func(*http.Request) (*http.Response, error) { return refusal(c.status, c.code, c.message), nil }))
		err := update(t.Context(), c2)
		expect(t, err, c.want, "UpdateRow", "table status", "instance inst", c.code, "rid-1")
		if otsclient.Code(err) != c.code {
			t.Errorf("code of %v is %q, want %q", err, otsclient.Code(err), c.code)
		}
	}
}

func TestWhatAnswersCanBe(t *testing.T) {
	good := []byte("\x0a\x01a")
	for name, c := range map[string]struct {
		answer func() (*http.Response, error)
		kind   error
		text   string
	}{
		"damaged": {func() (*http.Response, error) {
			return answer(200, good, "x-ots-contentmd5", md5sum([]byte("other"))), nil
		}, core.ErrUnavailable, "MD5"},
		"no protobuf":        {func() (*http.Response, error) { return answer(200, []byte("\xff\xff")), nil }, core.ErrUnavailable, "decode"},
		"an HTML error page": {func() (*http.Response, error) { return answer(502, []byte("<html>bad gateway")), nil }, core.ErrUnavailable, "bad gateway"},
		"a proxy's 403":      {func() (*http.Response, error) { return answer(403, []byte("<html>no")), nil }, core.ErrDenied, "ots:ListTable"},
		"redirect":           {func() (*http.Response, error) { return answer(307, nil, "Location", "http://other/"), nil }, core.ErrUnavailable, "http://other/"},
		"cut off": {func() (*http.Response, error) {
			r := answer(200, nil)
			r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(good), fails{io.ErrUnexpectedEOF}))
			return r, nil
		}, core.ErrUnavailable, "unexpected EOF"},
		"no such host":     {func() (*http.Response, error) { return nil, &net.DNSError{Name: "nowhere", IsNotFound: true} }, core.ErrUnavailable, "no such host nowhere"},
		"connection reset": {func() (*http.Response, error) { return nil, errors.New("connection reset by peer") }, core.ErrUnavailable, "reset"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := listTables(t.Context(), client(transport(func(*http.Request) (*http.Response, error) { return c.answer() })), otsclient.Op{})
			expect(t, err, c.kind, c.text)
		})
	}
}

type fails struct{ err error }

func (f fails) Read([]byte) (int, error) { return 0, f.err }

// The SDK dies on an answer that lacks what it takes for granted, and on values of types it does not know.
func TestPanicsAreErrors(t *testing.T) {
	err := update(t.Context(), client(transport(func(*http.Request) (*http.Response, error) { return answer(200, nil), nil })))
	expect(t, err, core.ErrUnavailable, "cannot read it") // the write may stand

	c := client(transport(func(*http.Request) (*http.Response, error) { t.Error("sent"); return nil, io.EOF }))
	_, err = otsclient.Call(t.Context(), c, otsclient.Op{Name: "UpdateRow"}, func(sdk *tablestore.TableStoreClient) (any, error) {
		change := new(tablestore.UpdateRowChange)
		change.PrimaryKey = new(tablestore.PrimaryKey)
		change.PutColumn("LeaseCounter", 7) // an int, not an int64
		change.SetCondition(tablestore.RowExistenceExpectation_EXPECT_EXIST)
		return sdk.UpdateRow(&tablestore.UpdateRowRequest{UpdateRowChange: change})
	})
	expect(t, err, core.ErrInvalid)
}

func TestAnswerStandsThoughTheCallerHasLeft(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	err := update(ctx, client(transport(func(*http.Request) (*http.Response, error) {
		cancel()
		return refusal(403, "OTSConditionCheckFail", "Condition check failed."), nil
	})))
	expect(t, err, core.ErrConflict)
}
