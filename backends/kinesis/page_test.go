package kinesis

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

func TestSizeClasses(t *testing.T) {
	last := 0
	for n := 1; n < 1<<27; n += 1 + n/50 {
		class, size := sizeClass(n)
		again, same := sizeClass(size)
		if size < n || (n > leastBody && size > n+n/4+1) || again != class || same != size || size < last {
			t.Fatalf("%d bytes: class %d of %d; of that size: class %d of %d", n, class, size, again, same)
		}
		last = size
	}
}

// A body whose length is unknown, wrong or beyond belief costs no more memory than has come.
func TestBodies(t *testing.T) {
	limitPages(t, 1<<30)
	ctx := t.Context()
	body := bytes.Repeat([]byte("x"), 100_000)
	for name, c := range map[string]struct {
		body   []byte
		length int64
		most   int // capacity
		err    bool
		isPage bool
	}{
		"length known":         {body, 100_000, 125_000, false, false},
		"length unknown":       {body, -1, 200_000, false, false},
		"empty, unknown":       {nil, -1, leastBody, false, false},
		"empty":                {nil, 0, leastBody, false, false},
		"shorter than it says": {body, 100_001, 0, true, false},
		"a boast":              {body, mostBody, 0, true, false},
		"beyond belief":        {body, mostBody + 1, 0, true, true},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p, err := fill(ctx, bytes.NewReader(c.body), c.length)
		runtime.ReadMemStats(&after)
		if (err != nil) != c.err {
			t.Fatalf("%s: %v", name, err)
		}
		if _, ok := errors.AsType[*pageError](err); ok != c.isPage {
			t.Errorf("%s: %v; is it a page's fault: %v, want %v", name, err, ok, c.isPage)
		}
		if grew := after.TotalAlloc - before.TotalAlloc; grew > 2<<20 {
			t.Errorf("%s: took %d bytes for %d", name, grew, len(c.body))
		}
		if err == nil {
			if !bytes.Equal(p.body, c.body) || cap(p.body) > c.most {
				t.Errorf("%s: %d bytes in %d", name, len(p.body), cap(p.body))
			}
			if held := PageMemory(); held != int64(cap(p.body)) {
				t.Errorf("%s: %d bytes held, want %d", name, held, cap(p.body))
			}
			p.release()
		}
		if held := PageMemory(); held != 0 {
			t.Errorf("%s: %d bytes are held after all", name, held)
		}
	}
	endless := io.LimitReader(zeros{}, 2*mostBody)
	if _, err := fill(ctx, endless, -1); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("a body without end: %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// limitPages sets the memory of all pages for one test.
func limitPages(t *testing.T, n int64) {
	former := pageMemory.Load()
	SetPageMemory(n)
	t.Cleanup(func() { pageMemory.Store(former) })
}

func TestPagesWaitForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limitPages(t, 1<<20)
		big := strings.Repeat("x", 700<<10)
		first, err := fill(t.Context(), strings.NewReader(big), int64(len(big)))
		if err != nil {
			t.Fatal(err)
		}
		second := make(chan error, 1)
		read := func(ctx context.Context) {
			p, err := fill(ctx, strings.NewReader(big), int64(len(big)))
			if err == nil {
				p.release()
			}
			second <- err
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go read(ctx)
		synctest.Wait()
		select {
		case err := <-second:
			t.Fatalf("two pages in the memory of one: %v", err)
		default:
		}
		time.Sleep(2 * time.Minute)
		if err := <-second; !errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), "SetPageMemory") {
			t.Errorf("after a minute: %v", err)
		}
		go read(t.Context())
		synctest.Wait()
		first.release()
		if err := <-second; err != nil {
			t.Errorf("with memory free: %v", err)
		}
		huge := strings.Repeat("x", 3<<20) // more than there is: alone it is read
		p, err := fill(t.Context(), strings.NewReader(huge), int64(len(huge)))
		if err != nil {
			t.Fatal(err)
		}
		p.release()
		if n := PageMemory(); n != 0 {
			t.Errorf("%d bytes are still held", n)
		}
	})
}

// A page that nobody releases gives its share back once it is collected.
func TestLostPages(t *testing.T) {
	limitPages(t, 1<<20)
	func() {
		p, err := fill(t.Context(), strings.NewReader("xx"), 2)
		if err != nil {
			t.Fatal(err)
		}
		_ = p
	}()
	for range 100 {
		runtime.GC()
		if PageMemory() == 0 {
			return
		}
		time.Sleep(time.Millisecond) // cleanups have their own goroutine
	}
	t.Errorf("%d bytes are lost", PageMemory())
}

