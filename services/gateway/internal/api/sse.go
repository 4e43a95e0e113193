package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// writeTime bounds one write: a caller that no longer reads must not keep a provider's stream open.
const writeTime = 30 * time.Second

// eventWriter writes server-sent events (WHATWG HTML, section 9.2) at once, and a comment when none was written for a
// while.
type eventWriter struct {
	every time.Duration

	mu      sync.Mutex // The ping comes from a timer.
	w       http.ResponseWriter
	control *http.ResponseController
	buf     bytes.Buffer
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

// send writes events that are already encoded; an empty text writes nothing.
func (e *eventWriter) send(text []byte) {
	if len(text) == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.write(text)
}

func (e *eventWriter) data(v any) { e.event("data: ", v) }

// error writes the event that ends a failed stream.
func (e *eventWriter) error(v any) { e.event("event: error\ndata: ", v) }

// done writes the event that ends a complete stream.
func (e *eventWriter) done() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.write([]byte("data: [DONE]\n\n"))
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
	e.write(e.buf.Bytes())
}

func (e *eventWriter) keepAlive() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.write(e.silence)
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
