package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"switchyard.dev/services/gateway/internal/serving/inference"
)

const (
	// writeTime bounds one write: a caller that no longer reads must not keep a provider's stream open.
	writeTime = 30 * time.Second
	// maxWaiting bounds the events that leave in one write, in bytes.
	maxWaiting = 16 << 10
)

// eventWriter writes server-sent events (WHATWG HTML, section 9.2), those that arrived together in one write, and a
// comment when none was written for a while.
type eventWriter struct {
	every time.Duration

	mu      sync.Mutex // The ping comes from a timer.
	w       http.ResponseWriter
	control *http.ResponseController
	buf     bytes.Buffer
	waiting []byte // events that are not sent yet, whole
	encoder *json.Encoder
	ping    *time.Timer
	silence []byte // the text of a ping
	err     error
	begun   bool // the response header has been sent
	closed  bool
}

// newEventWriter returns an eventWriter, which sends the response header with the first event.
func newEventWriter(w http.ResponseWriter, every time.Duration) *eventWriter {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	e := &eventWriter{every: every, w: w, control: http.NewResponseController(w), silence: []byte(": ping\n\n")}
	e.encoder = json.NewEncoder(&e.buf)
	e.encoder.SetEscapeHTML(false)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ping = time.AfterFunc(every, e.keepAlive)
	return e
}

// pingWith sets the text of pings; the default is a comment.
func (e *eventWriter) pingWith(text []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.silence = text
}

// send adds events that are already encoded to those that flush sends.
func (e *eventWriter) send(text []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.add(text)
}

// pass flushes unless the stream's next event has arrived, which then leaves together with those before it.
func (e *eventWriter) pass(stream *inference.Stream) {
	if !stream.Buffered() {
		e.flush()
	}
}

// flush sends what was added.
func (e *eventWriter) flush() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.flushLocked()
}

func (e *eventWriter) data(v any) { e.event("data: ", v) }

// error sends the event that ends a failed stream.
func (e *eventWriter) error(v any) {
	e.event("event: error\ndata: ", v)
	e.flush()
}

// done sends the event that ends a complete stream.
func (e *eventWriter) done() {
	e.send([]byte("data: [DONE]\n\n"))
	e.flush()
}

func (e *eventWriter) event(head string, v any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.buf.Reset()
	e.buf.WriteString(head)
	if err := e.encoder.Encode(v); err != nil { // Ends with a newline.
		e.err = err
		return
	}
	e.buf.WriteByte('\n')
	e.add(e.buf.Bytes())
}

func (e *eventWriter) keepAlive() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.add(e.silence)
	e.flushLocked()
}

// add adds text to what waits, which it sends first where both would exceed maxWaiting. The caller holds the lock.
func (e *eventWriter) add(text []byte) {
	if len(e.waiting)+len(text) > maxWaiting {
		e.flushLocked()
	}
	if len(text) > maxWaiting { // An image, for example: it is sent without a copy.
		e.write(text)
		return
	}
	e.waiting = append(e.waiting, text...)
}

// flushLocked sends what waits. The caller holds the lock.
func (e *eventWriter) flushLocked() {
	if len(e.waiting) > 0 {
		e.write(e.waiting)
		e.waiting = e.waiting[:0]
	}
}

// write sends bytes and postpones the next ping. The caller holds the lock.
func (e *eventWriter) write(text []byte) {
	if e.err != nil || e.closed {
		return
	}
	e.begun = true
	_ = e.control.SetWriteDeadline(time.Now().Add(writeTime))
	if _, e.err = e.w.Write(text); e.err == nil {
		e.err = e.control.Flush()
	}
	e.ping.Reset(e.every)
}

// failed reports whether the caller no longer reads.
func (e *eventWriter) failed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err != nil
}

// close stops the pings; the response must not be used after its handler returns.
func (e *eventWriter) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	e.ping.Stop()
	_ = e.control.SetWriteDeadline(time.Time{}) // The connection may serve another request.
}
