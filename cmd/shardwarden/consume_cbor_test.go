package main

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// With --cbor pages come in the service's binary format, and what is printed is the same.
func TestConsumeCBOR(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.stream("orders", 2)
	c.fill("orders", 300)
	var binary atomic.Int64
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Content-Type") == "application/x-amz-cbor-1.1" {
			binary.Add(1)
		}
		c.kinesis.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	c.kurl = front.URL
	p, _ := c.consume("--stream", "orders", "--app", "billing", "--cbor", "--max", "300")
	c.wantAll(parse(t, p.rest()), 1)
	p.wantExit(0)
	if binary.Load() == 0 {
		t.Error("no request was in CBOR")
	}
}
