package kinesis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"runtime"
	"sync"
	"unsafe"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardwarden/shardwarden/core"
)

// page is one answer of GetRecords. One that our own decoders made keeps everything in a buffer: the records' data, keys and numbers are views
// of it, and are gone once the page is released. The page itself is not used again, since whoever had it may still look whether it was the
// last.
type page struct {
	core.Page
	next     string // the next iterator, a view of body; empty: there is none
	children []types.ChildShard
	read     int // bytes of data and keys, as the service's limits count them

	*buffer // nil: released
}

// buffer is the memory of one page after the other.
type buffer struct {
	body    []byte
	records []core.Record // what Records is cut from
	held    *reservation
}

// recordBytes is what a record takes beside its bytes in body.
const recordBytes = int(unsafe.Sizeof(core.Record{}))

// Sizes of body. A page of 10 MB of records is 14 MB in JSON, more with long keys full of escapes; what claims to be larger than mostBody is no
// page. A length is believed up to trustedBody, beyond that memory follows what has really come.
const (
	leastBody   = 4 << 10
	trustedBody = 24 << 20
	mostBody    = 96 << 20
)

// pools keep the buffers of released pages by the size of their bodies, four sizes to a power of two, until the garbage collector wants them:
// shards that are idle share a few small ones.
var pools [4 * 64]sync.Pool

// sizeClass is the least class whose bodies hold n bytes, and their size.
func sizeClass(n int) (class, size int) {
	n = max(n, leastBody)
	step := bits.Len(uint(n-1)) - 3 // four steps to a power of two
	quarters := (n - 1) >> step     // 4 to 7
	return step*4 + quarters - 4, (quarters + 1) << step
}

// newPage makes a page whose body has room for n bytes, with a buffer that was released if there is one.
func newPage(n int) *page {
	class, size := sizeClass(n)
	b, ok := pools[class].Get().(*buffer)
	if !ok {
		b = &buffer{body: make([]byte, 0, size), held: &reservation{}}
		// A page that nobody releases is collected some day; what it had of the memory that all pages share comes back then.
		runtime.AddCleanup(b, (*reservation).cancel, b.held)
	}
	p := &page{buffer: b}
	p.Release = p.release
	return p
}

// release is core.Page.Release. A second time does nothing.
func (p *page) release() {
	b := p.buffer
	if b == nil {
		return
	}
	p.buffer = nil
	b.held.cancel()
	if poisoned {
		b.poison()
		return // never used again: what still looks at it must find the poison
	}
	clear(b.records)
	b.records, b.body = b.records[:0], b.body[:0]
	class, _ := sizeClass(cap(b.body))
	pools[class].Put(b)
}

// fill is a page with what r gives, of which there are n bytes; n below 0: unknown. It waits for memory as long as ctx lives.
func fill(ctx context.Context, r io.Reader, n int64) (*page, error) {
	if n > mostBody {
		return nil, &pageError{fmt.Errorf("the answer is %d bytes long, more than any page can be", n)}
	}
	size := int(n)
	if n < 0 || n > trustedBody {
		size = leastBody
	}
	p := newPage(size)
	for {
		if err := p.held.take(ctx, cap(p.body)); err != nil {
			p.release()
			return nil, err
		}
		body := p.body[:cap(p.body)]
		if n >= 0 && n <= int64(len(body)) {
			body = body[:n]
		}
		got, err := io.ReadFull(r, body[len(p.body):])
		p.body = body[:len(p.body)+got]
		switch {
		case n >= 0 && int64(len(p.body)) == n:
			return p, nil
		case err != nil && n < 0 && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)):
			return p, nil
		case err != nil:
			err = fmt.Errorf("the answer broke off after %d bytes: %w", len(p.body), err)
			p.release()
			return nil, err
		case len(p.body) >= mostBody:
			p.release()
			return nil, &pageError{fmt.Errorf("the answer is longer than %d bytes, more than any page can be", mostBody)}
		}
		bigger := newPage(2 * cap(p.body))
		bigger.body = append(bigger.body[:0], p.body...)
		p.release()
		p = bigger
	}
}

// finish completes a page that was decoded.
func (p *page) finish() {
	p.Records = p.records
	p.Bytes = cap(p.body) + cap(p.records)*recordBytes
	p.held.more(cap(p.records) * recordBytes)
}

// pageError says that an answer came whole and is no page. Another attempt is made in a more careful way.
type pageError struct{ err error }

func (e *pageError) Error() string { return "answer of GetRecords cannot be read: " + e.err.Error() }
func (e *pageError) Unwrap() error { return e.err }

var errNoSequence = errors.New("a record has no sequence number")

// stockPage makes a page of what the SDK decoded: one allocation for all records, which point into the SDK's memory. Nothing is reused, so
// there is nothing to release.
func stockPage(out *sdk.GetRecordsOutput) (*page, error) {
	p := &page{next: aws.ToString(out.NextShardIterator), children: out.ChildShards, buffer: &buffer{}}
	p.Lag = -1
	if ms := out.MillisBehindLatest; ms != nil {
		p.Lag = lag(*ms)
	}
	if len(out.Records) == 0 {
		return p, nil
	}
	p.Records = make([]core.Record, len(out.Records))
	for i := range out.Records {
		in, r := &out.Records[i], &p.Records[i]
		r.Data, r.Key, r.Sequence = in.Data, aws.ToString(in.PartitionKey), aws.ToString(in.SequenceNumber)
		if r.Sequence == "" {
			return nil, errNoSequence
		}
		if t := in.ApproximateArrivalTimestamp; t != nil {
			r.Arrived = t.UnixMilli()
		}
		p.read += len(r.Data) + len(r.Key)
		p.Bytes += len(r.Data) + len(r.Key) + len(r.Sequence) + recordBytes
	}
	return p, nil
}
