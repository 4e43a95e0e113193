// Package sse reads server-sent events of vendors (WHATWG HTML, section 9.2.6) with bounded memory. The dialects read
// events with it.
package sse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"switchyard.dev/services/gateway/internal/capacity/memory"
)

const (
	// MaxEvent bounds one event in bytes: the data of an image fits.
	MaxEvent = 16 << 20
	// MaxStream bounds a stream in bytes, whatever its content: many times the size of the longest answers.
	MaxStream = 256 << 20
	// maxName bounds the name of an event in bytes; the rest is cut off.
	maxName = 128
	// maxID bounds the ID of an event in bytes; a longer one is left out.
	maxID = 1024
)

// Errors of a stream. Those of lower bounds are the same.
var (
	ErrTooLarge = errors.New("server-sent event is larger than 16 MiB")
	ErrEndless  = errors.New("stream is larger than 256 MiB")
)

// Event is one event. Data is valid until the next call of Next.
type Event struct {
	// Name is the value of the event field; empty for a plain message.
	Name string
	// Data holds the data lines, joined by newlines.
	Data []byte
}

// Reader reads events from a response body. Not safe for concurrent use.
type Reader struct {
	source     io.Reader
	buf        []byte
	start, end int
	skipLF     bool // The last line ended in CR: a LF that follows belongs to it.
	data       []byte
	names      map[string]string // names seen so far; a stream has few
	total      int
	err        error

	maxEvent, maxStream int
	// id and retry are the latest values of those fields.
	id    []byte
	retry time.Duration

	// hold is charged for buffers beyond the first; charged is the size of the largest so far.
	hold    *memory.Hold
	charged int
}

// Charge makes the reader charge h for its buffers; Next fails with memory.ErrFull if there is no memory. It returns
// the reader.
func (r *Reader) Charge(h *memory.Hold) *Reader {
	r.hold = h
	return r
}

// Bound lowers the bounds of an event and of the stream, in bytes. It returns the reader.
func (r *Reader) Bound(event, stream int) *Reader {
	r.maxEvent, r.maxStream = min(event, MaxEvent), min(stream, MaxStream)
	return r
}

// Resumption returns where a stream that has ended may be taken up again: the ID of the latest event that had one, and
// how long to wait, as the sender said; empty and 0 where it said nothing.
func (r *Reader) Resumption() (id string, wait time.Duration) { return string(r.id), r.retry }

// reserve charges for a buffer of n bytes.
func (r *Reader) reserve(n int) error {
	if n <= max(r.charged, firstBuffer) {
		return nil
	}
	if err := r.hold.Charge(n - r.charged); err != nil {
		return err
	}
	r.charged = n
	return nil
}

// Size returns the number of bytes of the stream that have been read.
func (r *Reader) Size() int { return r.total }

const firstBuffer = 4 << 10

// maxNames bounds the number of names that are kept.
const maxNames = 64

// name returns an event's name without allocating a new string for each event.
func (r *Reader) name(value []byte) string {
	value = value[:min(len(value), maxName)]
	if name, ok := r.names[string(value)]; ok {
		return name
	}
	name := string(value)
	if r.names == nil {
		r.names = make(map[string]string)
	}
	if len(r.names) < maxNames {
		r.names[name] = name
	}
	return name
}

// NewReader returns a Reader of r.
func NewReader(r io.Reader) *Reader {
	return &Reader{source: r, buf: make([]byte, firstBuffer), maxEvent: MaxEvent, maxStream: MaxStream}
}

