package fault

import (
	"context"
	"net/http"
	"strings"
)

// writer applies an action to an answer as it is written. A stream event is what a handler writes between two
// flushes.
type writer struct {
	http.ResponseWriter
	ctx         context.Context //nolint:containedctx // lives as long as the call, like the ResponseWriter itself
	action      Action
	streamError func() string

	wroteHead bool
	events    int
	sent      int
	ended     bool
}

func (w *writer) WriteHeader(status int) {
	w.wroteHead = w.wroteHead || status >= 200
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter. It panics with http.ErrAbortHandler,
// which net/http answers by closing the connection, where the script cuts.
func (w *writer) Write(p []byte) (int, error) {
	if !w.wroteHead {
		w.WriteHeader(http.StatusOK)
	}
	w.stall()
	if w.failStream() {
		return len(p), nil
	}
	if w.action.SlowBodyMS == 0 {
		return w.send(p)
	}
	if w.streaming() {
		w.pause()
		return w.send(p)
	}
	for i := range p {
		w.pause()
		if _, err := w.send(p[i : i+1]); err != nil {
			return i, err
		}
		w.flush()
	}
	return len(p), nil
}

// Flush ends a stream event.
func (w *writer) Flush() {
	w.events++
	w.flush()
}

// Unwrap lets http.ResponseController find the connection.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// finish applies what is still due when the handler has written its last bytes.
func (w *writer) finish() {
	if w.wroteHead {
		w.stall()
		w.failStream()
	}
}

// send passes bytes on and cuts where the script demands it.
func (w *writer) send(p []byte) (int, error) {
	if limit := w.action.AfterBytes; limit != nil && w.sent+len(p) > *limit {
		// What the client gets must not depend on how the connection fails.
		_, _ = w.ResponseWriter.Write(p[:*limit-w.sent])
		w.flush()
		cut(w.ResponseWriter, w.action.Reset)
	}
	n, err := w.ResponseWriter.Write(p)
	w.sent += n
	return n, err
}

// stall sends nothing until the client leaves, at most ten minutes.
func (w *writer) stall() {
	after := w.action.StallAfterChunks
	if after == nil || w.events < *after {
		return
	}
	w.flush()
	wait(w.ctx, int(maxWait.Milliseconds()))
	panic(http.ErrAbortHandler)
}

// failStream sends the in-band error once it is due and reports whether the
// stream is over.
func (w *writer) failStream() bool {
	after := w.action.ErrorAfterChunks
	if after == nil || w.events < *after || !w.streaming() {
		return false
	}
	if !w.ended {
		w.ended = true
		_, _ = w.ResponseWriter.Write([]byte(w.streamError()))
		w.flush()
	}
	return true
}

func (w *writer) pause() {
	if !wait(w.ctx, w.action.SlowBodyMS) {
		panic(http.ErrAbortHandler)
	}
}

func (w *writer) streaming() bool {
	kind := w.Header().Get("Content-Type")
	return strings.HasPrefix(kind, "text/event-stream") || kind == "application/vnd.amazon.eventstream"
}

func (w *writer) flush() {
	// A recorder in a test cannot flush, and then nothing needs to.
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}
