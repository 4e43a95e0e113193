package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"switchyard.dev/services/gateway/internal/capacity/memory"
)

// LineBounds are the bounds of an answer of lines.
type LineBounds struct {
	// Line is the largest size of a line, and Total that of all of them, in bytes.
	Line  int
	Total int64
	// Lines is the largest number of lines, blank ones included.
	Lines int
}

// ResultBounds are the bounds of the results of a batch job. A job of Anthropic's has 100,000 requests at most, and OpenAI's
// 50,000.
var ResultBounds = LineBounds{Line: 16 << 20, Total: 4 << 30, Lines: 1 << 20}

// linePiece is how much of an answer of lines is read at a time, in bytes. Only longer lines are copied.
const linePiece = 64 << 10

// ReadLines passes each line of an answer that is not blank to each, without the space around it, and closes the answer. A
// line is valid until each returns. The error of each ends the reading and is returned as it is; any other error is a
// *provider.Error.
func ReadLines(ctx context.Context, response *http.Response, bounds LineBounds, each func(line []byte) error) error {
	defer response.Body.Close() //nolint:errcheck // Reading returns the error that matters.
	l := &lines{
		reader: bufio.NewReaderSize(response.Body, linePiece), hold: memory.FromContext(ctx), bounds: bounds,
	}
	defer func() { l.hold.Return(cap(l.joined)) }()
	for range bounds.Lines {
		line, err := l.next()
		if err != nil && !errors.Is(err, io.EOF) {
			return l.failure(ctx, err, response.StatusCode)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if err := each(line); err != nil {
				return err
			}
		}
		if err != nil {
			return nil // It is the end.
		}
		if ctx.Err() != nil { // A vendor may send faster than lines are read.
			return Interrupted(ctx, ctx.Err())
		}
	}
	return Malformed(fmt.Sprintf("the answer has more than %d lines", bounds.Lines), nil)
}

// lines reads lines of a bounded size in time proportional to their total size, however small the pieces are in which they
// arrive.
type lines struct {
	reader *bufio.Reader
	hold   *memory.Hold
	bounds LineBounds
	total  int64
	joined []byte // a line that is larger than the reader's buffer
}

var (
	errLongLine  = errors.New("a line is too long")
	errLongTotal = errors.New("there are too many bytes")
)

// next returns the next line. The last one comes with io.EOF.
func (l *lines) next() ([]byte, error) {
	l.joined = l.joined[:0]
	for {
		piece, err := l.reader.ReadSlice('\n')
		l.total += int64(len(piece))
		if len(l.joined)+len(piece) > l.bounds.Line {
			return nil, errLongLine
		}
		if l.total > l.bounds.Total {
			return nil, errLongTotal
		}
		more := errors.Is(err, bufio.ErrBufferFull)
		if more || len(l.joined) > 0 {
			if err := l.join(piece); err != nil {
				return nil, err
			}
		}
		switch {
		case more:
			continue
		case len(l.joined) > 0:
			return l.joined, err
		}
		return piece, err
	}
}

// join appends a piece of a line, and charges the memory for it before it grows.
func (l *lines) join(piece []byte) error {
	if size := len(l.joined) + len(piece); size > cap(l.joined) {
		size = max(size, min(2*cap(l.joined), l.bounds.Line))
		if err := l.hold.Charge(size - cap(l.joined)); err != nil {
			return err
		}
		l.joined = append(make([]byte, 0, size), l.joined...)
	}
	l.joined = append(l.joined, piece...)
	return nil
}

func (l *lines) failure(ctx context.Context, err error, status int) error {
	switch {
	case errors.Is(err, errLongLine):
		return Malformed(fmt.Sprintf("a line of the answer is larger than %d MiB", l.bounds.Line>>20), nil)
	case errors.Is(err, errLongTotal):
		return Malformed(fmt.Sprintf("the answer is larger than %d MiB", l.bounds.Total>>20), nil)
	}
	e := Interrupted(ctx, err)
	e.Status = status
	return e
}
