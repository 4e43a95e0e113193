package api

import (
	"context"
	"log/slog"
	"net/http"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/rpc"
)

// headerEarly of a request asks for pings before the first content too, for the
// sake of a proxy that cuts what is silent. It costs the status: once a ping has
// been sent, what fails is an event in a stream of status 200, and how the
// request was served is not told in headers.
const headerEarly = "X-Switchyard-Early-Stream"

func wantsEarly(r *http.Request) bool { return r.Header.Get(headerEarly) == "true" }

// lateError gives the error of a stream that never began: as any other where
// nothing has been sent yet, or else as the stream's last event, which write writes.
func lateError(ctx context.Context, events *eventWriter, err error, write func(*apierr.Error)) error {
	if events == nil || events.withdraw() {
		return err
	}
	e := apierr.From(err)
	rpc.Annotate(ctx, slog.String("stream_reason", string(e.Reason)), slog.String("stream_error", e.Error()))
	write(e)
	return nil
}

// withdraw takes a stream back of which nothing has been sent; it reports whether
// it was in time.
func (e *eventWriter) withdraw() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.begun {
		return false
	}
	e.closed = true
	for _, name := range []string{"Content-Type", "Cache-Control", "X-Accel-Buffering"} {
		e.w.Header().Del(name)
	}
	return true
}
