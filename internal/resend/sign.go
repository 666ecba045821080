package resend

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// signature makes the signatures of a template: version 4, as the signer of the SDK makes them, with everything prepared that is the same in
// all of them. https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
type signature struct {
	service, region string
	headers         []signedHeader // by name
	key             atomic.Pointer[signingKey]
}

// signedHeader is a header that is signed; one without a value is new in each request.
type signedHeader struct{ name, value string }

// The headers that are new in each request and signed.
const (
	contentLength = "content-length"
	contentType   = "content-type"
	amzDate       = "x-amz-date"
	securityToken = "x-amz-security-token"
)

// unsigned are headers that the SDK's signer leaves out, since proxies change them.
var unsigned = []string{"authorization", "user-agent", "x-amzn-trace-id", "expect", "transfer-encoding"}

// newSignature returns nil for a template with anything that the canonical form would change: the SDK's signer knows how.
func newSignature(t *template) *signature {
	if p := t.url.EscapedPath(); (p != "/" && p != "") || t.url.RawQuery != "" || t.url.Opaque != "" {
		return nil
	}
	s := &signature{service: t.service, region: t.region}
	add := func(name, value string) { s.headers = append(s.headers, signedHeader{name, value}) }
	add("host", cmp.Or(t.host, t.url.Host))
	add(contentLength, "")
	add(contentType, "")
	add(amzDate, "")
	add(securityToken, "")
	for name, values := range t.header {
		name = strings.ToLower(name)
		if name == contentType || slices.Contains(unsigned, name) {
			continue
		}
		if len(values) != 1 {
			return nil
		}
		add(name, values[0])
	}
	for _, h := range s.headers {
		if strings.TrimSpace(h.value) != h.value || strings.Contains(h.value, "  ") {
			return nil
		}
	}
	slices.SortFunc(s.headers, func(a, b signedHeader) int { return cmp.Compare(a.name, b.name) })
	return s
}

const (
	dateForm = "20060102"
	timeForm = "20060102T150405Z"
)

// sign sets the headers that are new in each request and signed.
func (s *signature) sign(req *http.Request, body []byte, creds aws.Credentials, now time.Time) {
	at := now.UTC().Format(timeForm)
	req.Header["X-Amz-Date"] = []string{at}
	if creds.SessionToken != "" {
		req.Header["X-Amz-Security-Token"] = []string{creds.SessionToken}
	}
	b := make([]byte, 0, 1024+len(creds.SessionToken))
	names := make([]byte, 0, 128)
	b = append(b, "POST\n/\n\n"...)
	for _, h := range s.headers {
		switch h.name {
		case contentLength:
			if len(body) == 0 {
				continue
			}
			h.value = strconv.Itoa(len(body))
		case contentType:
			h.value = req.Header["Content-Type"][0]
		case amzDate:
			h.value = at
		case securityToken:
			if h.value = creds.SessionToken; h.value == "" {
				continue
			}
		}
		b = append(append(append(append(b, h.name...), ':'), h.value...), '\n')
		if len(names) > 0 {
			names = append(names, ';')
		}
		names = append(names, h.name...)
	}
	b = append(append(append(b, '\n'), names...), '\n')
	b = appendHash(b, body)
	canonical := b

	scope := make([]byte, 0, 64)
	scope = append(append(append(append(append(append(scope, at[:8]...), '/'), s.region...), '/'), s.service...), "/aws4_request"...)
	text := make([]byte, 0, 192)
	text = append(append(append(append(append(text, "AWS4-HMAC-SHA256\n"...), at...), '\n'), scope...), '\n')
	text = appendHash(text, canonical)
	sum := mac(s.keyFor(creds, at[:8]), text)

	a := make([]byte, 0, 320)
	a = append(append(append(append(a, "AWS4-HMAC-SHA256 Credential="...), creds.AccessKeyID...), '/'), scope...)
	a = append(append(append(a, ", SignedHeaders="...), names...), ", Signature="...)
	req.Header["Authorization"] = []string{string(hex.AppendEncode(a, sum))}
}

func appendHash(to, of []byte) []byte {
	sum := sha256.Sum256(of)
	return hex.AppendEncode(to, sum[:])
}

func mac(key, text []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(text)
	return h.Sum(nil)
}

// signingKey is derived from a secret for one day.
type signingKey struct{ id, secret, date, key string }

func (s *signature) keyFor(creds aws.Credentials, date string) []byte {
	if k := s.key.Load(); k != nil && k.id == creds.AccessKeyID && k.secret == creds.SecretAccessKey && k.date == date {
		return []byte(k.key)
	}
	key := mac([]byte("AWS4"+creds.SecretAccessKey), []byte(date))
	for _, part := range []string{s.region, s.service, "aws4_request"} {
		key = mac(key, []byte(part))
	}
	s.key.Store(&signingKey{creds.AccessKeyID, creds.SecretAccessKey, date, string(key)})
	return key
}
