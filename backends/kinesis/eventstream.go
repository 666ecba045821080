package kinesis

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/schemas"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/transport/http/protocol/awsjson"
)

// Sizes of a frame (the Smithy specification of vnd.amazon.event-stream): what claims to be larger is none.
const (
	preludeBytes  = 12 // total length, headers' length, CRC of both
	checksumBytes = 4
	mostHeaders   = 128 << 10
	mostFrame     = trustedBody
)

// frames reads the events of one subscription. One goroutine uses it.
type frames struct {
	r    *bufio.Reader
	head []byte // prelude and headers of the frame that is read
}

func newFrames(r io.Reader) *frames {
	return &frames{r: bufio.NewReaderSize(r, 4<<10)}
}

// frameError says that bytes of a subscription are no frame: damaged on the way, or not the service's.
type frameError struct{ what string }

func (e *frameError) Error() string { return "event stream: " + e.what }

// next reads a frame. It gives the page of a SubscribeToShardEvent, nil for what is to be passed over, io.EOF where the stream ends
// between two frames, and the error that the service sends instead of an event as smithy.APIError.
func (f *frames) next(ctx context.Context, w wire) (*page, error) {
	f.head = append(f.head[:0], make([]byte, preludeBytes)...)
	if _, err := io.ReadFull(f.r, f.head); err != nil {
		return nil, err // io.EOF only before the first byte
	}
	total, headers := binary.BigEndian.Uint32(f.head), binary.BigEndian.Uint32(f.head[4:])
	if got, want := crc32.ChecksumIEEE(f.head[:8]), binary.BigEndian.Uint32(f.head[8:]); got != want {
		return nil, &frameError{fmt.Sprintf("checksum of a prelude is %08x, want %08x", got, want)}
	}
	if headers > mostHeaders || total > mostFrame || total < headers+preludeBytes+checksumBytes {
		return nil, &frameError{fmt.Sprintf("a frame of %d bytes with %d of headers cannot be", total, headers)}
	}
	f.head = append(f.head, make([]byte, headers)...)
	if _, err := io.ReadFull(f.r, f.head[preludeBytes:]); err != nil {
		return nil, brokenOff(err)
	}
	m, err := parseHeaders(f.head[preludeBytes:])
	if err != nil {
		return nil, err
	}
	leave, err := arrive(ctx, int64(total-headers-preludeBytes))
	if err != nil {
		return nil, err
	}
	defer leave()
	p, err := fill(ctx, f.r, int64(total-headers-preludeBytes))
	if err != nil {
		return nil, brokenOff(err)
	}
	payload := p.body[:len(p.body)-checksumBytes]
	sum := crc32.Update(crc32.ChecksumIEEE(f.head), crc32.IEEETable, payload)
	if want := binary.BigEndian.Uint32(p.body[len(payload):]); sum != want {
		p.release()
		return nil, &frameError{fmt.Sprintf("checksum of a frame is %08x, want %08x", sum, want)}
	}
	if m.kind != "event" || m.name != "SubscribeToShardEvent" {
		defer p.release()
		return nil, f.other(m, payload)
	}
	if w == wireStock {
		defer p.release()
		return f.stock(p.body)
	}
	p.body = payload
	if err := p.decodeJSON(); err != nil {
		p.release()
		return nil, &pageError{err}
	}
	p.finish()
	return p, nil
}

// brokenOff makes an end within a frame what it is.
func brokenOff(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("event stream: broken off within a frame: %w", io.ErrUnexpectedEOF)
	}
	return err
}

// other is what a frame that is no SubscribeToShardEvent means. Events of other kinds, the initial response among them, are passed over.
func (f *frames) other(m message, payload []byte) error {
	switch m.kind {
	case "event":
		return nil
	case "exception":
		var text string
		c := jsonCursor{b: payload}
		_ = c.object(func(key []byte) error { // without a message the name has to do
			if k := string(key); k != "message" && k != "Message" || c.null() {
				return c.skip(0)
			}
			s, err := c.text()
			text = string(s)
			return err
		})
		return &smithy.GenericAPIError{Code: m.name, Message: text}
	case "error":
		return &smithy.GenericAPIError{Code: m.name, Message: m.text}
	}
	return &frameError{fmt.Sprintf("a frame has the message type %q", m.kind)}
}

// stock has a frame decoded by the SDK. rest is what comes behind the headers.
func (f *frames) stock(rest []byte) (*page, error) {
	// A protocol value of its own for each: the SDK keeps one codec for a client, and two subscriptions would race on its fields.
	v, err := awsjson.New11(schemas.Kinesis_20131202).DeserializeEventMessage(schemas.SubscribeToShardEventStream, sdk.TypeRegistry,
		io.MultiReader(bytes.NewReader(f.head), bytes.NewReader(rest)))
	if err != nil {
		return nil, &pageError{err}
	}
	e, ok := v.(*types.SubscribeToShardEvent)
	if !ok {
		return nil, &pageError{fmt.Errorf("the SDK makes %T of an event", v)}
	}
	return stockPage(&sdk.GetRecordsOutput{Records: e.Records, MillisBehindLatest: e.MillisBehindLatest, NextShardIterator: e.ContinuationSequenceNumber, ChildShards: e.ChildShards})
}

// message is what the headers of a frame say.
type message struct {
	kind string // event, exception or error
	name string // of the event, the exception or the error
	text string // of an error
}

// sizes of the values of headers by type, but for the two (6 bytes, 7 text) that say how long they are.
var headerSizes = [...]int{0, 0, 1, 2, 4, 8, -1, -1, 8, 16}

func parseHeaders(b []byte) (m message, err error) {
	bad := func(what string) (message, error) { return m, &frameError{what} }
	for len(b) > 0 {
		n := int(b[0])
		if len(b) < n+2 {
			return bad("a header's name is cut off")
		}
		name, kind := b[1:1+n], b[1+n]
		b = b[n+2:]
		if int(kind) >= len(headerSizes) {
			return bad(fmt.Sprintf("header %q has the unknown type %d", name, kind))
		}
		size := headerSizes[kind]
		if size < 0 {
			if len(b) < 2 {
				return bad(fmt.Sprintf("header %q is cut off", name))
			}
			size, b = int(binary.BigEndian.Uint16(b)), b[2:]
		}
		if len(b) < size {
			return bad(fmt.Sprintf("header %q is cut off", name))
		}
		value := b[:size]
		b = b[size:]
		switch string(name) {
		case ":message-type":
			m.kind = known(value)
		case ":event-type", ":exception-type", ":error-code":
			m.name = known(value)
		case ":error-message":
			m.text = string(value)
		}
	}
	return m, nil
}

// known is b as a string, without an allocation for what comes all the time.
func known(b []byte) string {
	switch string(b) {
	case "event":
		return "event"
	case "SubscribeToShardEvent":
		return "SubscribeToShardEvent"
	}
	return string(b)
}
