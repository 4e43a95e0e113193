package fault

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
)

// hostilePrefix is the prefix of paths that name a behaviour: /hostile/<name>/<path> is the fake's <path> with that
// behaviour, without a script.
const hostilePrefix = "/hostile/"

// Outcome is how a careful client that needs the body handles a behaviour.
type Outcome string

// The outcomes.
const (
	// Served: the fake's own answer arrives, whole and alone.
	Served Outcome = "served"
	// Refused: there is no answer to use, and the call fails.
	Refused Outcome = "refused"
	// ServedOrRefused: the fake's own answer arrives whole and alone, or the call fails.
	ServedOrRefused Outcome = "served or refused"
	// Open: clients may handle it in any way, as long as they come to an end.
	Open Outcome = "open"
)

// Behaviour is one way to misbehave. A script names it in the hostile field, a caller in the path. Behaviours end
// when the client leaves; each is also bounded in bytes and in time.
type Behaviour struct {
	Name string
	// Effect describes what the client gets.
	Effect  string
	Outcome Outcome
	// Early behaviours answer before the request's body is read.
	Early bool
	// StreamOnly behaviours are for requests that ask for events; other requests
	// get the usual answer.
	StreamOnly bool

	Act func(*Exchange)
}

// Exchange is one call that a behaviour answers.
type Exchange struct {
	Writer  http.ResponseWriter
	Request *http.Request
	// Body is the request's, empty for early behaviours.
	Body []byte
	// Secrets holds what the fake knows of its client beside what was sent.
	Secrets []string

	own  http.Handler
	face http.Handler // of the whole fake
}

// Behaviours returns those that every HTTP fake has, in the order of the documentation.
func Behaviours() []Behaviour {
	return slices.Concat(deepBehaviours, endlessBehaviours, lengthBehaviours, surplusBehaviours, refusalBehaviours,
		repeatBehaviours, garbageBehaviours, cutBehaviours())
}

func served(name, effect string, act func(*Exchange)) Behaviour {
	return Behaviour{Name: name, Effect: effect, Outcome: Served, Act: act}
}

func refused(name, effect string, act func(*Exchange)) Behaviour {
	return Behaviour{Name: name, Effect: effect, Outcome: Refused, Act: act}
}

func alone(name, effect string, act func(*Exchange)) Behaviour {
	return Behaviour{Name: name, Effect: effect, Outcome: ServedOrRefused, Act: act}
}

func refusedEarly(name, effect string, act func(*Exchange)) Behaviour {
	return Behaviour{Name: name, Effect: effect, Outcome: Refused, Early: true, Act: act}
}

func open(name, effect string, act func(*Exchange)) Behaviour {
	return Behaviour{Name: name, Effect: effect, Outcome: Open, Act: act}
}

// byName returns the behaviours of a fake, those of every fake and its own, by name.
func byName(own []Behaviour) map[string]Behaviour {
	all := map[string]Behaviour{}
	for _, b := range slices.Concat(Behaviours(), own) {
		all[b.Name] = b
	}
	return all
}

// hostilePath splits a path that names a behaviour.
func hostilePath(path string) (name, rest string) {
	after, found := strings.CutPrefix(path, hostilePrefix)
	if !found {
		return "", path
	}
	name, rest, _ = strings.Cut(after, "/")
	return name, "/" + rest
}

// takeEarly returns the early behaviour that applies to a call of which only the
// head is known. A rule by body can't apply to it.
func (in *Injector) takeEarly(call Call) (Action, Behaviour, bool) {
	if name, _ := hostilePath(call.Path); name != "" {
		b := in.behaviours[name]
		return Action{Hostile: name}, b, b.Early
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	for i, rule := range in.rules {
		if b := in.behaviours[rule.Action.Hostile]; b.Early && rule.Match.accepts(call) {
			action, left, _ := Decide(in.rules[i:], call)
			in.rules = slices.Concat(in.rules[:i], left)
			return action, b, true
		}
	}
	return Action{}, Behaviour{}, false
}

// misbehave carries out a behaviour.
func (in *Injector) misbehave(w http.ResponseWriter, r *http.Request, b Behaviour, own http.Handler) {
	var body []byte
	if !b.Early {
		body, _ = io.ReadAll(r.Body) // it is in memory
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	if b.StreamOnly && !asksForEvents(r, body) {
		own.ServeHTTP(w, r)
		return
	}
	b.Act(&Exchange{Writer: w, Request: r, Body: body, Secrets: in.opts.Secrets, own: own, face: in.face})
}

// asksForEvents reports whether a request is for a stream of events.
func asksForEvents(r *http.Request, body []byte) bool {
	return bytes.Contains(body, []byte(`"stream":true`)) || strings.HasSuffix(r.URL.Path, ":streamGenerateContent") ||
		strings.HasSuffix(r.URL.Path, "/converse-stream") || strings.HasSuffix(r.URL.Path, "/invoke-with-response-stream")
}

// Streams reports whether the request asks for events.
func (x *Exchange) Streams() bool { return asksForEvents(x.Request, x.Body) }

// Own returns the answer that the fake would have given.
func (x *Exchange) Own() Recorded {
	r := x.Request.Clone(x.Request.Context())
	r.Body = io.NopCloser(bytes.NewReader(x.Body))
	rec := &recorder{Recorded: Recorded{Status: http.StatusOK, Header: http.Header{}}}
	x.own.ServeHTTP(rec, r)
	return rec.Recorded
}

// Recorded is an answer that is not sent yet.
type Recorded struct {
	Status int
	Header http.Header
	Body   []byte
}

// head renders the status line and the headers, up to and with the empty line.
func (a Recorded) head(more ...string) string {
	var text strings.Builder
	text.WriteString(statusLine(a.Status))
	_ = a.Header.Write(&text) // a builder takes everything
	for _, line := range more {
		text.WriteString(line + "\r\n")
	}
	return text.String() + "\r\n"
}

func statusLine(status int) string {
	return "HTTP/1.1 " + statusText(status) + "\r\n"
}

// recorder keeps an answer in memory.
type recorder struct {
	Recorded

	wrote bool
}

func (r *recorder) Header() http.Header { return r.Recorded.Header }

func (r *recorder) WriteHeader(status int) {
	if !r.wrote && status >= http.StatusOK {
		r.wrote, r.Status = true, status
	}
}

func (r *recorder) Write(p []byte) (int, error) {
	r.wrote = true
	r.Body = append(r.Body, p...)
	return len(p), nil
}
