// Package webhook fakes a customer's webhook receiver: it accepts any POST on any path, stores each arrival with its
// exact bytes, and verifies its signature. It stores arrivals whether the script lets them succeed or not.
package webhook

import (
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"time"
	"unicode/utf8"

	"switchyard.dev/deploy/fakes/fault"
	"switchyard.dev/deploy/fakes/journal"
)

const (
	maxArrivals = 100_000
	maxBytes    = 256 << 20
	maxBody     = 1 << 20
)

// Options configures a receiver. All are optional.
type Options struct {
	// Secrets are those of the sender; none = no check.
	Secrets Secrets
	// Log gets one line for each arrival.
	Log *slog.Logger
}

// Arrival is one request as it came. Header values that are credentials are hashed.
type Arrival struct {
	Time    time.Time   `json:"time"`
	Method  string      `json:"method"`
	Path    string      `json:"path"`
	Query   string      `json:"query,omitempty"`
	ID      string      `json:"id"` // X-Webhook-Id
	Headers http.Header `json:"headers"`
	// Body holds the exact bytes when they are UTF-8, else BodyBase64 does.
	Body       string `json:"body"`
	BodyBase64 []byte `json:"body_base64,omitempty"`
	BodyBytes  int    `json:"body_bytes"`
	// Truncated reports whether the body was larger than 1 MiB; the rest is lost.
	Truncated bool    `json:"truncated"`
	Signature Verdict `json:"signature"`
	// Fault is the script's action for the call, empty when there was none.
	Fault string `json:"fault"`
}

// Server is the receiver. Its embedded Injector scripts it.
type Server struct {
	*fault.Injector
	opts     Options
	arrivals *journal.Journal[Arrival]
	handler  http.Handler
}

// New returns a receiver that follows script. It panics on an invalid one.
func New(script fault.Script, opts Options) *Server {
	s := &Server{opts: opts, arrivals: journal.New[Arrival](maxArrivals, maxBytes)}
	s.Injector = fault.NewInjector(script, fault.Options{
		MaxBody: maxBody, Observe: s.observe, Secrets: slices.Concat(opts.Secrets.Organization, opts.Secrets.Endpoint),
	})
	control := http.NewServeMux()
	fault.ServeJournal(control, "arrivals", s.arrivals, func(q url.Values) func(Arrival) bool {
		return selects(q.Get("path"), q.Get("id"))
	})
	s.handler = s.Handler(control, http.HandlerFunc(accept))
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.handler.ServeHTTP(w, r)
}

// Arrivals returns the newest arrivals on a path and with an id, at most limit,
// oldest first. Empty path or id accepts all.
func (s *Server) Arrivals(path, id string, limit int) []Arrival {
	return s.arrivals.Last(limit, selects(path, id))
}

func accept(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	fault.WriteJSON(w, http.StatusOK, map[string]bool{"received": true})
}

func (s *Server) observe(r *http.Request, call fault.Call, scripted string) {
	a := Arrival{
		Time:      time.Now().UTC(),
		Method:    call.Method,
		Path:      call.Path,
		Query:     call.Query,
		ID:        call.Header.Get("X-Webhook-Id"),
		Headers:   fault.RedactHeader(call.Header),
		BodyBytes: len(call.Body),
		Truncated: call.Truncated,
		Signature: Verify(s.opts.Secrets, call.Header, call.Body),
		Fault:     scripted,
	}
	if utf8.Valid(call.Body) {
		a.Body = string(call.Body)
	} else {
		a.BodyBase64 = call.Body
	}
	s.arrivals.Add(a, len(call.Body))
	if s.opts.Log != nil {
		s.opts.Log.InfoContext(r.Context(), "arrival",
			"method", a.Method, "path", a.Path, "id", a.ID, "event", call.Header.Get("X-Webhook-Event"),
			"attempt", call.Header.Get("X-Webhook-Attempt"), "bytes", a.BodyBytes, "signature", a.Signature, "fault", scripted)
	}
}

func selects(path, id string) func(Arrival) bool {
	return func(a Arrival) bool {
		return (path == "" || a.Path == path) && (id == "" || a.ID == id)
	}
}
