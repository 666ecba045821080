package glue

import (
	"bytes"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"sync"
)

// inflater is what decompressing needs, kept for the next payload.
type inflater struct {
	z   io.ReadCloser // a zlib.Resetter
	out bytes.Buffer
}

var inflaters = sync.Pool{New: func() any { return new(inflater) }}

// mostKept is how large a buffer is kept, in bytes.
const mostKept = 1 << 20

// inflate undoes the compression of a payload. What comes behind the stream is left, as Java leaves it; a stream that was cut, on which Java
// hangs, is an error, and so is one that takes more memory than there is.
func inflate(body []byte, mem *budget) ([]byte, error) {
	i := inflaters.Get().(*inflater)
	defer func() {
		if i.out.Reset(); i.out.Cap() <= mostKept {
			inflaters.Put(i)
		}
	}()
	err := i.run(body, int64(mem.left)+1)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, errors.New("its zlib stream was cut")
	case err != nil:
		return nil, fmt.Errorf("it is marked as compressed and cannot be decompressed: %w", err)
	}
	if err := mem.take(i.out.Len()); err != nil {
		return nil, err
	}
	return append(make([]byte, 0, i.out.Len()), i.out.Bytes()...), nil
}

// run decompresses up to most bytes.
func (i *inflater) run(body []byte, most int64) (err error) {
	in := bytes.NewReader(body)
	if i.z == nil {
		i.z, err = zlib.NewReader(in)
	} else {
		err = i.z.(zlib.Resetter).Reset(in, nil)
	}
	if err == nil {
		_, err = i.out.ReadFrom(io.LimitReader(i.z, most))
	}
	return err
}
