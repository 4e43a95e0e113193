package rpc

import (
	"bytes"
	"context"
	"net/http"
	"strings"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/callcount"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/telemetry"
)

// Call handles a request that arrived on a connection that a handler has taken over, such as a message of a WebSocket, as
// Handle does for a request of its own: it authenticates the caller anew, checks the body, and runs handle inside the
// chain, with a span, a log line and a duration of the request's own. r holds the headers of the request; its request id
// is in X-Request-Id. The request counts if the handler takes its count. Call writes no error: it returns an *apierr.Error that may be shown to the caller, or nil.
func (s *Server) Call(w http.ResponseWriter, r *http.Request, method string, body []byte, handle func(http.ResponseWriter, *http.Request) error) error {
	c, err := s.authenticate(method, r.Header.Get)
	if err == nil {
		err = s.checkBody(method, body)
	}
	if err != nil {
		e := apierr.From(err)
		s.logRefusal(telemetry.WithRequestID(r.Context(), r.Header.Get(caller.HeaderRequest)), r, e)
		return e
	}
	r.Body = bufferedBody{bytes.NewReader(body), body}
	if c.CountMetric != "" {
		r = r.WithContext(callcount.With(r.Context(), newCount(c)))
	}
	call := &Call{Method: method, Face: FaceHTTP, Header: r.Header.Get, caller: &c}
	return s.chain.run(r.Context(), call, func(ctx context.Context) error { return handle(w, r.WithContext(ctx)) })
}

// Resume runs handle for a request that was accepted earlier, on behalf of its caller, inside the chain: with a span, a log
// line and a duration of its own. id is its request id. It returns an *apierr.Error that may be shown to the caller, or nil.
func (s *Server) Resume(ctx context.Context, c caller.Caller, id, method string, handle func(context.Context) error) error {
	header := func(name string) string {
		if strings.EqualFold(name, caller.HeaderRequest) {
			return id
		}
		return ""
	}
	return s.chain.run(ctx, &Call{Method: method, Face: FaceHTTP, Header: header, caller: &c}, handle)
}
