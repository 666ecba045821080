package dynamo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/internal/cpuload"
)

// Store is a lease table. It is safe for concurrent use, and starts no goroutine that outlives a call.
type Store struct {
	settings
	app         string
	region      string
	credentials *credentials
	client      *dynamodb.Client
	http        wholeBody
	updates     updates
	meter       *cpuload.Meter

	mu        sync.Mutex // never held across a call of the service
	stream    core.StreamID
	found     findings
	standing  standing
	rules     regime            // as last logged
	askedAt   time.Time         // when the coordinator's own table was last asked
	said      map[string]string // troubles that last, by what they are about
	told      bool              // that workers are not announced
	rows      int64             // as last seen: how many segments a scan is worth
	announced map[core.WorkerID]place
	aside     asideReading
	pulses    map[core.WorkerID]pulse
	loads     map[core.WorkerID]averaged
	leading   bool
	stale     []staleWorker
	warned    time.Time
	billing   string // how the table is paid for, for advice
}

var (
	_ core.LeaseStore  = (*Store)(nil)
	_ core.Presence    = (*Store)(nil)
	_ core.StartHolder = (*Store)(nil)
	_ core.Sharer      = (*Store)(nil)
	_ core.LeaderLock  = (*Store)(nil)
)

// New makes the store of an application: a table of that name, unless [Table] names another. It calls nobody; [Store.Prepare] does.
func New(cfg aws.Config, app string, opts ...Option) *Store {
	s := &Store{
		app: app, settings: settings{table: app, timeout: 2500 * time.Millisecond, leaderLease: defaultLeaderLease, metricsEvery: announceEvery}, meter: cpuload.New(),
		found: findings{marks: newMarks()}, said: map[string]string{}, announced: map[core.WorkerID]place{}, loads: map[core.WorkerID]averaged{},
	}
	for _, o := range opts {
		o(&s.settings)
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.http = httpClient(cfg.HTTPClient, 2*s.timeout)
	s.credentials = &credentials{cfg.Credentials}
	s.client = dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) {
		o.HTTPClient = s.http
		o.Credentials = s.credentials
		if s.endpoint != "" {
			o.BaseEndpoint = new(s.endpoint)
			if o.Region == "" {
				o.Region = "us-east-1"
			}
		}
		// For reads. Writes are sent once, see call.
		o.RetryMaxAttempts = 0
		o.Retryer = retry.NewStandard(func(r *retry.StandardOptions) { r.MaxAttempts, r.MaxBackoff = 4, time.Second })
		for _, f := range s.settings.client {
			f(o)
		}
	})
	s.updates = newUpdates(s.client)
	s.region = s.client.Options().Region
	s.standing, _ = s.found.judge(s.kind, s.coordinatorName(), "") // of nothing there is nothing to doubt
	return s
}

// CloseIdle closes the connections that no call is using. The store can be used again.
func (s *Store) CloseIdle() { s.http.closeIdle() }

// HoldsStart implements [core.StartHolder]: a row keeps a start beside the instant it was resolved to.
func (s *Store) HoldsStart() bool { return true }

// Get implements [core.LeaseStore].
func (s *Store) Get(ctx context.Context, key core.LeaseKey) (core.Lease, error) {
	want, err := s.bind(key.Stream)
	if err != nil {
		return core.Lease{}, err
	}
	row, err := s.read(ctx, key)
	if err != nil {
		return core.Lease{}, err
	}
	return s.lease(row, want)
}

// read is the row of a lease, strongly consistent; ErrNotFound where there is none.
func (s *Store) read(ctx context.Context, key core.LeaseKey) (Attributes, error) {
	k, err := s.rowKey(key)
	if err != nil {
		return nil, err
	}
	out, err := call(ctx, s, retried("GetItem"), s.client.GetItem, &dynamodb.GetItemInput{
		TableName: &s.table, Key: Attributes{attrKey: text(k)}, ConsistentRead: new(true),
	})
	if err != nil {
		return nil, err
	}
	if len(out.Item) == 0 {
		return nil, fmt.Errorf("table %s: lease %s: %w", s.table, k, core.ErrNotFound)
	}
	return out.Item, nil
}

// lease is a row as the engine sees it.
func (s *Store) lease(row Attributes, want core.StreamID) (core.Lease, error) {
	if kindOf(row) != isLease {
		r := rowReader{row: row}
		k := r.text(attrKey)
		return core.Lease{}, &core.RowError{Key: core.LeaseKey{Stream: want, Shard: core.ShardID(k)}, Row: k, Err: fmt.Errorf("the row is no lease: %s is %s", attrEntity, describe(row[attrEntity]))}
	}
	if err := s.rightKind(row); err != nil {
		return core.Lease{}, err
	}
	l, err := decodeLease(row, s.stamped())
	if owned := s.own(&l, want); owned != nil {
		return core.Lease{}, owned
	}
	if bad, ok := errors.AsType[*core.RowError](err); ok {
		bad.Key = l.Key
		return core.Lease{}, bad
	}
	return l, err
}

