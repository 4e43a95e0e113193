package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/bodymemory"
)

const (
	// firstPiece and largestPiece bound the pieces in which a body is held, in bytes.
	firstPiece   = 4 << 10
	largestPiece = 64 << 10
)

// body is a request body that was read completely, in the pieces in which it arrived.
type body struct {
	mu     sync.Mutex // A body may be closed while it is read.
	memory bodymemory.Hold
	pieces [][]byte
	size   int64
	held   int64 // capacity of the pieces
}

// readBody reads the whole body, bounded in size and time. Its memory is charged to its organization as it
// arrives. The caller closes the body. It is read whole because net/http closes the connection under the answer of a
// service that answers before it has read the request, which would cut streams.
func (x *Relay) readBody(w http.ResponseWriter, r *http.Request, organization string) (*body, error) {
	if r.ContentLength > x.bounds.Body {
		return nil, x.tooLarge()
	}
	b := &body{memory: x.memory.Open(organization)}
	if r.ContentLength == 0 {
		return b, nil
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(x.bounds.BodyTime)) // fails in tests with a recorder
	err := b.fill(http.MaxBytesReader(w, r.Body, x.bounds.Body), r.ContentLength)
	if err == nil {
		_ = control.SetReadDeadline(time.Time{})
		return b, nil
	}
	_ = b.Close()
	if refused, ok := errors.AsType[*apierr.Error](err); ok {
		return nil, refused
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, x.tooLarge()
	}
	return nil, apierr.Invalid("body", "could not be read in whole").Wrap(err)
}

func (x *Relay) tooLarge() error {
	return apierr.New(apierr.KindTooLarge, apierr.ReasonTooLarge, fmt.Sprintf("body: larger than %d bytes", x.bounds.Body))
}

// fill reads to the end, or as much as was announced; -1 means unknown.
func (b *body) fill(from io.Reader, announced int64) error {
	for b.size != announced {
		last := len(b.pieces) - 1
		if last < 0 || len(b.pieces[last]) == cap(b.pieces[last]) {
			if err := b.grow(announced); err != nil {
				return err
			}
			last++
		}
		piece := b.pieces[last]
		n, err := from.Read(piece[len(piece):cap(piece)])
		b.pieces[last], b.size = piece[:len(piece)+n], b.size+int64(n)
		switch {
		case errors.Is(err, io.EOF) && (announced < 0 || b.size == announced):
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}

// grow adds a piece. The announced size is only a claim: a small body is allocated at once, a larger one as it
// arrives.
func (b *body) grow(announced int64) error {
	size := min(max(b.held, firstPiece), largestPiece)
	if announced >= 0 {
		if b.size == 0 && announced <= bufferSize {
			size = announced
		}
		size = min(size, announced-b.size)
	}
	if err := b.memory.Grow(size); err != nil {
		return err
	}
	b.held += size
	b.pieces = append(b.pieces, make([]byte, 0, size))
	return nil
}

// replace replaces the body by the result of by, which reads it.
func (b *body) replace(ctx context.Context, by func(ctx context.Context, sent io.Reader) ([]byte, error)) error {
	text, err := by(ctx, b)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pieces, b.size = [][]byte{text}, int64(len(text))
	return nil
}

// reader returns the body of the outgoing request; it closes the body.
func (b *body) reader() io.ReadCloser {
	switch len(b.pieces) {
	case 0:
		return http.NoBody
	case 1: // net/http sends a body that it knows to be in memory together with the head.
		return io.NopCloser(bytes.NewReader(b.pieces[0]))
	}
	return b
}

// Read reads the pieces in order.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.pieces[0])
	if b.pieces[0] = b.pieces[0][n:]; len(b.pieces[0]) == 0 {
		b.pieces = b.pieces[1:]
	}
	return n, nil
}

// Close releases the memory.
func (b *body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.memory.Close()
	b.pieces = nil
	return nil
}
