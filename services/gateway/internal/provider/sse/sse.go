// Package sse reads Server-Sent Events as vendors send them (WHATWG HTML,
// section 9.2.6), with bounded memory. The dialects pull events from it.
package sse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// MaxEvent bounds one event in bytes: the data of an image fits.
const MaxEvent = 16 << 20

// ErrTooLarge is the failure of an event beyond MaxEvent.
var ErrTooLarge = errors.New("server-sent event is larger than 16 MiB")

// Event is one event. Data is valid until the next call of Next.
type Event struct {
	// Name of the event field; empty for a plain message.
	Name string
	// Data lines joined by newlines.
	Data []byte
}

// Reader pulls events from a response body. Not safe for concurrent use.
type Reader struct {
	source     io.Reader
	buf        []byte
	start, end int
	skipLF     bool // the last line ended in CR: a LF that follows belongs to it
	data       []byte
	names      map[string]string // seen so far: a stream has a handful
	err        error
}

// maxNames bounds what is kept of names.
const maxNames = 64

// name gives an event's name without a new string for each event.
func (r *Reader) name(value []byte) string {
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
	return &Reader{source: r, buf: make([]byte, 4<<10)}
}

// Next returns the next event that carries data. At the end it returns io.EOF;
// an event that the end cut short before its blank line is still returned,
// since some vendors leave it out.
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
				r.data = append(r.data, '\n')
			}
			hasData = true
			if len(r.data)+len(value) > MaxEvent {
				return Event{}, ErrTooLarge
			}
			r.data = append(r.data, value...)
		case "event":
			event.Name = r.name(value)
		}
	}
}

// line returns the next line without its end (LF, CR or CRLF). It is valid
// until the next call.
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

// lineEnd finds the first CR or LF, or -1: two searches for one byte each are
// faster than one for either.
func lineEnd(text []byte) int {
	lf := bytes.IndexByte(text, '\n')
	if lf >= 0 {
		text = text[:lf]
	}
	if cr := bytes.IndexByte(text, '\r'); cr >= 0 {
		return cr
	}
	return lf
}

// rest gives the text after the last line end, then the source's error.
func (r *Reader) rest() ([]byte, error) {
	if r.start < r.end {
		line := r.buf[r.start:r.end]
		r.start = r.end
		return line, nil
	}
	return nil, r.err
}

// fill reads once, making room first.
func (r *Reader) fill() error {
	if r.start > 0 {
		copy(r.buf, r.buf[r.start:r.end])
		r.start, r.end = 0, r.end-r.start
	}
	if r.end == len(r.buf) {
		if len(r.buf) >= MaxEvent {
			return ErrTooLarge
		}
		r.buf = append(r.buf, make([]byte, len(r.buf))...)
	}
	n, err := r.source.Read(r.buf[r.end:])
	r.end += n
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("read events: %w", err)
	} else if err != nil {
		err = io.EOF
	}
	r.err = err
	return nil
}
