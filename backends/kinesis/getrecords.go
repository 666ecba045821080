package kinesis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/smithy-go"
)

// wire is how pages are asked for and decoded. A source only ever goes on to the next.
type wire uint32

const (
	wireCBOR  wire = iota // our decoder, the service's binary format
	wireJSON              // our decoder
	wireStock             // the SDK's decoder
)

var wireNames = [...]string{"CBOR", "JSON", "JSON, the SDK's decoder"}

// PageCounts says how the pages of a source were decoded. All but Wire only grow.
type PageCounts struct {
	CBOR  int64 // by our decoder
	JSON  int64 // by our decoder
	Stock int64 // by the SDK's decoder
	// Fallbacks is how often the source went on to a more careful way for good: from CBOR to JSON, from JSON to the SDK's decoder.
	Fallbacks int64
	Wire      string // how the next page is asked for
}

// Pages says how the pages that were read so far were decoded.
func (s *Source) Pages() PageCounts {
	return PageCounts{
		CBOR: s.pages.decoded[wireCBOR].Load(), JSON: s.pages.decoded[wireJSON].Load(), Stock: s.pages.decoded[wireStock].Load(),
		Fallbacks: s.pages.fallbacks.Load(), Wire: wireNames[s.pages.wire.Load()],
	}
}

// wires is what a source has found out about its service.
type wires struct {
	wire      atomic.Uint32
	decoded   [3]atomic.Int64
	fallbacks atomic.Int64
	silent    atomic.Int32 // failures of the service in a row, before there was any good answer in CBOR
}

// mutes is how many failures in a row, before the first good answer, mean that the service does not know CBOR: moto answers it with a bare
// 500, as does the service when it fails.
const mutes = 3

// fallBack goes on from one wire to the next, for good.
func (s *Source) fallBack(ctx context.Context, from wire, why error) {
	if s.pages.wire.CompareAndSwap(uint32(from), uint32(from+1)) {
		s.pages.fallbacks.Add(1)
		s.log.WarnContext(ctx, "pages are asked for in another way from now on", "stream", s.name.stream, "from", wireNames[from], "to", wireNames[from+1], "error", why)
	}
}

// request is one GetRecords.
type request struct {
	iterator string
	arn      *string
	limit    int32
}

func (q request) sdk() *sdk.GetRecordsInput {
	return &sdk.GetRecordsInput{ShardIterator: aws.String(q.iterator), StreamARN: q.arn, Limit: &q.limit}
}

var contentTypes = [...]string{"application/x-amz-cbor-1.1", "application/x-amz-json-1.1"}

// body is the request as it is sent.
func (q request) body(w wire) []byte {
	b := make([]byte, 0, len(q.iterator)+160)
	if w == wireCBOR {
		b = append(b, cborMap<<5|byte(2))
		if q.arn != nil {
			b[0]++
			b = appendCBORText(appendCBORText(b, "StreamARN"), *q.arn)
		}
		b = appendCBORText(appendCBORText(b, "ShardIterator"), q.iterator)
		b = appendCBORText(b, "Limit")
		return appendCBORHead(b, cborUint, uint64(q.limit))
	}
	b = append(b, '{')
	if q.arn != nil {
		b = append(appendJSONText(append(b, `"StreamARN":`...), *q.arn), ',')
	}
	b = append(appendJSONText(append(b, `"ShardIterator":`...), q.iterator), `,"Limit":`...)
	return append(strconv.AppendInt(b, int64(q.limit), 10), '}')
}

func appendCBORHead(b []byte, major byte, n uint64) []byte {
	switch {
	case n < 24:
		return append(b, major<<5|byte(n))
	case n < 1<<8:
		return append(b, major<<5|24, byte(n))
	case n < 1<<16:
		return append(b, major<<5|25, byte(n>>8), byte(n))
	}
	return append(b, major<<5|26, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}

func appendCBORText(b []byte, s string) []byte {
	return append(appendCBORHead(b, cborText, uint64(len(s))), s...)
}

func appendJSONText(b []byte, s string) []byte {
	for i := range len(s) {
		if ch := s[i]; ch < 0x20 || ch >= 0x7f || ch == '"' || ch == '\\' {
			q, _ := json.Marshal(s) // a string always can be
			return append(b, q...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// getRecords makes one call, bounded in time, and gives what goes wrong a kind.
func (s *Source) getRecords(ctx context.Context, q request) (*page, error) {
	bounded, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	w := wire(s.pages.wire.Load())
	p, err := s.fetch(bounded, q, w)
	if w == wireCBOR && refusesCBOR(err) { // nothing is known yet of the request itself
		p, err = s.fetch(bounded, q, wireJSON)
	}
	if err != nil {
		return nil, s.failed(ctx, "GetRecords", err)
	}
	return p, nil
}

// fetch goes the shortest way that the source's client allows: without the SDK's stack, through it with our decoder, or all through the SDK.
func (s *Source) fetch(ctx context.Context, q request, w wire) (*page, error) {
	if w == wireStock {
		out, err := s.client.GetRecords(ctx, q.sdk())
		if err != nil {
			return nil, err
		}
		s.pages.decoded[w].Add(1)
		return stockPage(out)
	}
	e := exchange{request: q, wire: w}
	var err error
	if again, ok := s.sender.Ready(); ok {
		err = s.directly(ctx, again, &e)
	} else {
		err = s.viaSDK(ctx, &e)
	}
	s.learn(ctx, &e, err)
	if err != nil {
		return nil, err
	}
	s.pages.decoded[e.got].Add(1)
	return e.page, nil
}

// exchange is one GetRecords in our own encoding: what is sent, and what comes of it.
type exchange struct {
	request
	wire   wire
	page   *page
	got    wire // what the answer was written in
	status int
}

// decode makes the page of a good answer. What it is written in shows by its first byte, which is safer than what emulators say it is.
func (e *exchange) decode(ctx context.Context, resp *http.Response) error {
	leave, err := arrive(ctx, resp.ContentLength)
	if err != nil {
		return err
	}
	defer leave()
	p, err := fill(ctx, resp.Body, resp.ContentLength)
	if err != nil {
		return err
	}
	e.got = wireJSON
	if len(p.body) > 0 && p.body[0]>>5 == cborMap {
		e.got = wireCBOR
		err = p.decodeCBOR()
	} else {
		err = p.decodeJSON()
	}
	if err != nil {
		p.release()
		return &pageError{err}
	}
	p.finish()
	e.page = p
	return nil
}

// learn looks at what an exchange says about how the service wants to be spoken to.
func (s *Source) learn(ctx context.Context, e *exchange, err error) {
	_, isPage := errors.AsType[*pageError](err)
	switch {
	case isPage:
		// The bytes are spoilt by decoding them, so the next call, not this one, is made in another way.
		s.fallBack(ctx, e.wire, err)
	case e.wire != wireCBOR:
	case err == nil && e.got == wireCBOR:
		s.pages.silent.Store(0)
	case err == nil:
		s.fallBack(ctx, wireCBOR, errors.New("the answer is not CBOR"))
	case refusesCBOR(err):
		s.fallBack(ctx, wireCBOR, err)
	case e.status >= 500 && s.pages.decoded[wireCBOR].Load() == 0 && s.pages.silent.Add(1) >= mutes:
		s.fallBack(ctx, wireCBOR, fmt.Errorf("no good answer in %d attempts: %w", mutes, err))
	}
}

// refusesCBOR reports whether an error says that the service did not understand the request.
func refusesCBOR(err error) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && (api.ErrorCode() == "SerializationException" || api.ErrorCode() == "UnknownOperationException")
}
