package rpc

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/callcount"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/tag"
)

// mayCount refuses a caller that has calls counted for a customer and is not the edge. The error is unauthenticated: the
// edge takes it for a fault of its own token, not of the customer's key.
func (s *Server) mayCount(c caller.Caller) error {
	switch {
	case c.CountMetric == "":
		return nil
	case c.Organization == "":
		return apierr.Invalid(caller.HeaderOrganization, "is required with "+caller.HeaderCountMetric)
	case c.Name == caller.NameEdge || s.options.Tokens == nil:
		return nil
	}
	return apierr.New(apierr.KindUnauthenticated, apierr.ReasonUnauthenticated,
		caller.HeaderCountMetric+": only the service token named "+caller.NameEdge+" may send it")
}

// counted serves a request. If the edge has it counted, a successful answer is complete only when its count is durable.
func (s *Server) counted(w http.ResponseWriter, r *http.Request, c caller.Caller, serve func(http.ResponseWriter, *http.Request)) {
	if c.CountMetric == "" || s.options.Counts == nil {
		serve(w, r)
		return
	}
	ctx := callcount.With(r.Context(), newCount(c))
	answer := &countedWriter{ResponseWriter: w, record: func() (func() error, error) {
		count, left := callcount.Take(ctx, time.Now())
		if !left {
			return nil, nil
		}
		return s.options.Counts.Record(context.WithoutCancel(ctx), count)
	}}
	serve(answer, r.WithContext(ctx))
	if err := answer.settle(); err != nil {
		s.options.Log.ErrorContext(ctx, "a call was not counted, its caller was cut off", slog.String("error", err.Error()))
		panic(http.ErrAbortHandler)
	}
}

// newCount returns what a caller's call counts.
func newCount(c caller.Caller) *callcount.Call {
	tags, _ := tag.Of(c.Tags, nil) // A service that uses tags refuses a call whose tags break a rule.
	return callcount.New(callcount.Count{
		Organization: c.Organization, Key: c.Key, Metric: c.CountMetric, User: c.User, Tags: tags,
	})
}

// countedWriter records the count of its request when a successful answer begins, unless the handler has taken it.
type countedWriter struct {
	http.ResponseWriter

	// record records the count if the handler has left it. The function that it returns waits until the count is durable;
	// it is nil if there is nothing to wait for.
	record  func() (settled func() error, err error)
	begun   bool
	settled func() error
	err     error
}

// WriteHeader implements http.ResponseWriter.
func (w *countedWriter) WriteHeader(status int) {
	if !w.begun {
		w.begin(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *countedWriter) Write(p []byte) (int, error) {
	if !w.begun {
		w.begin(http.StatusOK)
	}
	if w.err != nil {
		return 0, w.err
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap returns the underlying writer, for http.ResponseController.
func (w *countedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// FlushError implements the interface of http.ResponseController.
func (w *countedWriter) FlushError() error {
	if !w.begun {
		w.begin(http.StatusOK)
	}
	if w.err != nil {
		return w.err
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// begin counts a success. An answer of known length is complete with its last byte, so its count is durable before.
func (w *countedWriter) begin(status int) {
	w.begun = status >= http.StatusOK // After a 1xx head, the final one follows.
	if status/100 != 2 {
		return
	}
	if w.settled, w.err = w.record(); w.err != nil {
		return
	}
	if w.Header().Get("Content-Length") != "" && w.settle() != nil {
		return
	}
	w.Header()[callcount.HeaderCounted] = counted
}

// counted is the value of callcount.HeaderCounted.
var counted = []string{"1"}

// settle returns when the count is durable.
func (w *countedWriter) settle() error {
	if w.err == nil && w.settled != nil {
		w.err, w.settled = w.settled(), nil
	}
	return w.err
}
