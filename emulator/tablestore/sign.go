package tablestore

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Headers of the protocol, in the lower case in which they are signed and in which old Java SDKs want them answered.
const (
	headerPrefix     = "x-ots-"
	headerDate       = "x-ots-date"
	headerVersion    = "x-ots-apiversion"
	headerKeyID      = "x-ots-accesskeyid"
	headerMD5        = "x-ots-contentmd5"
	headerInstance   = "x-ots-instancename"
	headerSign       = "x-ots-signature"
	headerSignV4     = "x-ots-signaturev4"
	headerSignDate   = "x-ots-signdate"
	headerSignRegion = "x-ots-signregion"
	headerType       = "x-ots-contenttype"
	headerRequestID  = "x-ots-requestid"
	headerCompressed = "x-ots-request-compress-type"
)

func base64MAC(h func() hash.Hash, key, text string) string {
	m := hmac.New(h, []byte(key))
	m.Write([]byte(text))
	return base64.StdEncoding.EncodeToString(m.Sum(nil))
}

func bodyMD5(body []byte) string {
	sum := md5.Sum(body)
	return base64.StdEncoding.EncodeToString(sum[:])
}

// otsHeaders are the headers of the protocol by lower-case name. net/http has them in its own case.
func otsHeaders(h http.Header) map[string]string {
	out := map[string]string{}
	for name, values := range h {
		if name = strings.ToLower(name); strings.HasPrefix(name, headerPrefix) && len(values) > 0 {
			out[name] = values[0]
		}
	}
	return out
}

// lines gives the headers as they are signed, without those left out.
func lines(headers map[string]string, without ...string) string {
	names := make([]string, 0, len(headers))
	for name := range headers {
		if !slices.Contains(without, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var b strings.Builder
	for _, name := range names {
		b.WriteString(name + ":" + strings.TrimSpace(headers[name]) + "\n")
	}
	return b.String()
}

// requestText is what a request's signature is of. The empty line is the query, of which there is none.
func requestText(operation string, headers map[string]string) string {
	return "/" + operation + "\n" + http.MethodPost + "\n\n" + lines(headers, headerSign, headerSignV4)
}

// keyV4 derives the key of a day and region from a secret.
func keyV4(secret, day, region string) string {
	key := "aliyun_v4" + secret
	for _, part := range []string{day, region, "ots", "aliyun_v4_request"} {
		m := hmac.New(sha256.New, []byte(key))
		m.Write([]byte(part))
		key = string(m.Sum(nil))
	}
	return base64.StdEncoding.EncodeToString([]byte(key))
}

// maxSkew is how far the clock of a client may be off.
const maxSkew = 15 * time.Minute

// authenticate checks date, MD5 and signature of a request, and gives the key that signs its answer.
func (s *Server) authenticate(operation string, headers map[string]string, body []byte, now time.Time) (key string, err error) {
	for _, name := range []string{headerDate, headerVersion, headerKeyID, headerMD5, headerInstance} {
		if headers[name] == "" {
			return "", invalid("Missing header: '%s'.", name)
		}
	}
	id := headers[headerKeyID]
	secret, known := s.config.Credentials[id]
	if s.config.Credentials == nil {
		secret, known = id, true
	}
	if !known {
		return "", fail(codeAuth, "The AccessKeyID does not exist.")
	}
	signature := headers[headerSign]
	var want string
	switch {
	case headers[headerSignV4] != "":
		for _, name := range []string{headerSignDate, headerSignRegion} {
			if headers[name] == "" {
				return "", invalid("Missing header: '%s'.", name)
			}
		}
		signature = headers[headerSignV4]
		secret = keyV4(secret, headers[headerSignDate], headers[headerSignRegion])
		want = base64MAC(sha256.New, secret, requestText(operation, headers)+"ots")
	case signature != "":
		want = base64MAC(sha1.New, secret, requestText(operation, headers))
	default:
		return "", invalid("Missing header: '%s'.", headerSign)
	}
	if !hmac.Equal([]byte(signature), []byte(want)) {
		hint := ""
		if s.config.Credentials == nil {
			hint = " The emulator was started without credentials: any AccessKeyID will do, and its secret is the AccessKeyID itself."
		}
		return "", fail(codeAuth, "Signature mismatch.%s", hint)
	}
	if err := checkDate(headers[headerDate], now); err != nil {
		return "", err
	}
	if bodyMD5(body) != headers[headerMD5] {
		return "", fail(codeAuth, "Mismatch between MD5 value of request body and x-ots-contentmd5 in header.")
	}
	if v := headers[headerVersion]; v != "2015-12-31" {
		return "", invalid("Invalid API version: %s; the emulator speaks 2015-12-31.", v)
	}
	return secret, nil
}

// checkDate looks at whole seconds only: the Go SDK writes something else than a fraction after them.
func checkDate(date string, now time.Time) error {
	const layout = "2006-01-02T15:04:05"
	if len(date) < len(layout) {
		return invalid("Invalid date format: %s.", date)
	}
	t, err := time.Parse(layout, date[:len(layout)])
	if err != nil {
		return invalid("Invalid date format: %s.", date)
	}
	if now.Sub(t).Abs() > maxSkew {
		return fail(codeAuth, "Mismatch between system time and x-ots-date: %s.", date)
	}
	return nil
}

// sign sets the headers of an answer and its signature. The raw names matter: the Java SDK 4 looks for lower case.
func sign(h http.Header, operation, id, key, requestID string, body []byte, now time.Time) {
	headers := map[string]string{
		headerMD5:       bodyMD5(body),
		headerType:      "protocol buffer",
		headerDate:      now.UTC().Format("2006-01-02T15:04:05.000000Z"),
		headerRequestID: requestID,
	}
	for name, value := range headers {
		h[name] = []string{value}
	}
	if key != "" {
		h.Set("Authorization", "OTS "+id+":"+responseSignature(operation, key, headers))
	}
}

func responseSignature(operation, key string, headers map[string]string) string {
	return base64MAC(sha1.New, key, lines(headers)+"/"+operation)
}
