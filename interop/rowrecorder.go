package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// rowRecorder stands between the workers and DynamoDB, a door of its own for each worker. It counts their calls, and reads each row of a lease
// table again after a worker has written it and before that worker hears of it: so no state that a row stays in is missed.
type rowRecorder struct {
	dynamo *dynamodb.Client
	target *url.URL
	table  string

	turn   chan struct{} // held while a row is read, so that what stands last in its list is what is in the table
	mu     sync.Mutex
	rows   map[string][]rowState // by lease key, in the order of the writes
	no     []refusal
	calls  map[string]map[string]int
	kills  []killWhen
	broken error
}

// killWhen kills a worker that writes a row of a certain kind, before it hears that it was written.
type killWhen struct {
	m    *member
	is   func(key string, row item) bool
	done chan struct{}
}

// killWhen kills m with kill -9 at the first such write of it. The channel is closed once m is dead and its output was read.
func (rec *rowRecorder) killWhen(m *member, is func(key string, row item) bool) (dead <-chan struct{}) {
	k := killWhen{m, is, make(chan struct{})}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.kills = append(rec.kills, k)
	return k.done
}

// refusal is a write of a worker whose condition did not hold.
type refusal struct {
	at       time.Time
	key, who string
}

// rowState is a row as it was after a worker wrote it; no attributes: deleted.
type rowState struct {
	at time.Time
	by string
	item
}

// MarshalJSON is for people.
func (s rowState) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"at": s.at, "by": s.by, "row": s.item})
}

func newRowRecorder(dynamoURL, table string) (*rowRecorder, error) {
	target, err := url.Parse(dynamoURL)
	return &rowRecorder{dynamo: dynamoClient(dynamoURL), turn: make(chan struct{}, 1), target: target, table: table, rows: map[string][]rowState{}, calls: map[string]map[string]int{}}, err
}

// door is the address at which worker finds DynamoDB.
func (rec *rowRecorder) door(r *runner, worker string) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:        func(p *httputil.ProxyRequest) { p.SetURL(rec.target) },
		Transport:      &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 100},
		ModifyResponse: func(resp *http.Response) error { return rec.note(worker, resp) },
		ErrorHandler: func(w http.ResponseWriter, req *http.Request, err error) {
			if req.Context().Err() == nil { // a worker that was killed needs no answer
				rec.fail(fmt.Errorf("DynamoDB for %s: %w", worker, err))
			}
			w.WriteHeader(http.StatusBadGateway)
		},
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return // the worker is gone
		}
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		proxy.ServeHTTP(w, req.WithContext(context.WithValue(req.Context(), requestBody{}, body)))
	})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	r.onStop(func() {
		_ = server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			r.say("DynamoDB's door for %s: %v", worker, err)
		}
	})
	return "http://" + l.Addr().String(), nil
}

type requestBody struct{}

// note counts a call, and reads the row that it has written.
func (rec *rowRecorder) note(worker string, resp *http.Response) error {
	_, call, _ := strings.Cut(resp.Request.Header.Get("X-Amz-Target"), ".")
	rec.mu.Lock()
	if rec.calls[worker] == nil {
		rec.calls[worker] = map[string]int{}
	}
	rec.calls[worker][call]++
	rec.mu.Unlock()
	if !slices.Contains([]string{"PutItem", "UpdateItem", "DeleteItem"}, call) {
		return nil
	}
	var in struct {
		TableName string
		Key, Item map[string]struct{ S string }
	}
	body, _ := resp.Request.Context().Value(requestBody{}).([]byte)
	if err := json.Unmarshal(body, &in); err != nil {
		return fmt.Errorf("%s of %s: %w", call, worker, err)
	}
	if in.TableName != rec.table {
		return nil
	}
	key := in.Key["leaseKey"].S
	if call == "PutItem" {
		key = in.Item["leaseKey"].S
	}
	if resp.StatusCode != http.StatusOK {
		return rec.noteRefusal(worker, key, resp)
	}
	rec.turn <- struct{}{}
	defer func() { <-rec.turn }()
	out, err := rec.dynamo.GetItem(resp.Request.Context(), &dynamodb.GetItemInput{TableName: &rec.table, ConsistentRead: new(true),
		Key: map[string]types.AttributeValue{"leaseKey": &types.AttributeValueMemberS{Value: key}}})
	if err != nil {
		if resp.Request.Context().Err() != nil {
			return nil
		}
		return fmt.Errorf("read row %q after %s of %s: %w", key, call, worker, err)
	}
	row, err := plainItem(out.Item)
	if err != nil {
		return err
	}
	rec.mu.Lock()
	rec.rows[key] = append(rec.rows[key], rowState{time.Now(), worker, row})
	i := slices.IndexFunc(rec.kills, func(k killWhen) bool { return k.m.worker == worker && k.is(key, row) })
	if i < 0 {
		rec.mu.Unlock()
		return nil
	}
	k := rec.kills[i]
	rec.kills = slices.Delete(rec.kills, i, i+1)
	rec.mu.Unlock()
	if err := k.m.kill(); err != nil {
		return fmt.Errorf("kill %s: %w", worker, err)
	}
	close(k.done)
	return nil
}

func (rec *rowRecorder) noteRefusal(worker, key string, resp *http.Response) error {
	answer, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	resp.Body = io.NopCloser(bytes.NewReader(answer))
	if bytes.Contains(answer, []byte("ConditionalCheckFailedException")) {
		rec.mu.Lock()
		defer rec.mu.Unlock()
		rec.no = append(rec.no, refusal{time.Now(), key, worker})
	}
	return nil
}

// refused is when a write of the worker to that row was first refused after that time.
func (rec *rowRecorder) refused(worker, key string, after time.Time) (time.Time, bool) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	i := slices.IndexFunc(rec.no, func(r refusal) bool { return r.who == worker && r.key == key && r.at.After(after) })
	if i < 0 {
		return time.Time{}, false
	}
	return rec.no[i].at, true
}

func (rec *rowRecorder) fail(err error) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.broken = errors.Join(rec.broken, err)
}

// written is every state of every row so far.
func (rec *rowRecorder) written() (map[string][]rowState, error) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	out := map[string][]rowState{}
	for k, v := range rec.rows {
		out[k] = slices.Clone(v)
	}
	return out, rec.broken
}

// counted is how many calls of each kind worker made so far.
func (rec *rowRecorder) counted(worker string) map[string]int {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	out := map[string]int{}
	maps.Copy(out, rec.calls[worker])
	return out
}

// move is a change of who may read a shard.
type move struct {
	key, from, to string
	at            time.Time
	by            string
	given         bool   // from gave it itself: handed over, or released
	checkpoint    string // where to begins
	sub           uint64
}

// moves are the changes of owner, by lease key, in order. Who may read a shard is who stands in checkpointOwner, else in leaseOwner.
func moves(rows map[string][]rowState) []move {
	var out []move
	for key, states := range rows {
		owner := ""
		for _, s := range states {
			if len(s.item) == 0 {
				continue
			}
			if now := s.owner(); now != owner {
				sub, _ := strconv.ParseUint(s.str("checkpointSubSequenceNumber"), 10, 64) // its form is judged elsewhere
				out = append(out, move{key: key, from: owner, to: now, at: s.at, by: s.by, given: s.by == owner, checkpoint: s.str("checkpoint"), sub: sub})
				owner = now
			}
		}
	}
	slices.SortFunc(out, func(a, b move) int { return a.at.Compare(b.at) })
	return out
}
