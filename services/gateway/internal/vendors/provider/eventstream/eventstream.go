// Package eventstream reads event streams of AWS (application/vnd.amazon.eventstream) with bounded memory. Source: smithy.io,
// "Amazon Event Stream specification". AWS's own decoder has no upper bound of a message, takes quadratic time for its
// headers, and reports a message that is cut off as the end of the stream.
package eventstream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"switchyard.dev/services/gateway/internal/capacity/memory"
)

// MediaType is the media type of event streams.
const MediaType = "application/vnd.amazon.eventstream"

const (
	// MaxMessage bounds one message, with its frame, and maxHeaders its headers, in bytes: the largest that the
	// specification allows.
	MaxMessage = 16 << 20
	maxHeaders = 128 << 10
	// MaxStream bounds a stream in bytes, whatever its content: many times the size of the longest answers.
	MaxStream = 256 << 20

	firstBuffer = 4 << 10
)

// Parts of a message: the prelude holds the lengths of message and headers and its own checksum. Behind it are the
// headers, the payload and the checksum of all before it.
const (
	preludeSize  = 12
	checksumSize = 4
)

// Errors of a stream.
var (
	ErrTooLarge = errors.New("event stream message is larger than 16 MiB, or its headers than 128 KiB")
	ErrEndless  = errors.New("event stream is larger than 256 MiB")
	ErrBroken   = errors.New("event stream message is not well-formed")
	ErrChecksum = errors.New("event stream message does not match its checksum")
)

// Message is one message.
type Message struct {
	// Type is "event", "exception" or "error".
	Type string
	// Name is the name of the event or the exception, or the code of an error.
	Name string
	// Text is the text of an error.
	Text string
	// Payload is valid until the next call of Next.
	Payload []byte
}

// Reader reads messages from a response body. Not safe for concurrent use.
type Reader struct {
	source     io.Reader
	buf        []byte
	start, end int
	total      int
	err        error
	names      map[string]string // texts of headers seen so far; a stream has few
	hold       *memory.Hold
}

// NewReader returns a Reader of r.
func NewReader(r io.Reader) *Reader {
	return &Reader{source: r, buf: make([]byte, firstBuffer), names: make(map[string]string)}
}

// Charge makes the reader charge h for its buffer; Next fails with memory.ErrFull if there is no memory. It returns the
// reader.
func (r *Reader) Charge(h *memory.Hold) *Reader {
	r.hold = h
	return r
}

// Size returns the number of bytes of the stream that have been read.
func (r *Reader) Size() int { return r.total }

// Buffered reports whether Next returns without reading from the source: a message is in the buffer whole, or the source
// has ended.
func (r *Reader) Buffered() bool {
	if r.err != nil {
		return true
	}
	size, err := r.size()
	return err != nil || r.end-r.start >= size
}

// Next returns the next message. It returns io.EOF where the stream ends between two messages, and io.ErrUnexpectedEOF
// within one.
func (r *Reader) Next() (Message, error) {
	for {
		size, err := r.size()
		switch {
		case err != nil:
			return Message{}, err
		case r.end-r.start >= size:
			frame := r.buf[r.start : r.start+size]
			r.start += size
			return r.parse(frame)
		case errors.Is(r.err, io.EOF) && r.start < r.end:
			return Message{}, io.ErrUnexpectedEOF
		case r.err != nil:
			return Message{}, r.err
		}
		if err := r.fill(size); err != nil {
			return Message{}, err
		}
	}
}

// size returns the number of bytes that have to be read for the next message: those of its prelude as long as that is
// not there.
func (r *Reader) size() (int, error) {
	begun := r.buf[r.start:r.end]
	if len(begun) < preludeSize {
		return preludeSize, nil
	}
	size, headers := binary.BigEndian.Uint32(begun), binary.BigEndian.Uint32(begun[4:])
	switch {
	case crc32.ChecksumIEEE(begun[:8]) != binary.BigEndian.Uint32(begun[8:]):
		return 0, ErrChecksum
	case size > MaxMessage || headers > maxHeaders:
		return 0, ErrTooLarge
	case size < preludeSize+headers+checksumSize:
		return 0, ErrBroken
	}
	return int(size), nil
}

// fill reads once, after making room. The buffer grows with what arrives, and not with what a prelude announces.
func (r *Reader) fill(size int) error {
	if r.start > 0 {
		copy(r.buf, r.buf[r.start:r.end])
		r.start, r.end = 0, r.end-r.start
	}
	if r.end == len(r.buf) {
		capacity := min(2*len(r.buf), size) // size is larger than the buffer, or the message would be whole.
		if err := r.hold.Charge(capacity - len(r.buf)); err != nil {
			return err
		}
		r.buf = append(make([]byte, 0, capacity), r.buf...)[:capacity]
	}
	n, err := r.source.Read(r.buf[r.end:])
	r.end += n
	if r.total += n; r.total > MaxStream {
		return ErrEndless
	}
	switch {
	case errors.Is(err, io.EOF):
		r.err = io.EOF
	case err != nil:
		r.err = fmt.Errorf("read event stream: %w", err)
	}
	return nil
}

// parse reads a whole message whose prelude was checked.
func (r *Reader) parse(frame []byte) (Message, error) {
	end := len(frame) - checksumSize
	if crc32.ChecksumIEEE(frame[:end]) != binary.BigEndian.Uint32(frame[end:]) {
		return Message{}, ErrChecksum
	}
	payload := preludeSize + int(binary.BigEndian.Uint32(frame[4:]))
	m := Message{Payload: frame[payload:end]}
	for headers := frame[preludeSize:payload]; len(headers) > 0; {
		name, value, rest, ok := cutHeader(headers)
		if !ok {
			return Message{}, ErrBroken
		}
		switch headers = rest; string(name) {
		case ":message-type":
			m.Type = r.text(value)
		case ":event-type", ":exception-type", ":error-code":
			m.Name = r.text(value)
		case ":error-message":
			m.Text = string(value)
		}
	}
	return m, nil
}

// maxNames bounds the texts that are kept, and their length.
const maxNames = 64

// text returns the value of a header without allocating a new string for each message.
func (r *Reader) text(value []byte) string {
	if text, ok := r.names[string(value)]; ok {
		return text
	}
	text := string(value)
	if len(r.names) < maxNames && len(text) <= maxNames {
		r.names[text] = text
	}
	return text
}

// Types of headers.
const (
	typeTrue = iota
	typeFalse
	typeByte
	typeShort
	typeInteger
	typeLong
	typeBytes
	typeString
	typeTimestamp
	typeUUID
)

// cutHeader returns the first header's name and value, which is empty unless it is a string, and the headers behind it.
func cutHeader(headers []byte) (name, value, rest []byte, ok bool) {
	length := int(headers[0])
	if len(headers) < 1+length+1 {
		return nil, nil, nil, false
	}
	name, kind, rest := headers[1:1+length], headers[1+length], headers[2+length:]
	size := 0
	switch kind {
	case typeTrue, typeFalse:
	case typeByte:
		size = 1
	case typeShort:
		size = 2
	case typeInteger:
		size = 4
	case typeLong, typeTimestamp:
		size = 8
	case typeUUID:
		size = 16
	case typeBytes, typeString:
		if len(rest) < 2 {
			return nil, nil, nil, false
		}
		size, rest = int(binary.BigEndian.Uint16(rest)), rest[2:]
	default:
		return nil, nil, nil, false
	}
	if len(rest) < size {
		return nil, nil, nil, false
	}
	if kind == typeString {
		value = rest[:size]
	}
	return name, value, rest[size:], true
}
