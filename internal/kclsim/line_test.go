package kclsim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"
)

// line is an HTTP client whose server is a handler in the same process: an answer takes a while of fake time, and no other goroutine.
type line struct {
	to      http.Handler
	latency time.Duration
	cut     atomic.Bool // nothing gets through
	calls   atomic.Int64
}

func (l *line) Do(r *http.Request) (*http.Response, error) {
	l.calls.Add(1)
	if err := l.travel(r); err != nil {
		return nil, err
	}
	body := []byte{}
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		_ = r.Body.Close()
	}
	in := r.Clone(r.Context())
	in.Body, in.RequestURI = io.NopCloser(bytes.NewReader(body)), r.URL.RequestURI()
	if in.Host == "" {
		in.Host = r.URL.Host
	}
	out := httptest.NewRecorder()
	if err := serve(l.to, out, in); err != nil {
		return nil, err
	}
	if err := l.travel(r); err != nil { // the answer: the request may have been carried out
		return nil, err
	}
	answer := out.Result()
	answer.Request = r
	return answer, nil
}

// travel is half of the way there and back.
func (l *line) travel(r *http.Request) error {
	if l.latency > 0 {
		t := time.NewTimer(l.latency / 2)
		defer t.Stop()
		select {
		case <-r.Context().Done():
			return r.Context().Err()
		case <-t.C:
		}
	}
	was := false
	for l.cut.Load() { // no answer, and when it is mended none to what was sent before
		was = true
		if err := pause(r.Context(), 100*time.Millisecond); err != nil {
			return err
		}
	}
	if was {
		return errors.New("connection timed out")
	}
	return r.Context().Err()
}

func serve(h http.Handler, w http.ResponseWriter, r *http.Request) (err error) {
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler:
			err = errors.New("connection reset by peer")
		default:
			panic(fmt.Sprint(p))
		}
	}()
	h.ServeHTTP(w, r)
	return nil
}
