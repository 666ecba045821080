package dynamodb

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// The service's limits on transactions.
const (
	maxTransaction      = 100
	maxTransactionBytes = 4 << 20
)

// tokenLife is how long a ClientRequestToken makes a repeat harmless.
const tokenLife = 10 * time.Minute

// tokenUse is what a ClientRequestToken was used for.
type tokenUse struct {
	at      time.Time
	request [sha256.Size]byte
}

type transactWriteItems struct {
	TransactItems               []transactWrite
	ClientRequestToken          string
	ReturnItemCollectionMetrics string
	metering
	writes []write
}

type transactWrite struct {
	Put *struct {
		TableName tableName
		Item      item
		conditional
	}
	Update *struct {
		TableName        tableName
		Key              item
		UpdateExpression *string
		conditional
	}
	Delete, ConditionCheck *transactKeyed
}

type transactKeyed struct {
	TableName tableName
	Key       item
	conditional
}

func (t transactWrite) touch() touch {
	switch {
	case t.Put != nil:
		return touch{table: string(t.Put.TableName), key: t.Put.Item}
	case t.Update != nil:
		return touch{table: string(t.Update.TableName), key: t.Update.Key}
	case t.Delete != nil:
		return touch{table: string(t.Delete.TableName), key: t.Delete.Key}
	case t.ConditionCheck != nil:
		return touch{table: string(t.ConditionCheck.TableName), key: t.ConditionCheck.Key}
	}
	return touch{}
}

func (r *transactWriteItems) touches() (ts []touch) {
	for _, t := range r.TransactItems {
		ts = append(ts, t.touch())
	}
	return
}

func (r *transactWriteItems) check() error {
	if n := len(r.TransactItems); n == 0 || n > maxTransaction {
		return constraint("of "+itoa(n)+" members", "transactItems", "Member must have length between 1 and 100")
	}
	if len(r.ClientRequestToken) > 36 {
		return constraint("'"+r.ClientRequestToken+"'", "clientRequestToken", "Member must have length less than or equal to 36")
	}
	if err := oneOf("returnItemCollectionMetrics", r.ReturnItemCollectionMetrics, "SIZE", "NONE"); err != nil {
		return err
	}
	if err := r.checkCapacity(); err != nil {
		return err
	}
	for _, t := range r.TransactItems {
		w, err := t.parse()
		if err != nil {
			return err
		}
		r.writes = append(r.writes, w)
	}
	return nil
}

func (t transactWrite) parse() (w write, err error) {
	if len(given("", t.Put != nil, "", t.Update != nil, "", t.Delete != nil, "", t.ConditionCheck != nil)) != 1 {
		return w, invalid("TransactItems can only contain one of Check, Put, Update or Delete")
	}
	about := t.touch()
	if err := tableName(about.table).check(); err != nil {
		return w, err
	}
	if err := required("Key or Item of a member of TransactItems", about.key != nil); err != nil {
		return w, err
	}
	w = write{table: about.table, key: about.key}
	switch {
	case t.Put != nil:
		w.kind, w.item = writePut, t.Put.Item
		return w, t.Put.parse(&w, nil)
	case t.Update != nil:
		w.kind = writeUpdate
		if err := required("UpdateExpression", t.Update.UpdateExpression != nil); err != nil {
			return w, err
		}
		return w, t.Update.parse(&w, func(sc *scope) (err error) {
			w.update, err = parse(sc, "UpdateExpression", *t.Update.UpdateExpression, updateRule)
			return err
		})
	case t.Delete != nil:
		w.kind = writeDelete
		return w, t.Delete.parse(&w, nil)
	}
	w.kind = writeCheck
	if err := required("ConditionExpression", t.ConditionCheck.ConditionExpression != nil); err != nil {
		return w, err
	}
	return w, t.ConditionCheck.parse(&w, nil)
}

// fingerprint tells two requests under one token apart, whatever the order
// their maps were written in.
func (r *transactWriteItems) fingerprint() ([sha256.Size]byte, error) {
	b, err := json.Marshal(struct {
		Items []transactWrite
		metering
	}{r.TransactItems, r.metering})
	return sha256.Sum256(b), err
}

// MarshalJSON is the wire form.
func (it item) MarshalJSON() ([]byte, error) { return appendItem(nil, it), nil }

func (r *transactWriteItems) run(s *Server) (obj, error) {
	print, err := r.fingerprint()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for k, u := range s.tokens {
		if now.Sub(u.at) > tokenLife {
			delete(s.tokens, k)
		}
	}
	if u, used := s.tokens[r.ClientRequestToken]; used && r.ClientRequestToken != "" {
		if u.request != print {
			return nil, fail("IdempotentParameterMismatchException", "The request uses the same client token as a previous, but non-identical request")
		}
		return r.answer(nil), nil // applied before: say so again, change nothing
	}
	changes, err := r.work(s, now)
	if err != nil {
		return nil, err
	}
	for i, c := range changes {
		if r.writes[i].kind != writeCheck {
			c.store(now)
		}
	}
	if r.ClientRequestToken != "" {
		s.tokens[r.ClientRequestToken] = tokenUse{now, print}
	}
	return r.answer(changes), nil
}

