package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// row builds a lease row from "attribute=value" pairs of strings.
func row(pairs ...string) item {
	i := item{}
	for _, p := range pairs {
		k, v, _ := strings.Cut(p, "=")
		i[k] = map[string]jsonRaw{"S": jsonRaw(fmt.Sprintf("%q", v))}
	}
	return i
}

func TestMoves(t *testing.T) {
	type write struct {
		by  string
		row item
	}
	tests := []struct {
		name   string
		writes []write
		want   string
	}{
		{"taken when free, renewed", []write{{"a", row("leaseOwner=a")}, {"a", row("leaseOwner=a")}}, "->a by a given false"},
		{"handed over", []write{{"a", row("leaseOwner=a")}, {"l", row("leaseOwner=b", "checkpointOwner=a")}, {"a", row("leaseOwner=b", "checkpoint=7")}},
			"->a by a given false; a->b by a given true"},
		{"taken from one that lives", []write{{"a", row("leaseOwner=a")}, {"b", row("leaseOwner=b")}}, "->a by a given false; a->b by b given false"},
		{"taken while it was asked for", []write{{"a", row("leaseOwner=a")}, {"l", row("leaseOwner=b", "checkpointOwner=a")}, {"l", row("leaseOwner=c")}},
			"->a by a given false; a->c by l given false"},
		{"released, taken", []write{{"a", row("leaseOwner=a")}, {"a", row("checkpoint=7")}, {"b", row("leaseOwner=b")}},
			"->a by a given false; a-> by a given true; ->b by b given false"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var states []rowState
			for i, w := range tt.writes {
				states = append(states, rowState{time.Unix(int64(i), 0), w.by, w.row})
			}
			var got []string
			for _, m := range moves(map[string][]rowState{"k": states}) {
				got = append(got, fmt.Sprintf("%s->%s by %s given %v", m.from, m.to, m.by, m.given))
			}
			if s := strings.Join(got, "; "); s != tt.want {
				t.Errorf("moves %q, want %q", s, tt.want)
			}
		})
	}
}

// The recorder reads a row after each write and before the writer hears of it, counts calls by worker, and notes what was refused.
func TestRowRecorder(t *testing.T) {
	owner := "a"
	served := []string{}
	dynamo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, call, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		served = append(served, call)
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		switch {
		case call == "GetItem":
			fmt.Fprintf(w, `{"Item":{"leaseKey":{"S":"k"},"leaseOwner":{"S":%q}}}`, owner)
		case strings.Contains(string(body), "refuse"):
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException"}`)
		default:
			_, _ = io.WriteString(w, `{}`)
		}
	}))
	defer dynamo.Close()
	rec, err := newRowRecorder(dynamo.URL, "leases")
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{bench: &bench{}, say: t.Logf}
	defer r.stopAll()
	call := func(worker, target, body string) (int, string) {
		t.Helper()
		door, err := rec.door(r, worker)
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, door, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Amz-Target", "DynamoDB_20120810."+target)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(answer)
	}
	began := time.Now()
	call("a", "UpdateItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"k"}}}`)
	owner = "b"
	call("b", "PutItem", `{"TableName":"leases","Item":{"leaseKey":{"S":"k"}}}`)
	call("b", "UpdateItem", `{"TableName":"other","Key":{"leaseKey":{"S":"k"}}}`)
	call("b", "Scan", `{"TableName":"leases"}`)
	if code, answer := call("a", "UpdateItem", `{"TableName":"leases","Key":{"leaseKey":{"S":"k"}},"refuse":true}`); code != 400 || !strings.Contains(answer, "ConditionalCheckFailed") {
		t.Errorf("a refusal came through as %d %q", code, answer)
	}
	rows, err := rec.written()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows["k"]) != 2 || rows["k"][0].by != "a" || rows["k"][0].owner() != "a" || rows["k"][1].by != "b" || rows["k"][1].owner() != "b" {
		t.Errorf("rows %v, want one written by a and one by b", rows)
	}
	if _, ok := rec.refused("a", "k", began); !ok {
		t.Error("the refusal was not noted")
	}
	if _, ok := rec.refused("b", "k", began); ok {
		t.Error("a refusal of b was noted")
	}
	if a, b := rec.counted("a"), rec.counted("b"); a["UpdateItem"] != 2 || b["UpdateItem"] != 1 || b["PutItem"] != 1 || b["Scan"] != 1 {
		t.Errorf("calls of a %v, of b %v", a, b)
	}
	if want := "UpdateItem GetItem PutItem GetItem UpdateItem Scan UpdateItem"; strings.Join(served, " ") != want {
		t.Errorf("served %v, want %s", served, want)
	}
}
