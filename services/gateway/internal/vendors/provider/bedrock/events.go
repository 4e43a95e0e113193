package bedrock

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/vendors/provider/eventstream"
	"switchyard.dev/services/gateway/internal/vendors/provider/sse"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/jsoncheck"
)

// events are the events of a stream. Its errors but io.EOF are of the type *provider.Error.
type events struct {
	*eventstream.Reader

	ctx    context.Context //nolint:containedctx // The call's: it distinguishes a canceled read from a broken one.
	caller *wire.Caller
}

// next returns the next event, whose payload is valid JSON.
func (e *events) next() (eventstream.Message, error) {
	m, err := e.Next()
	switch {
	case errors.Is(err, io.EOF):
		return m, io.EOF
	case errors.Is(err, eventstream.ErrTooLarge), errors.Is(err, eventstream.ErrEndless), errors.Is(err, eventstream.ErrBroken),
		errors.Is(err, eventstream.ErrChecksum):
		return m, wire.Malformed(err.Error(), nil)
	case err != nil:
		return m, wire.Interrupted(e.ctx, err)
	case m.Type != "event":
		return m, e.caller.Refused(0, exception(m))
	case !jsoncheck.Valid(m.Payload):
		return m, wire.Malformed("an event is not the JSON expected", nil)
	}
	return m, nil
}

// exception returns the error document of an exception in a stream, with its name where documents of errors have it.
func exception(m eventstream.Message) []byte {
	if m.Type == "exception" && jsoncheck.Valid(m.Payload) && wire.ParseView(m.Payload).IsObject() {
		name, _ := json.Marshal(m.Name) // A text never fails.
		return wire.Override(m.Payload, wire.Member{Name: "__type", Value: string(name)})
	}
	document, _ := json.Marshal(failure{Type: m.Name, Message: m.Text}) // As above.
	return document
}

// chunks are the events of Anthropic's stream that InvokeModelWithResponseStream sends, each within an event of its own.
type chunks struct {
	*events

	data    []byte
	charged int
}

// Next implements anthropic.Events.
func (c *chunks) Next() (sse.Event, error) {
	for {
		m, err := c.next()
		if err != nil {
			return sse.Event{}, err
		}
		if m.Name == "chunk" {
			return c.decode(wire.ParseView(m.Payload).Get("bytes").Str)
		}
	}
}

// decode returns the event that is in a chunk.
func (c *chunks) decode(chunk string) (sse.Event, error) {
	size := base64.StdEncoding.DecodedLen(len(chunk))
	if size > cap(c.data) {
		if err := memory.FromContext(c.ctx).Charge(size - c.charged); err != nil {
			return sse.Event{}, wire.Interrupted(c.ctx, err)
		}
		c.data, c.charged = make([]byte, size), size
	}
	n, err := base64.StdEncoding.Decode(c.data[:size], []byte(chunk))
	if err != nil || !jsoncheck.Valid(c.data[:n]) {
		return sse.Event{}, wire.Malformed("a chunk is not the JSON expected", err)
	}
	return sse.Event{Name: wire.Text(wire.ParseView(c.data[:n]).Get("type")), Data: c.data[:n]}, nil
}
