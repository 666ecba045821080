package demo

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestNetwork(t *testing.T) {
	t.Parallel()
	entered, answer := make(chan struct{}, 1), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			entered <- struct{}{}
			<-answer
		}
		_, _ = io.WriteString(w, "hello")
	}))
	defer server.Close()
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	returned := make(chan struct{}, 10)
	n := newNetwork(roundTrip(func(r *http.Request) (*http.Response, error) {
		defer func() { returned <- struct{}{} }()
		return base.RoundTrip(r)
	}))
	client := &http.Client{Transport: n}
	get := func(ctx context.Context, path string) (string, error) {
		r, err := http.NewRequestWithContext(ctx, "POST", server.URL+path, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(r)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return string(b), err
	}

	if s, err := get(t.Context(), "/"); s != "hello" || err != nil {
		t.Fatalf("before the cut: %q, %v", s, err)
	}
	r, _ := http.NewRequest("POST", server.URL, nil)
	half, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	slow := make(chan error, 1)
	go func() { _, err := get(t.Context(), "/slow"); slow <- err }()
	<-entered
	n.sever()
	<-returned // of the two calls before
	<-returned
	close(answer) // the service answers; the worker must not hear it
	<-returned
	body := make(chan error, 1)
	go func() { _, err := io.ReadAll(half.Body); half.Body.Close(); body <- err }()

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := get(ctx, "/"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call after the cut: %v, want it to hang until its context ends", err)
	}
	select {
	case err := <-slow:
		t.Errorf("a call under way at the cut was answered: %v", err)
	case err := <-body:
		t.Errorf("an answer was read on after the cut: %v", err)
	default:
	}
	n.close()
	if err := <-slow; !errors.Is(err, errNetworkDown) {
		t.Errorf("a hanging call when the demo ends: %v", err)
	}
	if err := <-body; !errors.Is(err, errNetworkDown) {
		t.Errorf("a hanging read when the demo ends: %v", err)
	}
}
