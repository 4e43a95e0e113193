package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/sse"
	"switchyard.dev/services/platform/jsoncheck"
)

// Answer is what a vendor sent in answer to a relayed call: the whole answer or one event of it.
type Answer struct {
	// Kind is the media type, empty for an event, and Text the bytes.
	Kind string
	Text []byte
	// JSON is Text parsed; absent for another kind of answer.
	JSON gjson.Result
}

// Meter reads the answer to one relayed call: what it says was used, and the text that a model wrote. It may leave out
// an event that only the gateway asked for.
type Meter interface {
	Read(a *Answer) (event provider.Event, leftOut bool)
}

// Relay makes a relayed call; see provider.Relayer.
func (c *Caller) Relay(ctx context.Context, at *url.URL, header http.Header, call *provider.Relay, meter Meter) (provider.RelayStream, error) {
	response, err := c.sendRelay(ctx, at, header, call) //nolint:bodyclose // The stream or Read closes it.
	if err != nil {
		return nil, err
	}
	kind := response.Header.Get("Content-Type")
	base := relayed{ctx: ctx, caller: c, kind: kind, meter: meter, limits: c.Limits(response)}
	switch media, _, _ := mime.ParseMediaType(kind); {
	case media == "text/event-stream":
		return &relayedEvents{relayed: base, body: response.Body, events: sse.NewReader(response.Body).Charge(memory.FromContext(ctx))}, nil
	case media == "application/json", strings.HasPrefix(media, "text/"), media == "":
		return base.whole(response, media == "application/json")
	}
	return &relayedBytes{relayed: base, body: response.Body, buffer: make([]byte, pieceSize)}, nil
}

// relayed is what the answers to relayed calls have in common.
type relayed struct {
	ctx    context.Context //nolint:containedctx // The call's: it distinguishes a canceled read from a broken one.
	caller *Caller
	kind   string
	meter  Meter
	limits provider.Limits
	size   int
	done   bool
}

// ContentType implements provider.RelayStream.
func (r *relayed) ContentType() string { return r.kind }

// Limits returns the rate limits from the response's head.
func (r *relayed) Limits() provider.Limits { return r.limits }

// Size implements provider.Stream.
func (r *relayed) Size() int { return r.size }

// last returns the event that ends an answer.
func (r *relayed) last() provider.Event {
	r.done = true
	return provider.Event{FinishReason: provider.FinishStop}
}

// whole reads an answer that is not streamed.
func (r relayed) whole(response *http.Response, isJSON bool) (provider.RelayStream, error) {
	text, err := Read(r.ctx, response)
	if err != nil {
		return nil, err
	}
	r.size = len(text)
	answer := &Answer{Kind: r.kind, Text: text}
	if isJSON {
		if answer.JSON, err = r.parse(text, response.StatusCode); err != nil {
			return nil, err
		}
	}
	event, _ := r.meter.Read(answer)
	event.Native, event.FinishReason = text, provider.FinishStop
	return &relayedWhole{relayed: r, event: event}, nil
}

// NewWhole returns an answer to a relayed call that is there already.
func NewWhole(kind string, text []byte, usage *provider.Usage) provider.RelayStream {
	event := provider.Event{Native: text, Usage: usage, FinishReason: provider.FinishStop}
	return &relayedWhole{relayed: relayed{kind: kind, size: len(text)}, event: event}
}

// parse returns a JSON document, or the error that it is.
func (r *relayed) parse(text []byte, status int) (gjson.Result, error) {
	if jsoncheck.TooDeep(text) || !jsoncheck.Valid(text) {
		return gjson.Result{}, Malformed("the answer is not valid JSON", nil)
	}
	document := gjson.ParseBytes(text)
	if problem := document.Get("error"); problem.IsObject() || problem.Type == gjson.String && problem.Str != "" {
		return gjson.Result{}, r.caller.Refused(status, text)
	}
	return document, nil
}

// relayedWhole is an answer that was read whole: one event.
type relayedWhole struct {
	relayed

	event provider.Event
}

// Next implements provider.Stream.
func (w *relayedWhole) Next() (provider.Event, error) {
	if w.done {
		return provider.Event{}, io.EOF
	}
	w.done = true
	return w.event, nil
}