const twoRecords = `{"Records":[{"SequenceNumber":"1","Data":"Zmlyc3Q=","PartitionKey":"a"},{"SequenceNumber":"2","Data":"c2Vjb25k","PartitionKey":"b"}],"NextShardIterator":"x","MillisBehindLatest":0}`

// Released memory is used again, and in a build that poisons it shows who kept some.
func TestReleasedPages(t *testing.T) {
	limitPages(t, 1<<30)
	for _, on := range []bool{false, true} {
		former := poisoned
		poisoned = on
		t.Cleanup(func() { poisoned = former })
		p, err := decoded(t, []byte(twoRecords))
		if err != nil {
			t.Fatal(err)
		}
		kept, slice, cloned := p.Records[0], p.Records, p.Records[0].Clone()
		release := p.Release
		release()
		release() // a second time, while nobody has the page: nothing
		if on {
			if string(kept.Data) != strings.Repeat("\xdb", 5) || kept.Key != "\xdb" || slice[1].Key != poisonText || string(slice[0].Data) != poisonText {
				t.Errorf("kept record %+v, slice %+v: not poisoned", kept, slice)
			}
		}
		if string(cloned.Data) != "first" || cloned.Key != "a" || cloned.Sequence != "1" {
			t.Errorf("poison %v: the clone is %+v", on, cloned)
		}
		again, err := decoded(t, []byte(strings.ReplaceAll(twoRecords, "Zmlyc3Q=", "T1RIRVI=")))
		if err != nil {
			t.Fatal(err)
		}
		if string(again.Records[0].Data) != "OTHER" || len(again.Records) != 2 {
			t.Errorf("poison %v: the next page is %+v", on, again.Records)
		}
		again.Release()
	}
	if n := PageMemory(); n != 0 {
		t.Errorf("%d bytes are still held", n)
	}
}

// In steady state a page costs no memory for each record, whichever the format.
func TestRecordsAreNotAllocated(t *testing.T) {
	if poisonPages {
		t.Skip("poisoned pages are not used again")
	}
	for name, body := range map[string][]byte{"JSON": cannedJSON(10_000, 200), "CBOR": cannedCBOR(10_000, 200)} {
		resp := &http.Response{StatusCode: 200, ContentLength: int64(len(body))}
		read := func() {
			resp.Body = io.NopCloser(bytes.NewReader(body))
			e := exchange{}
			if err := e.decode(t.Context(), resp); err != nil || len(e.page.Records) != 10_000 {
				t.Fatal(err)
			}
			e.page.Release()
		}
		read()
		if n := testing.AllocsPerRun(20, read); n > 50 {
			t.Errorf("%s: %v allocations for a page of 10,000 records", name, n)
		}
	}
}

// The answers to all shards of a worker come at the same time; only some of them may be in memory half read, and all come in their turn.
func TestAnswersComeInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limitPages(t, 8<<20)
		const answers = 50
		body := cannedJSON(200, 1000) // 300 kB
		pour := make(chan struct{})
		var begun, done atomic.Int64
		var wg sync.WaitGroup
		for range answers {
			wg.Go(func() {
				slow := readerFunc(func(p []byte) (int, error) { begun.Add(1); <-pour; return 0, io.EOF })
				e := exchange{}
				err := e.decode(t.Context(), &http.Response{ContentLength: int64(len(body)), Body: io.NopCloser(io.MultiReader(bytes.NewReader(body[:1]), slow, bytes.NewReader(body[1:])))})
				if err != nil || len(e.page.Records) != 200 {
					t.Errorf("%v", err)
					return
				}
				done.Add(1)
				e.page.Release()
			})
		}
		synctest.Wait()
		if n := begun.Load(); n != 3 { // of 300 kB in the eighth part of 8 MiB
			t.Errorf("%d answers are being read at once", n)
		}
		if n := PageMemory(); n > 8<<20/arrivingPart*5/4 { // sizes of buffers are rounded up
			t.Errorf("%d bytes of pages", n)
		}
		// One that waits for its turn for too long fails, and may be asked for again.
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		e := exchange{}
		if err := e.decode(ctx, &http.Response{ContentLength: int64(len(body)), Body: http.NoBody}); !errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), "SetPageMemory") {
			t.Errorf("without a turn: %v", err)
		}
		close(pour)
		wg.Wait()
		if n := done.Load(); n != answers {
			t.Errorf("%d of %d answers were read", n, answers)
		}
		// What is larger than all of it comes alone.
		huge := cannedJSON(3000, 1000)
		if err := e.decode(t.Context(), &http.Response{ContentLength: int64(len(huge)), Body: io.NopCloser(bytes.NewReader(huge))}); err != nil {
			t.Fatal(err)
		}
		e.page.Release()
	})
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
