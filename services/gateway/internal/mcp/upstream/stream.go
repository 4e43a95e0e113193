package upstream

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"time"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/gateway/internal/vendors/provider/sse"
)

// Bounds of streams that a legacy server closes early, to be asked for the rest.
const (
	maxResumptions = 100
	leastWait      = 200 * time.Millisecond
	usualWait      = time.Second
	mostWait       = 10 * time.Second
)

// events reads a response from a stream of events. The stream of a legacy server that ends before the response, behind
// an event with an ID, is taken up again there.
func (l *httpLink) events(ctx context.Context, s *session, r *request, talk *conversation, answer *http.Response) (response, error) {
	defer func() { _ = answer.Body.Close() }() // The last one.
	left := maxTotal
	for resumed := 0; ; resumed++ {
		reader := sse.NewReader(answer.Body).Bound(maxEvent, left).Charge(memory.FromContext(ctx))
		m, err := readEvents(ctx, reader, talk)
		if err == nil {
			return l.last(answer, &m, r.method == wire.MethodInitialize && resumed == 0), nil
		}
		id, wait := reader.Resumption()
		left -= reader.Size()
		if e, ok := errors.AsType[*Error](err); ok {
			return response{}, e
		}
		if !isEnd(err) || ctx.Err() != nil {
			return response{}, failed(ctx, err, true)
		}
		if s.modern || id == "" || resumed == maxResumptions {
			return response{}, failed(ctx, err, true)
		}
		_ = answer.Body.Close()
		next, err := l.resume(ctx, s, id, wait)
		if err != nil {
			return response{}, failed(ctx, err, true)
		}
		answer = next
	}
}

// last ends a stream behind its response. A stream that ends there leaves its connection to the next request.
func (*httpLink) last(answer *http.Response, m *wire.Message, opens bool) response {
	got := response{result: m.Result, err: m.Error, status: http.StatusOK}
	if opens {
		got.session = answer.Header.Get(wire.HeaderSession)
	}
	late := time.AfterFunc(restTime, func() { _ = answer.Body.Close() })
	defer late.Stop()
	_, _ = io.CopyN(io.Discard, answer.Body, maxRest)
	return got
}

// What may follow a response, and for how long it is awaited.
const (
	restTime = 20 * time.Millisecond
	maxRest  = 4 << 10
)

// readEvents reads a stream up to the response.
func readEvents(ctx context.Context, reader *sse.Reader, talk *conversation) (wire.Message, error) {
	for {
		event, err := reader.Next()
		if err != nil {
			return wire.Message{}, err
		}
		if len(event.Data) == 0 || event.Name != "" && event.Name != "message" {
			continue
		}
		m, err := wire.Parse(event.Data)
		if err != nil {
			return wire.Message{}, unreadable(err)
		}
		done, err := talk.receive(ctx, &m)
		if done || err != nil {
			return m, err // The reader isn't used again, so the message may keep the event's memory.
		}
	}
}

// resume asks a legacy server for the rest of a stream behind an event.
func (l *httpLink) resume(ctx context.Context, s *session, id string, wait time.Duration) (*http.Response, error) {
	if wait == 0 {
		wait = usualWait
	}
	pause := time.NewTimer(min(max(wait, leastWait), mostWait))
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	h := l.header(s, typeEvents)
	h.Set(wire.HeaderLastEvent, id)
	return l.openStream(ctx, h)
}

// openStream asks a legacy server for a stream.
func (l *httpLink) openStream(ctx context.Context, h http.Header) (*http.Response, error) {
	answer, err := l.do(ctx, http.MethodGet, h, http.NoBody, 0)
	if err != nil {
		return nil, err
	}
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if answer.StatusCode == http.StatusOK && kind == typeEvents {
		return answer, nil
	}
	_ = answer.Body.Close()
	return nil, &Error{Cause: CauseRefused, Text: "the server gave no stream of events", Sent: true, Status: answer.StatusCode}
}
