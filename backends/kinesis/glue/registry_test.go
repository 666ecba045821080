package glue

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/shardwarden/shardwarden/core"
)

const version = "0a0b0c0d-0e0f-4001-8002-030405060708"

func versionNumber(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012x", n) }

func TestRegistryTroubleIsNotTheRecords(t *testing.T) {
	for name, c := range map[string]struct {
		trouble func(http.ResponseWriter) bool
		kind    error
		says    string
	}{
		"down":      {func(w http.ResponseWriter) bool { w.WriteHeader(503); return true }, core.ErrUnavailable, version},
		"fails":     {refuse(500, "InternalServiceException"), core.ErrUnavailable, "InternalServiceException"},
		"throttles": {refuse(400, "ThrottlingException"), core.ErrThrottled, "ThrottlingException"},
		"throttle2": {func(w http.ResponseWriter) bool { w.WriteHeader(429); return true }, core.ErrThrottled, version},
		"denies":    {refuse(400, "AccessDeniedException"), core.ErrDenied, "needs glue:GetSchemaVersion"},
		"forbids":   {func(w http.ResponseWriter) bool { w.WriteHeader(403); return true }, core.ErrDenied, version},
		"expired":   {refuse(400, "ExpiredTokenException"), core.ErrUnavailable, "ExpiredTokenException"},
		"html":      {func(w http.ResponseWriter) bool { _, _ = w.Write([]byte("<html>")); return true }, core.ErrUnavailable, version},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reg := &fakeRegistry{trouble: c.trouble}
				reg.add(version, "s", JSON, "{}")
				d := reg.decoder()
				r := record(version, []byte(`1`))
				data := string(r.Data)
				for i := range 100 {
					_, err := d.Decode(t.Context(), r)
					if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) || errors.Is(err, core.ErrInvalid) {
						t.Fatalf("attempt %d: %v; want %v and %q", i, err, c.kind, c.says)
					}
					if string(r.Data) != data || r.Native != nil {
						t.Fatalf("the record was touched: %+v", r)
					}
				}
				if n := reg.asked(); n != 1 {
					t.Errorf("%d calls for 100 attempts in a row", n)
				}
				for range 600 { // ten minutes, an attempt a second
					time.Sleep(time.Second)
					if _, err := d.Decode(t.Context(), r); err == nil {
						t.Fatal("decoded")
					}
				}
				if n := reg.asked(); n < 30 || n > 60 {
					t.Errorf("%d calls in ten minutes, want one each 10 to 20 s", n)
				}
				reg.fail(nil)
				time.Sleep(mostPause)
				if m := decode(t, d, r); m.Err != nil || fmt.Sprint(m.Value) != "1" {
					t.Errorf("once it is well: %+v", m)
				}
			})
		})
	}
}

func TestRegistryThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := &fakeRegistry{gate: make(chan struct{})}
		start := time.Now()
		_, err := reg.decoder().Decode(t.Context(), record(version, nil))
		if !errors.Is(err, core.ErrUnavailable) || time.Since(start) != lookupTimeout {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

func TestUnknownVersionIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reg fakeRegistry
		d := reg.decoder()
		for range 1000 {
			if m := decode(t, d, record(version, nil)); m.Err == nil || !strings.Contains(m.Err.Error(), "no such schema version") {
				t.Fatal(m.Err)
			}
		}
		if n := reg.asked(); n != 1 {
			t.Errorf("%d calls for 1000 records of an unknown version", n)
		}
		time.Sleep(badFor - time.Second)
		if decode(t, d, record(version, nil)); reg.asked() != 1 {
			t.Error("asked again within the minute")
		}
		reg.add(version, "s", JSON, "{}")
		time.Sleep(time.Second)
		if m := decode(t, d, record(version, []byte("2"))); m.Err != nil {
			t.Errorf("the version is there by now: %v", m.Err)
		}
	})
}