// Create implements [core.LeaseStore].
func (s *Store) Create(ctx context.Context, l core.Lease) (core.Lease, error) {
	stream, err := s.bind(l.Key.Stream)
	if err != nil {
		return core.Lease{}, err
	}
	row, err := encodeLease(&l, stream, s.now().typed)
	if err != nil {
		return core.Lease{}, err
	}
	key, err := s.rowKey(l.Key)
	if err != nil {
		return core.Lease{}, err
	}
	if s.several {
		nameRow(row, key, l.Key)
	}
	e := newExpression()
	e.require("attribute_not_exists(%s)", e.name(attrKey))
	_, err = call(ctx, s, once("PutItem"), s.client.PutItem, &dynamodb.PutItemInput{
		TableName: &s.table, Item: row, ConditionExpression: e.condition(), ExpressionAttributeNames: e.attributeNames(),
	})
	if errors.Is(err, core.ErrConflict) {
		return core.Lease{}, fmt.Errorf("table %s: lease %s: %w", s.table, key, core.ErrExists)
	}
	if err != nil {
		return core.Lease{}, err
	}
	return s.lease(row, stream)
}

// Update implements [core.LeaseStore]. A write with a Run also stamps the row with the stream, and is refused where the row has the
// stamp of another ([core.ErrOtherStream]).
func (s *Store) Update(ctx context.Context, seen core.Lease, same core.Same, set core.Set) (core.Lease, error) {
	if !same.Valid() {
		return core.Lease{}, fmt.Errorf("condition %q: %w", same, core.ErrInvalid)
	}
	want, err := s.bind(seen.Key.Stream)
	if err != nil {
		return core.Lease{}, err
	}
	key, err := s.rowKey(seen.Key)
	if err != nil {
		return core.Lease{}, err
	}
	e := newExpression()
	e.require("attribute_exists(%s)", e.name(attrKey)) // or an update would bring a deleted lease back as a stub
	e.same(&seen, pinned(same, &set), s.stamped())
	if set.Run != "" && want != "" {
		stamp := e.name(attrStream)
		e.require("(attribute_not_exists(%s) OR %s = %s)", stamp, stamp, e.value(text(string(want))))
	}
	if err := e.apply(&seen, same, &set, want); err != nil {
		return core.Lease{}, fmt.Errorf("lease %s: %w", seen.Key, err)
	}
	out, err := call(ctx, s, once("UpdateItem"), s.updates.once, &dynamodb.UpdateItemInput{
		TableName: &s.table, Key: Attributes{attrKey: text(key)},
		ConditionExpression: e.condition(), UpdateExpression: e.update(),
		ExpressionAttributeNames: e.attributeNames(), ExpressionAttributeValues: e.placeholders(),
		ReturnValues: types.ReturnValueAllNew, ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	if err != nil {
		return core.Lease{}, s.refused(ctx, seen.Key, want, err)
	}
	l, err := s.lease(out.Attributes, want)
	if err != nil && same&core.SameCounter != 0 {
		return set.Apply(seen), nil // it was applied; a column that somebody spoiled meanwhile shows at the next reading
	}
	return l, err
}

// Delete implements [core.LeaseStore].
func (s *Store) Delete(ctx context.Context, seen core.Lease, same core.Same) error {
	if !same.Valid() {
		return fmt.Errorf("condition %q: %w", same, core.ErrInvalid)
	}
	want, err := s.bind(seen.Key.Stream)
	if err != nil {
		return err
	}
	key, err := s.rowKey(seen.Key)
	if err != nil {
		return err
	}
	e := newExpression()
	e.same(&seen, same, s.stamped())
	condition := e.condition()
	if condition != nil { // a row that is gone is no refusal
		condition = new(fmt.Sprintf("attribute_not_exists(%s) OR (%s)", e.name(attrKey), *condition))
	}
	_, err = call(ctx, s, once("DeleteItem"), s.client.DeleteItem, &dynamodb.DeleteItemInput{
		TableName: &s.table, Key: Attributes{attrKey: text(key)}, ConditionExpression: condition,
		ExpressionAttributeNames: e.attributeNames(), ExpressionAttributeValues: e.placeholders(),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	if err == nil {
		return nil
	}
	if err = s.refused(ctx, seen.Key, want, err); errors.Is(err, core.ErrNotFound) && !missingTable(err) {
		return nil
	}
	return err
}

// refused finds out what stood in the way of a conditional write. Emulators, unlike the service, may not hand out the row: then it is read.
func (s *Store) refused(ctx context.Context, key core.LeaseKey, want core.StreamID, err error) error {
	failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err)
	if !ok {
		return err
	}
	row := failed.Item
	if len(row) == 0 {
		if row, err = s.read(ctx, key); errors.Is(err, core.ErrNotFound) {
			return err
		} else if err != nil {
			return &core.ConflictError{Key: key} // refused, whatever the reading says
		}
	}
	l, err := s.lease(row, want)
	switch {
	case errors.Is(err, core.ErrOtherStream):
		return err
	case err != nil:
		return &core.ConflictError{Key: key}
	}
	return &core.ConflictError{Key: l.Key, Row: &l}
}
