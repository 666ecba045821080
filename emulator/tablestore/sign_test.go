package tablestore

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"testing"
	"time"
)

// goldenHeaders are those of a request of the Go SDK, with its odd fraction of a second.
func goldenHeaders() map[string]string {
	return map[string]string{
		headerKeyID: "ak", headerVersion: "2015-12-31", headerMD5: "yLFeGnWRrRXWNgAc1U8CZQ==",
		headerDate: "2026-11-30T11:34:58.113011Z", headerInstance: "inst",
	}
}

// The golden values are those that the vendor's Go and Java SDKs make (docs/reference, 2.2 to 2.4).
func TestGoldenSignatures(t *testing.T) {
	check := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s is %s, want %s", what, got, want)
		}
	}
	body, err := hex.DecodeString("0a0174")
	if err != nil {
		t.Fatal(err)
	}
	check("MD5 of a body", bodyMD5(body), "yLFeGnWRrRXWNgAc1U8CZQ==")
	check("MD5 of no body", bodyMD5(nil), "1B2M2Y8AsgTpgAmY7PhCfg==")

	h := goldenHeaders()
	check("v2", base64MAC(sha1.New, "sk", requestText("ListStream", h)), "LU4KpJd4rTEVtaNgH+oJhWGt8nU=")

	key := keyV4("sk", "20261130", "cn-hangzhou")
	check("key of v4", key, "YzWCUZ3nqFiYZyHfDah8IpLDgdw0/U9I7MRfCI0roLI=")
	h[headerSignDate], h[headerSignRegion] = "20261130", "cn-hangzhou"
	check("v4", base64MAC(sha256.New, key, requestText("ListStream", h)+"ots"), "xbzkfV+e+uBaIwzf5Qg82hcFANLYjl+HWNj2FYXqPPA=")

	check("answer", responseSignature("PutRow", "sk", map[string]string{
		headerMD5: "1B2M2Y8AsgTpgAmY7PhCfg==", headerType: "protocol buffer", headerDate: "2026-11-30T11:38:22.000Z", headerRequestID: "00000-rid",
	}), "Ww/y+SzxmNbk33KMlVdR/5RyibU=")
}

func TestAuthenticate(t *testing.T) {
	now := time.Date(2026, 11, 30, 11, 35, 0, 0, time.UTC)
	body := []byte{0x0a, 1, 't'}
	for _, tt := range []struct {
		name string
		set  func(map[string]string)
		now  time.Time
		body []byte
		want string // part of the error
	}{
		{name: "signed"},
		{name: "wrong secret or header", set: func(h map[string]string) { h[headerInstance] = "other" }, want: "Signature mismatch."},
		{name: "unknown header is signed too", set: func(h map[string]string) { h["x-ots-trace-threshold"] = "500" }, want: "Signature mismatch."},
		{name: "not signed", set: func(h map[string]string) { delete(h, headerSign) }, want: "Missing header: 'x-ots-signature'"},
		{name: "no instance", set: func(h map[string]string) { delete(h, headerInstance) }, want: "Missing header: 'x-ots-instancename'"},
		{name: "unknown id", set: func(h map[string]string) { h[headerKeyID] = "b" }, want: "The AccessKeyID does not exist."},
		{name: "15 minutes late", now: now.Add(15*time.Minute - 2*time.Second)},
		{name: "later", now: now.Add(15*time.Minute + time.Second), want: "Mismatch between system time and x-ots-date: 2026-11-30T11:34:58.113011Z."},
		{name: "earlier", now: now.Add(-16 * time.Minute), want: "Mismatch between system time"},
		{name: "other body", body: []byte{1}, want: "Mismatch between MD5 value"},
		{name: "v4 without region", set: func(h map[string]string) { h[headerSignV4] = "x"; h[headerSignDate] = "20261130" }, want: "Missing header: 'x-ots-signregion'"},
		{name: "v4 mismatch", set: func(h map[string]string) {
			h[headerSignV4], h[headerSignDate], h[headerSignRegion] = "x", "20261130", "cn-hangzhou"
		}, want: "Signature mismatch."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := New(Config{Credentials: map[string]string{"ak": "sk"}})
			h := goldenHeaders()
			h[headerSign] = "LU4KpJd4rTEVtaNgH+oJhWGt8nU="
			if tt.set != nil {
				tt.set(h)
			}
			if tt.now.IsZero() {
				tt.now = now
			}
			if tt.body == nil {
				tt.body = body
			}
			key, err := s.authenticate("ListStream", h, tt.body, tt.now)
			wantError(t, err, tt.want)
			if err == nil && key != "sk" {
				t.Errorf("key is %q", key)
			}
		})
	}
}

func TestDates(t *testing.T) {
	now := time.Date(2026, 11, 30, 11, 38, 22, 0, time.UTC)
	for date, want := range map[string]string{
		"2026-11-30T11:38:22.246Z": "", "2026-11-30T11:38:22Z": "", "2026-11-30T11:38:22.1": "",
		"Mon, 30 Nov 2026 11:38:22 GMT": "Invalid date format", "2026-11-30": "Invalid date format",
	} {
		wantError(t, checkDate(date, now), want)
	}
}

// Old Java SDKs look for these names in just this case, so they must not be made canonical.
func TestAnswerHeaders(t *testing.T) {
	h := http.Header{}
	sign(h, "PutRow", "ak", "sk", "rid", []byte("body"), time.Date(2026, 11, 30, 11, 38, 22, 123456000, time.UTC))
	want := map[string]string{
		"x-ots-contentmd5": bodyMD5([]byte("body")), "x-ots-contenttype": "protocol buffer", "x-ots-requestid": "rid",
		"x-ots-date": "2026-11-30T11:38:22.123456Z",
	}
	for name, v := range want {
		if got := h[name]; len(got) != 1 || got[0] != v {
			t.Errorf("%s is %q, want %q", name, got, v)
		}
	}
	if got, want := h.Get("Authorization"), "OTS ak:"+responseSignature("PutRow", "sk", want); got != want {
		t.Errorf("Authorization is %q, want %q", got, want)
	}
}