func TestSchemasThatMakeNoSense(t *testing.T) {
	for name, c := range map[string]struct {
		format     Format
		text, says string
	}{
		"avro":     {Avro, `{"type":"record"}`, "record"},
		"protobuf": {Protobuf, `message {`, "syntax error"},
		"import":   {Protobuf, `syntax = "proto3"; import "other/schema.proto"; message A {}`, "google/protobuf and google/type only, not other/schema.proto"},
		"no types": {Protobuf, `syntax = "proto3"; enum E { A = 0; }`, "no message types"},
		"format":   {"XML", `<a/>`, `format "XML"`},
		"empty":    {JSON, ``, "no definition"},
	} {
		t.Run(name, func(t *testing.T) {
			var reg fakeRegistry
			reg.add(version, "orders", c.format, c.text)
			d := reg.decoder()
			for range 10 {
				if m := decode(t, d, record(version, []byte{0})); m.Err == nil || !strings.Contains(m.Err.Error(), c.says) || !strings.Contains(m.Err.Error(), "orders") {
					t.Fatalf("%v; want the schema's name and %q", m.Err, c.says)
				}
			}
			if n := reg.asked(); n != 1 {
				t.Errorf("%d calls", n)
			}
		})
	}
}

func TestOneLookupForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := &fakeRegistry{gate: make(chan struct{})}
		reg.add(version, "s", JSON, "{}")
		d := reg.decoder()
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if _, err := d.Decode(t.Context(), record(version, []byte("1"))); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		close(reg.gate)
		wg.Wait()
		if n := reg.asked(); n != 1 {
			t.Errorf("%d calls for 50 records at the same time", n)
		}
		if c := d.Counts(); c != (Counts{Decoded: 50, Lookups: 1}) {
			t.Errorf("%+v", c)
		}
	})
}

// A shard that is given up while it waits for the registry must not spoil the answer for others, nor be held by it.
func TestCancelledLookupIsItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := &fakeRegistry{gate: make(chan struct{})}
		reg.add(version, "s", JSON, "{}")
		d := reg.decoder()
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 2 { // one asks, one waits
			wg.Go(func() {
				if _, err := d.Decode(ctx, record(version, nil)); !errors.Is(err, context.Canceled) {
					t.Errorf("cancelled: %v", err)
				}
			})
		}
		synctest.Wait()
		wg.Go(func() {
			if _, err := d.Decode(t.Context(), record(version, []byte("1"))); err != nil {
				t.Errorf("another: %v", err)
			}
		})
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(reg.gate)
		wg.Wait()
		if c := d.Counts(); c.RegistryErrors != 0 || c.Decoded != 1 {
			t.Errorf("%+v", c)
		}
	})
}

func TestSchemasAreForgotten(t *testing.T) {
	var reg fakeRegistry
	for i := range mostSchemas + 1 {
		reg.add(versionNumber(i), "s", JSON, "{}")
	}
	d := reg.decoder()
	for i := range mostSchemas + 1 {
		decode(t, d, record(versionNumber(0), []byte("1"))) // in use all the time
		decode(t, d, record(versionNumber(i), []byte("1")))
	}
	if n := len(d.registry.known); n != mostSchemas {
		t.Errorf("%d schemas are kept", n)
	}
	before := reg.asked()
	decode(t, d, record(versionNumber(0), []byte("1")))
	if reg.asked() != before {
		t.Error("the one in use was forgotten")
	}
	decode(t, d, record(versionNumber(1), []byte("1")))
	if reg.asked() != before+1 {
		t.Error("the one that was not used for longest was kept")
	}
}

func TestEndpointOfTheEnvironment(t *testing.T) {
	var reg fakeRegistry
	reg.add(version, "s", JSON, "{}")
	server := httptest.NewServer(&reg)
	defer server.Close()
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ENDPOINT_URL_GLUE": server.URL, "AWS_REGION": "eu-central-1",
		"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_EC2_METADATA_DISABLED": "true",
	} {
		t.Setenv(name, value)
	}
	cfg, err := config.LoadDefaultConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	decode(t, New(cfg), record(version, []byte("1")))
	t.Setenv("AWS_ENDPOINT_URL_GLUE", "http://127.0.0.1:1")
	if cfg, err = config.LoadDefaultConfig(t.Context()); err != nil {
		t.Fatal(err)
	}
	decode(t, New(cfg, Endpoint(server.URL)), record(version, []byte("1")))
	if n := reg.asked(); n != 2 {
		t.Errorf("%d calls", n)
	}
}
