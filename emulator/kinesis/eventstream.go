package kinesis

import (
	"encoding/binary"
	"hash/crc32"
)

// The frames of a subscription: vnd.amazon.event-stream, as the Smithy specification lays it out.
//
//	total length, headers' length, CRC32 of these two     4 bytes each, highest byte first
//	headers                                                name length (1), name, type (1), value length (2), value
//	payload
//	CRC32 of all before it                                 4 bytes

const (
	eventStreamType = "application/vnd.amazon.eventstream"

	headerString  = 7 // the type of a header's value; the only one used here
	framePrelude  = 12
	frameChecksum = 4
)

// beginFrame appends a frame up to its payload, which the caller appends; endFrame completes it.
func beginFrame(b []byte, headers ...string) []byte {
	from := len(b)
	b = append(b, make([]byte, framePrelude)...)
	for i := 0; i < len(headers); i += 2 {
		name, value := headers[i], headers[i+1]
		b = append(append(b, byte(len(name))), name...)
		b = append(b, headerString)
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(value))), value...)
	}
	binary.BigEndian.PutUint32(b[from+4:], uint32(len(b)-from-framePrelude))
	return b
}

// endFrame completes the frame that begins at from.
func endFrame(b []byte, from int) []byte {
	f := b[from:]
	binary.BigEndian.PutUint32(f, uint32(len(f)+frameChecksum))
	binary.BigEndian.PutUint32(f[8:], crc32.ChecksumIEEE(f[:8]))
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(f))
}

func beginEvent(b []byte, kind string) []byte {
	return beginFrame(b, ":event-type", kind, ":content-type", jsonType, ":message-type", "event")
}

// appendInitialResponse is the event that every stream begins with; clients of the Go SDK and botocore insist on it.
func appendInitialResponse(b []byte) []byte {
	from := len(b)
	return endFrame(append(beginEvent(b, "initial-response"), '{', '}'), from)
}

// appendException is an error as the last event of a stream.
func appendException(b []byte, e *apiError) []byte {
	from := len(b)
	b = beginFrame(b, ":exception-type", e.code, ":content-type", jsonType, ":message-type", "exception")
	w := writer{b: append(b, '{')}
	w.textField("message", e.message)
	return endFrame(append(w.b, '}'), from)
}
