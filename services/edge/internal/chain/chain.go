// Package chain is what every request to the edge passes, whichever role serves it: its request id, span, metrics, log
// line and error body. Packages api and control mount their handlers on a Chain of their own.
package chain

import (
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/screen"
)

// Handler serves a request, or returns an error before it has written anything. It fills in the log line.
type Handler func(w http.ResponseWriter, r *http.Request, l *Line) error

// Line holds the fields of a request's log line.
type Line struct {
	Organization, Key, Caller string
	Session                   *proxy.Session // of a WebSocket connection
	Succeeded                 bool           // a service answered with success; not in the log
}

// ForOrganization returns a request whose use of Postgres counts toward an organization's share of the connections.
func ForOrganization(r *http.Request, organization string) *http.Request {
	return r.WithContext(caller.With(r.Context(), caller.Caller{Organization: organization}))
}

// ErrorBody renders an error for the response to a request.
type ErrorBody = func(e *apierr.Error, requestID string) any

// Options configures a Chain. All fields are required unless their comment says otherwise.
type Options struct {
	Log    *slog.Logger
	Tracer trace.Tracer
	Meter  metric.Meter
	// Duration is the name of the histogram of durations by route and status.
	Duration string
	// ErrorBody returns the form of errors on a path; nil uses Switchyard's own for every path.
	ErrorBody func(path string) ErrorBody
	// Open holds handlers outside the chain by pattern, such as probes.
	Open map[string]http.Handler
}

// Chain serves handlers by path. Mount all before the first request.
type Chain struct {
	options  Options
	duration metric.Float64Histogram
	mux      *http.ServeMux
	nowhere  http.Handler
}

// New returns a Chain on which nothing but o.Open is mounted: other paths are not found.
func New(o Options) (*Chain, error) {
	duration, err := o.Meter.Float64Histogram(o.Duration,
		metric.WithUnit("s"), metric.WithDescription("Duration of requests by route and HTTP status."))
	if err != nil {
		return nil, fmt.Errorf("duration histogram: %w", err)
	}
	if o.ErrorBody == nil {
		o.ErrorBody = func(string) ErrorBody { return apierr.NewDocument }
	}
	c := &Chain{options: o, duration: duration, mux: http.NewServeMux()}
	c.nowhere = c.observe("none", func(http.ResponseWriter, *http.Request, *Line) error { return apierr.NotFound("path") })
	c.mux.Handle("/", c.nowhere)
	for pattern, h := range o.Open {
		c.mux.Handle(pattern, h)
	}
	return c, nil
}

// Mount serves the methods of a path, HEAD as GET; others are refused with 405. The path is one pattern for all methods:
// the mux takes two overlapping paths with a method each for a conflict.
func (c *Chain) Mount(path string, methods map[string]Handler) {
	by := make(map[string]http.Handler, len(methods))
	for method, h := range methods {
		by[method] = c.observe(method+" "+path, h)
	}
	if by[http.MethodHead] == nil && by[http.MethodGet] != nil {
		by[http.MethodHead] = by[http.MethodGet]
	}
	allow := strings.Join(slices.Sorted(maps.Keys(methods)), ", ")
	refused := c.observe(path, func(w http.ResponseWriter, r *http.Request, _ *Line) error { return NotAllowed(w, r, allow) })
	c.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		h, ok := by[r.Method]
		if !ok {
			h = refused
		}
		h.ServeHTTP(w, r)
	})
}

// MountBelow serves every method of every path below a prefix, which ends with a slash.
func (c *Chain) MountBelow(prefix string, h Handler) { c.mux.Handle(prefix, c.observe(prefix, h)) }

// NotAllowed refuses a request for its method; allow lists those that its path has.
func NotAllowed(w http.ResponseWriter, r *http.Request, allow string) error {
	w.Header().Set("Allow", allow) // RFC 9110, section 10.2.1
	return apierr.New(apierr.KindMethodNotAllowed, apierr.ReasonMethodNotAllowed, screen.Path(r.Method, "/")+" is not allowed here")
}

// ServeHTTP serves a request, which has its id already. Paths match exactly: one that http.ServeMux would redirect to its
// clean form is not found.
func (c *Chain) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, text := range []string{r.URL.Path, r.URL.EscapedPath()} {
		if clean := path.Clean(text); text != clean && text != clean+"/" || !strings.HasPrefix(text, "/") {
			c.nowhere.ServeHTTP(w, r)
			return
		}
	}
	c.mux.ServeHTTP(w, r)
}