// work finds what the transaction would change, or why it is cancelled. The
// caller holds mu.
func (r *transactWriteItems) work(s *Server, now time.Time) ([]change, error) {
	changes := make([]change, 0, len(r.writes))
	reasons := make([]obj, len(r.writes))
	cancelled, bytes := false, 0
	type place struct {
		t   *table
		pos string
	}
	seen := map[place]bool{}
	for i := range r.writes {
		c, err := s.work(&r.writes[i], now)
		e, _ := errors.AsType[*apiError](err)
		if err != nil && (e == nil || e.shape == "ResourceNotFoundException") {
			return nil, err
		}
		if c.pos != "" {
			if seen[place{c.t, c.pos}] {
				return nil, invalid("Transaction request cannot include multiple operations on one item")
			}
			seen[place{c.t, c.pos}] = true
		}
		reasons[i] = reason(e)
		cancelled = cancelled || err != nil
		bytes += c.new.size()
		changes = append(changes, c)
	}
	if cancelled {
		return nil, errCancelled(reasons)
	}
	if bytes > maxTransactionBytes {
		return nil, invalid("Collection size of items exceeded the limit of 4 MB for a transaction")
	}
	return changes, nil
}

// reason is the CancellationReason an error of one member becomes.
func reason(e *apiError) obj {
	if e == nil {
		return obj{{"Code", "None"}}
	}
	code := map[string]string{
		"ConditionalCheckFailedException":        "ConditionalCheckFailed",
		"ProvisionedThroughputExceededException": "ProvisionedThroughputExceeded",
		"ValidationException":                    "ValidationError",
	}[e.shape]
	return append(obj{{"Code", code}, {"Message", e.msg}}, e.extra...)
}

func errCancelled(reasons []obj) *apiError {
	var codes []string
	for _, r := range reasons {
		codes = append(codes, r[0].v.(string))
	}
	e := fail("TransactionCanceledException", "Transaction cancelled, please refer cancellation reasons for specific reasons [%s]", strings.Join(codes, ", "))
	e.extra = obj{{"CancellationReasons", reasons}}
	return e
}

// throttled cancels the transaction, as the service does when it has no
// capacity for some of the items.
func (r *transactWriteItems) throttled(hit []bool) error { return cancelHit(hit) }

func cancelHit(hit []bool) error {
	reasons := make([]obj, len(hit))
	for i, h := range hit {
		var e *apiError
		if h {
			e = errThroughput()
		}
		reasons[i] = reason(e)
	}
	return errCancelled(reasons)
}

func (r *transactWriteItems) answer(changes []change) obj {
	used := map[string]*usage{}
	for _, c := range changes {
		u := c.usage()
		u.units *= 2 // a transaction writes each item twice
		for x := range u.indexes {
			u.indexes[x] *= 2
		}
		tally(used, u)
	}
	return r.many(obj{}, used)
}

type transactGetItems struct {
	TransactItems []struct {
		Get *struct {
			TableName tableName
			Key       item
			projecting
		}
	}
	metering
}

func (r *transactGetItems) touches() (ts []touch) {
	for _, t := range r.TransactItems {
		if t.Get != nil {
			ts = append(ts, touch{table: string(t.Get.TableName), key: t.Get.Key})
		}
	}
	return
}

func (r *transactGetItems) throttled(hit []bool) error { return cancelHit(hit) }

func (r *transactGetItems) check() error {
	if n := len(r.TransactItems); n == 0 || n > maxTransaction {
		return constraint("of "+itoa(n)+" members", "transactItems", "Member must have length between 1 and 100")
	}
	if err := r.checkCapacity(); err != nil {
		return err
	}
	for _, t := range r.TransactItems {
		if err := required("Get of a member of TransactItems", t.Get != nil); err != nil {
			return err
		}
		if err := t.Get.TableName.check(); err != nil {
			return err
		}
		if err := required("Key", t.Get.Key != nil); err != nil {
			return err
		}
		if err := t.Get.only(); err != nil {
			return err
		}
	}
	return nil
}

func (r *transactGetItems) run(s *Server) (obj, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	used := map[string]*usage{}
	var responses []obj
	for _, t := range r.TransactItems {
		name := string(t.Get.TableName)
		it, err := s.read(name, t.Get.Key, true)
		if err != nil {
			return nil, err
		}
		tally(used, usage{table: name, units: 2 * readUnits(it.size(), true)})
		responses = append(responses, obj{}.with(it != nil, "Item", t.Get.of(it)))
	}
	return r.many(obj{{"Responses", responses}}, used), nil
}
