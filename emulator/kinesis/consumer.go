package kinesis

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// What the API reference of RegisterStreamConsumer allows.
const (
	defaultConsumers  = 20 // of a stream
	consumersCreating = 5  // of a stream at once
)

// consumer is a registered consumer of a stream. The server's lock guards it.
type consumer struct {
	name    string
	created int64 // ms; differs by a second or more from that of any other of the name, as the second is part of the ARN
	tags    map[string]string

	// As of a stream: a state other than ACTIVE lasts until due.
	state string
	due   int64

	subscriptions map[string]*subscription // the latest of each shard, by shard id; it may be over
}

// settleConsumers brings the states of a stream's consumers up to the present.
func (st *stream) settleConsumers(now int64) {
	for name, k := range st.consumers {
		switch {
		case k.state == stateActive || now < k.due:
		case k.state == stateDeleting:
			delete(st.consumers, name)
		default:
			k.state = stateActive
		}
	}
}

func (s *Server) consumerARN(st *stream, k *consumer) string {
	return s.arnOf(st.name) + "/consumer/" + k.name + ":" + strconv.FormatInt(k.created/1000, 10)
}

// consumerRef names a consumer in a request: by its ARN, or by its name and the stream's ARN.
type consumerRef struct {
	ConsumerARN  *string
	ConsumerName *string
	StreamARN    *string
	StreamId     *string // refused: the API reference says of it that the service does not take it yet
}

// aim tells faults the stream.
func (r *consumerRef) aim(s *Server) target {
	arn := r.StreamARN
	if r.ConsumerARN != nil {
		stream, _, _, ok := cutConsumerARN(*r.ConsumerARN)
		if !ok {
			return target{}
		}
		arn = &stream
	}
	return (&streamRef{StreamARN: arn}).aim(s)
}

var consumerARNPattern = regexp.MustCompile(`^arn:aws.*:kinesis:[^:]*:\d{12}:stream/[a-zA-Z0-9_.-]+/consumer/[a-zA-Z0-9_.-]+:\d+$`)

// cutConsumerARN takes apart what consumerARN puts together.
func cutConsumerARN(arn string) (streamARN, name string, epoch int64, ok bool) {
	if !consumerARNPattern.MatchString(arn) {
		return "", "", 0, false
	}
	streamARN, rest, _ := strings.Cut(arn, "/consumer/")
	name, digits, _ := strings.Cut(rest, ":")
	epoch, err := strconv.ParseInt(digits, 10, 64)
	return streamARN, name, epoch, err == nil
}

func (v *validation) consumerARN(arn *string) {
	v.text("consumerARN", arn, 1, 2048)
	if arn != nil && *arn != "" && !consumerARNPattern.MatchString(*arn) {
		v.add("consumerARN", quote(*arn), `Member must satisfy regular expression pattern: ^(arn):aws.*:kinesis:.*:\d{12}:.*stream\/[a-zA-Z0-9_.-]+\/consumer\/[a-zA-Z0-9_.-]+:[0-9]+`)
	}
}

func (v *validation) consumer(r consumerRef) {
	v.consumerARN(r.ConsumerARN)
	v.name("consumerName", r.ConsumerName, false)
	v.stream(streamRef{StreamARN: r.StreamARN, StreamId: r.StreamId})
}

// findConsumer gives the consumer a request means, whatever its state. The server is locked by the caller.
func (s *Server) findConsumer(r consumerRef, now int64) (*stream, *consumer, error) {
	var name string
	epoch := int64(-1)
	streamARN := r.StreamARN
	switch {
	case r.ConsumerARN != nil:
		of, n, e, ok := cutConsumerARN(*r.ConsumerARN)
		if !ok {
			return nil, nil, invalidArgument("ConsumerARN %s is not the ARN of a consumer.", *r.ConsumerARN)
		}
		if streamARN != nil && *streamARN != of || r.ConsumerName != nil && *r.ConsumerName != n {
			return nil, nil, invalidArgument("ConsumerARN %s is of another consumer than the StreamARN and ConsumerName that are given, too.", *r.ConsumerARN)
		}
		name, epoch, streamARN = n, e, &of
	case streamARN != nil && r.ConsumerName != nil:
		name = *r.ConsumerName
	default:
		return nil, nil, invalidArgument("Must specify either ConsumerARN or both StreamARN and ConsumerName.")
	}
	st, err := s.find(streamRef{StreamARN: streamARN}, now)
	if err != nil {
		return nil, nil, err
	}
	k := st.consumers[name]
	if k == nil || epoch >= 0 && k.created/1000 != epoch {
		return nil, nil, s.noSuchConsumer(st, name)
	}
	return st, k, nil
}

func (s *Server) noSuchConsumer(st *stream, name string) *apiError {
	return notFound("Consumer %s of stream %s under account %s not found.", name, st.name, s.config.Account)
}

// consumerView is a copy of what the answers say about a consumer.
type consumerView struct {
	name, arn, state string
	created          int64
}

func (s *Server) consumerView(st *stream, k *consumer) consumerView {
	return consumerView{name: k.name, arn: s.consumerARN(st, k), state: k.state, created: k.created}
}

func (w *writer) consumer(v consumerView) {
	w.textField("ConsumerName", v.name)
	w.textField("ConsumerARN", v.arn)
	w.textField("ConsumerStatus", v.state)
	w.timeField("ConsumerCreationTimestamp", v.created)
}

// roomForConsumer says whether the stream's limits admit one more.
func (s *Server) roomForConsumer(st *stream) error {
	creating := 0
	for _, k := range st.consumers {
		if k.state == stateCreating {
			creating++
		}
	}
	var why string
	switch {
	case len(st.consumers) >= s.config.ConsumerLimit:
		why = fmt.Sprintf("it has %d consumers, the most a stream can have", len(st.consumers))
	case creating >= consumersCreating:
		why = fmt.Sprintf("%d consumers are being created, the most at a time", creating)
	default:
		return nil
	}
	return limitExceeded("A consumer can't be registered with stream %s under account %s: %s.", st.name, s.config.Account, why)
}
