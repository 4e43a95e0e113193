package api

import (
	"context"
	"log/slog"
	"net/http"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/rpc"
)

// headerEarly requests pings before the first content too, for proxies that cut silent connections. It costs the
// status: once a ping has been sent, a failure is an event in a stream of status 200, and headers can't say how the
// request was served.
const headerEarly = "X-Switchyard-Early-Stream"

func wantsEarly(r *http.Request) bool { return r.Header.Get(headerEarly) == "true" }

// lateError returns the error of a stream that never began if no byte has been sent yet; else it writes the error with
// write, as the stream's last event.
func lateError(ctx context.Context, events *eventWriter, err error, write func(*apierr.Error)) error {
	if events == nil || events.withdraw() {
		return err
	}
	e := apierr.From(err)
	rpc.Annotate(ctx, slog.String("stream_reason", string(e.Reason)), slog.String("stream_error", e.Error()))
	write(e)
	return nil
}

// withdraw cancels a stream of which nothing has been sent; it reports whether it was in time.
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