// Next returns the next event that has data. At the end it returns io.EOF. An event that the end cuts off before its
// blank line is still returned, because some vendors omit that line.
func (r *Reader) Next() (Event, error) {
	var event Event
	r.data = r.data[:0]
	hasData := false
	for {
		line, err := r.line()
		if err != nil {
			if errors.Is(err, io.EOF) && hasData {
				event.Data = r.data
				return event, nil
			}
			return Event{}, err
		}
		if len(line) == 0 {
			if hasData {
				event.Data = r.data
				return event, nil
			}
			event = Event{}
			continue
		}
		field, value, _ := bytes.Cut(line, []byte{':'})
		value = bytes.TrimPrefix(value, []byte{' '})
		switch string(field) {
		case "data":
			if hasData {
				if err := r.append([]byte{'\n'}); err != nil {
					return Event{}, err
				}
			}
			hasData = true
			if err := r.append(value); err != nil {
				return Event{}, err
			}
		case "event":
			event.Name = r.name(value)
		case "id":
			if len(value) <= maxID && !bytes.ContainsRune(value, 0) {
				r.id = append(r.id[:0], value...)
			}
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				r.retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
}

// Buffered reports whether Next returns without reading from the source: an event with data is in the buffer whole, or
// the source has ended.
func (r *Reader) Buffered() bool {
	if r.err != nil {
		return true
	}
	text := r.buf[r.start:r.end]
	if r.skipLF {
		text = bytes.TrimPrefix(text, []byte{'\n'})
	}
	for hasData := false; ; {
		end := lineEnd(text)
		switch {
		case end < 0:
			return false
		case end == 0 && hasData:
			return true
		}
		field, _, _ := bytes.Cut(text[:end], []byte{':'})
		hasData = string(field) == "data" || hasData && end > 0
		next := text[end+1:]
		if text[end] == '\r' {
			next = bytes.TrimPrefix(next, []byte{'\n'})
		}
		text = next
	}
}

// append appends to the event's data, and doubles the buffer if it is full.
func (r *Reader) append(value []byte) error {
	size := len(r.data) + len(value)
	if size > r.maxEvent {
		return ErrTooLarge
	}
	if size > cap(r.data) {
		capacity := min(max(2*cap(r.data), size), r.maxEvent)
		if err := r.reserve(capacity); err != nil {
			return err
		}
		r.data = append(make([]byte, 0, capacity), r.data...)
	}
	r.data = append(r.data, value...)
	return nil
}

// line returns the next line without its end (LF, CR or CRLF). It is valid until the next call.
func (r *Reader) line() ([]byte, error) {
	searched := 0
	for {
		if r.skipLF && r.start < r.end {
			if r.buf[r.start] == '\n' {
				r.start++
			}
			r.skipLF = false
		}
		if i := lineEnd(r.buf[r.start+searched : r.end]); i >= 0 {
			line := r.buf[r.start : r.start+searched+i]
			r.skipLF = r.buf[r.start+searched+i] == '\r'
			r.start += searched + i + 1
			return line, nil
		}
		searched = r.end - r.start
		if r.err != nil {
			return r.rest()
		}
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
}

// lineEnd returns the index of the first CR or LF, or -1. Two searches for one byte each are faster than one for
// either. It searches in blocks, so that the text up to a distant LF isn't searched again for each of many CRs.
func lineEnd(text []byte) int {
	const size = 512
	for from := 0; from < len(text); from += size {
		block := text[from:min(from+size, len(text))]
		lf := bytes.IndexByte(block, '\n')
		if lf >= 0 {
			block = block[:lf]
		}
		if cr := bytes.IndexByte(block, '\r'); cr >= 0 {
			return from + cr
		}
		if lf >= 0 {
			return from + lf
		}
	}
	return -1
}

// rest returns the text after the last line end, then the source's error.
func (r *Reader) rest() ([]byte, error) {
	if r.start < r.end {
		line := r.buf[r.start:r.end]
		r.start = r.end
		return line, nil
	}
	return nil, r.err
}

// fill reads once, after making room.
func (r *Reader) fill() error {
	if r.start > 0 {
		copy(r.buf, r.buf[r.start:r.end])
		r.start, r.end = 0, r.end-r.start
	}
	if r.end == len(r.buf) {
		if len(r.buf) >= r.maxEvent {
			return ErrTooLarge
		}
		if err := r.reserve(2 * len(r.buf)); err != nil {
			return err
		}
		r.buf = append(r.buf, make([]byte, len(r.buf))...)
	}
	n, err := r.source.Read(r.buf[r.end:])
	r.end += n
	if r.total += n; r.total > r.maxStream {
		return ErrEndless
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("read events: %w", err)
	} else if err != nil {
		err = io.EOF
	}
	r.err = err
	return nil
}