// Whole implements provider.RelayStream.
func (w *relayedWhole) Whole() bool { return true }

// Buffered implements provider.Stream.
func (w *relayedWhole) Buffered() bool { return true }

// Close implements provider.Stream.
func (w *relayedWhole) Close() error { return nil }

// pieceSize is the size of the pieces of an answer that is neither text nor events, in bytes.
const pieceSize = 32 << 10

// relayedBytes is an answer of bytes, such as sound, as it arrives.
type relayedBytes struct {
	relayed

	body   io.ReadCloser
	buffer []byte
}

// Next implements provider.Stream.
func (b *relayedBytes) Next() (provider.Event, error) {
	if b.done {
		return provider.Event{}, io.EOF
	}
	n, err := io.ReadAtLeast(b.body, b.buffer, 1)
	switch {
	case errors.Is(err, io.EOF) && b.size == 0:
		return provider.Event{}, Malformed("the answer is empty", nil)
	case errors.Is(err, io.EOF):
		return b.last(), nil
	case err != nil:
		return provider.Event{}, Interrupted(b.ctx, err)
	}
	b.size += n
	return provider.Event{Native: b.buffer[:n]}, nil
}

// Whole implements provider.RelayStream.
func (b *relayedBytes) Whole() bool { return false }

// Buffered implements provider.Stream.
func (b *relayedBytes) Buffered() bool { return b.done }

// Close implements provider.Stream.
func (b *relayedBytes) Close() error {
	if b.done {
		return Finish(b.body)
	}
	return b.body.Close()
}

// relayedEvents is an answer of server-sent events. Its end without an event that ends an answer is a broken connection.
type relayedEvents struct {
	relayed

	body   io.ReadCloser
	events *sse.Reader
	ended  bool // an event was the last of an answer
}

// Next implements provider.Stream.
func (e *relayedEvents) Next() (provider.Event, error) {
	for !e.done {
		frame, err := e.events.Next()
		switch {
		case errors.Is(err, io.EOF) && e.ended:
			return e.last(), nil
		case errors.Is(err, io.EOF):
			return provider.Event{}, Interrupted(e.ctx, io.ErrUnexpectedEOF)
		case err != nil:
			return provider.Event{}, Interrupted(e.ctx, err)
		}
		data := bytes.TrimSpace(frame.Data)
		if len(data) == 0 {
			if !e.Buffered() {
				return provider.Event{}, nil
			}
			continue
		}
		event, leftOut, err := e.read(frame, data)
		if err != nil {
			return provider.Event{}, err
		}
		if !leftOut {
			event.Native, event.NativeType = frame.Data, frame.Name
		}
		return event, nil
	}
	return provider.Event{}, io.EOF
}

// endMark is the event that ends a stream of OpenAI's older APIs.
const endMark = "[DONE]"

func (e *relayedEvents) read(frame sse.Event, data []byte) (event provider.Event, leftOut bool, err error) {
	if string(data) == endMark {
		e.ended = true
		return provider.Event{}, false, nil
	}
	if frame.Name == "error" {
		return provider.Event{}, false, e.caller.Refused(0, data)
	}
	document, err := e.parse(data, 0)
	if err != nil {
		return provider.Event{}, false, err
	}
	kind := document.Get("type").Str
	if kind == "error" {
		return provider.Event{}, false, e.caller.Refused(0, data)
	}
	event, leftOut = e.meter.Read(&Answer{Text: data, JSON: document})
	e.ended = e.ended || strings.HasSuffix(kind, ".done") || strings.HasSuffix(kind, ".completed") || event.FinishReason != ""
	event.FinishReason = "" // The answer ends with the stream: usage may follow.
	return event, leftOut, nil
}

// Whole implements provider.RelayStream.
func (e *relayedEvents) Whole() bool { return false }

// Buffered implements provider.Stream.
func (e *relayedEvents) Buffered() bool { return e.done || e.events.Buffered() }

// Size implements provider.Stream.
func (e *relayedEvents) Size() int { return e.events.Size() }

// Close implements provider.Stream.
func (e *relayedEvents) Close() error {
	if e.done {
		return Finish(e.body)
	}
	return e.body.Close()
}
