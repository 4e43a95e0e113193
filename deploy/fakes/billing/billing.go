// Package billing fakes the usage APIs of three billing systems: Stripe's billing meter events (POST
// /v1/billing/meter_events, and the stream at /v2/billing), OpenMeter (POST /api/v1/events) and Lago (POST
// /api/v1/events/batch). Like them it refuses what they refuse, and counts an event that it has only once.
package billing

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"switchyard.dev/deploy/fakes/fault"
	"switchyard.dev/deploy/fakes/journal"
)

const (
	maxEvents = 100_000
	maxBytes  = 64 << 20
)

// Event is an event that was counted.
type Event struct {
	Dialect    string    `json:"dialect"`
	Identifier string    `json:"identifier"`
	Name       string    `json:"name"`
	Customer   string    `json:"customer"`
	Value      string    `json:"value"`
	Time       time.Time `json:"time"`
}

// Server is the three systems. Its embedded Injector scripts them.
type Server struct {
	*fault.Injector
	events  *journal.Journal[Event]
	handler http.Handler

	mu sync.Mutex
	// known has the value of each event by dialect and identifier.
	known    map[[2]string]string
	repeated int
	// changed are identifiers that came with another value than before.
	changed []string
	// sessions has the ends of the sessions of Stripe's stream by their tokens.
	sessions map[string]time.Time
}

// New returns systems without events that follow script. It panics on an invalid one.
func New(script fault.Script) *Server {
	s := &Server{events: journal.New[Event](maxEvents, maxBytes), known: make(map[[2]string]string), sessions: make(map[string]time.Time)}
	s.Injector = fault.NewInjector(script, fault.Options{ErrorBody: errorBody})
	control := http.NewServeMux()
	fault.ServeJournal(control, "events", s.events, byDialect)
	control.HandleFunc("GET /_repeats", s.repeats)
	face := http.NewServeMux()
	face.HandleFunc("POST /v1/billing/meter_events", authorized(s.stripe))
	face.HandleFunc("POST /v2/billing/meter_event_session", authorized(s.stripeSession))
	face.HandleFunc("POST /v2/billing/meter_event_stream", authorized(s.stripeStream))
	face.HandleFunc("POST /api/v1/events", authorized(s.openMeter))
	face.HandleFunc("POST /api/v1/events/batch", authorized(s.lago))
	s.handler = s.Handler(control, face)
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// byDialect selects the events of a dialect.
func byDialect(q url.Values) func(Event) bool {
	dialect := q.Get("dialect")
	return func(e Event) bool { return dialect == "" || e.Dialect == dialect }
}

// repeats answers how often an event came again, and which came with another value.
func (s *Server) repeats(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fault.WriteJSON(w, http.StatusOK, map[string]any{"repeated": s.repeated, "changed": append([]string{}, s.changed...)})
}

// has reports whether an event came before. It notes whether it came with another value.
func (s *Server) has(e Event) bool {
	known, ok := s.known[[2]string{e.Dialect, e.Identifier}]
	if !ok {
		return false
	}
	s.repeated++
	if known != e.Value {
		s.changed = append(s.changed, e.Identifier)
	}
	return true
}

// count adds an event.
func (s *Server) count(e Event) {
	s.known[[2]string{e.Dialect, e.Identifier}] = e.Value
	s.events.Add(e, len(e.Identifier)+len(e.Name)+len(e.Customer)+len(e.Value)+64)
}

func authorized(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if key, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); !ok || key == "" {
			contentType, body := errorBody(r, http.StatusUnauthorized, "")
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(body))
			return
		}
		next(w, r)
	}
}

// errorBody returns an error in the format of the system that was called.
func errorBody(r *http.Request, status int, _ string) (contentType, body string) {
	text := http.StatusText(status)
	var answer any
	switch dialectOf(r.URL.Path) {
	case "stripe":
		kind := "api_error"
		if status < http.StatusInternalServerError {
			kind = "invalid_request_error"
		}
		answer = map[string]any{"error": map[string]any{"type": kind, "message": text}}
	case "lago":
		answer = map[string]any{"status": status, "error": text}
	default:
		raw, _ := json.Marshal(problem(status, text))
		return "application/problem+json", string(raw)
	}
	raw, _ := json.Marshal(answer)
	return "application/json", string(raw)
}

func dialectOf(path string) string {
	switch {
	case strings.HasPrefix(path, "/v1/billing/"), strings.HasPrefix(path, "/v2/billing/"):
		return "stripe"
	case strings.HasSuffix(path, "/events/batch"):
		return "lago"
	}
	return "openmeter"
}

// problem is an error of OpenMeter (RFC 9457).
func problem(status int, detail string) map[string]any {
	return map[string]any{"type": "about:blank", "title": http.StatusText(status), "status": status, "detail": detail}
}

// number checks that a value is a decimal number, or a whole one.
func number(value string, whole bool) error {
	digits := strings.TrimPrefix(value, "-")
	if !whole {
		digits = strings.Replace(digits, ".", "", 1)
	}
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return fmt.Errorf("invalid value %q", value)
	}
	return nil
}
