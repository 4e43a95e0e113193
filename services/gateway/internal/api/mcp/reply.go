package mcp

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"

	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// reply is the response to one request: JSON, or a stream once there is something to say before the answer, or the
// answer is late.
type reply struct {
	w     http.ResponseWriter
	begin func(w http.ResponseWriter) Events
	timer *time.Timer

	mu     sync.Mutex // The timer and the reports of progress come from other goroutines.
	events Events     // nil while the response has not begun
	done   bool
}

// newReply returns a reply that becomes a stream after patience.
func newReply(w http.ResponseWriter, begin func(w http.ResponseWriter) Events, patience time.Duration) *reply {
	p := &reply{w: w, begin: begin}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(patience, p.stream)
	return p
}

// stream begins a stream, with a comment.
func (p *reply) stream() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done || p.events != nil {
		return
	}
	p.events = p.begin(p.w)
	p.events.Send([]byte(": wait\n\n"))
}

// notify sends a notification before the answer.
func (p *reply) notify(m *wire.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return
	}
	if p.events == nil {
		p.events = p.begin(p.w)
	}
	p.events.Send(event(m.Append(nil)))
}

// answer ends the response. status is that of an answer that is no stream.
func (p *reply) answer(status int, text []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return
	}
	p.done = true
	if p.events != nil {
		p.events.Send(event(text))
		return
	}
	writeText(p.w, status, text)
}

// writeText writes a response that is one message.
func writeText(w http.ResponseWriter, status int, text []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, _ = w.Write(text)
	_ = http.NewResponseController(w).Flush() // Metrics and the log line are recorded after the response has been written.
}

// close ends what is left of the response; nothing is written afterwards.
func (p *reply) close() {
	p.timer.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = true
	if p.events != nil {
		p.events.Close()
	}
}

// event returns a message as an event. A message of a server may have line breaks between its parts.
func event(text []byte) []byte {
	if bytes.ContainsAny(text, "\r\n") {
		var compact bytes.Buffer
		if err := json.Compact(&compact, text); err == nil {
			text = compact.Bytes()
		}
	}
	out := make([]byte, 0, len(text)+24)
	out = append(out, "event: message\ndata: "...)
	out = append(out, text...)
	return append(out, "\n\n"...)
}
