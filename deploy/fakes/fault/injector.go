package fault

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"switchyard.dev/deploy/fakes/journal"
)

const (
	defaultMaxBody = 1 << 20
	maxRecords     = 2000
	maxRecordBody  = 64 << 10
	maxRecordBytes = 8 << 20
	maxCounters    = 10_000
)

// Options configures an Injector for its fake. All are optional.
type Options struct {
	// MaxBody is the maximum of bytes read of a request body; default 1 MiB.
	MaxBody int64
	// RedactPath hides the secrets in a path before it is recorded.
	RedactPath func(path string) string
	// ErrorBody returns the vendor's content type and text for an error status.
	ErrorBody func(r *http.Request, status int, retryAfter string) (contentType, body string)
	// StreamError returns the vendor's in-band error: whole stream events. The
	// data is the script's own text or empty.
	StreamError func(r *http.Request, status int, data string) string
	// Behaviours are the fake's own, beside those of every fake; one of the same name
	// replaces the other.
	Behaviours []Behaviour
	// Secrets are what the fake shares with its clients, for behaviours that repeat them.
	Secrets []string
	// Check refuses an action that the fake cannot obey.
	Check func(Action) error
	// Observe is called with each call once it is read, before anything is answered.
	// The fault is the action's summary, empty when no rule matched.
	Observe func(r *http.Request, call Call, fault string)
}

// Injector holds a running script and a record of the calls. It is safe for concurrent use.
type Injector struct {
	opts Options
	log  *journal.Journal[Record]
	// behaviours are all that a script may name.
	behaviours map[string]Behaviour
	face       http.Handler // set by Handler

	mu     sync.Mutex
	rules  []Rule
	counts map[string]int
}

// Record is one call as GET /_calls shows it: credentials hashed, bodies up to
// 64 KiB and only when they are text.
type Record struct {
	Time      time.Time   `json:"time"`
	Method    string      `json:"method"`
	Path      string      `json:"path"`
	Query     string      `json:"query,omitempty"`
	Headers   http.Header `json:"headers,omitempty"`
	Body      string      `json:"body,omitempty"`
	BodyBytes int         `json:"body_bytes"`
	// Fault is the summary of the action that a rule gave, empty without one.
	Fault string `json:"fault"`
}

// Report is the answer of GET /_calls. Counts are keyed "METHOD path"; Last
// holds the newest calls, oldest first.
type Report struct {
	Total  int            `json:"total"`
	Counts map[string]int `json:"counts"`
	Last   []Record       `json:"last"`
}

// NewInjector returns an injector that runs a script. It panics when the script is not valid, since a script given
// here is part of a program.
func NewInjector(script Script, opts Options) *Injector {
	if opts.MaxBody == 0 {
		opts.MaxBody = defaultMaxBody
	}
	in := &Injector{
		opts:   opts,
		log:    journal.New[Record](maxRecords, maxRecordBytes),
		counts: map[string]int{},

		behaviours: byName(opts.Behaviours),
	}
	if err := in.Append(script); err != nil {
		panic("fault: " + err.Error())
	}
	return in
}

// Append adds rules after those that are left. On an error nothing changes.
func (in *Injector) Append(script Script) error {
	return in.install(script, true)
}

// Replace replaces the running script. On an error nothing changes.
func (in *Injector) Replace(script Script) error {
	return in.install(script, false)
}

func (in *Injector) install(script Script, keep bool) error {
	if err := script.Validate(); err != nil {
		return err
	}
	for _, rule := range script.Rules {
		if err := in.check(rule.Action); err != nil {
			return err
		}
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	var before []Rule
	if keep {
		before = in.rules
	}
	if len(before)+len(script.Rules) > maxRules {
		return errors.New("too many rules: clear the script first")
	}
	in.rules = slices.Concat(before, script.Rules)
	return nil
}

// check returns an error for an action that the fake cannot obey.
func (in *Injector) check(a Action) error {
	if _, known := in.behaviours[a.Hostile]; a.Hostile != "" && !known {
		return fmt.Errorf("hostile: there is no behaviour %q", a.Hostile)
	}
	if in.opts.Check == nil {
		return nil
	}
	return in.opts.Check(a)
}

// ClearScript drops all rules.
func (in *Injector) ClearScript() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.rules = nil
}

// Script returns the rules that are left, with their remaining times.
func (in *Injector) Script() Script {
	in.mu.Lock()
	defer in.mu.Unlock()
	return Script{Rules: slices.Clone(in.rules)}
}

// Next records a call and returns what is to happen to it. Without a matching
// rule the action is empty and matched is false.
func (in *Injector) Next(call Call) (action Action, matched bool) {
	if name, _ := hostilePath(call.Path); name != "" {
		action, matched = Action{Hostile: name}, true
	} else {
		in.mu.Lock()
		action, in.rules, matched = Decide(in.rules, call)
		in.mu.Unlock()
	}
	in.note(call, action, matched)
	return action, matched
}

// note records a call and its action.
func (in *Injector) note(call Call, action Action, matched bool) {
	path := call.Path
	if in.opts.RedactPath != nil {
		path = in.opts.RedactPath(path)
	}
	in.mu.Lock()
	key := call.Method + " " + path
	if _, known := in.counts[key]; !known && len(in.counts) >= maxCounters {
		key = "other"
	}
	in.counts[key]++
	in.mu.Unlock()

	in.log.Add(record(call, path, faultOf(action, matched), time.Now()), min(len(call.Body), maxRecordBody))
}

// Calls returns the calls since the start or the last ClearCalls.
func (in *Injector) Calls() Report {
	in.mu.Lock()
	counts := maps.Clone(in.counts)
	in.mu.Unlock()
	return Report{Total: in.log.Total(), Counts: counts, Last: in.log.Last(maxRecords, nil)}
}

// ClearCalls drops all recorded calls.
func (in *Injector) ClearCalls() {
	in.mu.Lock()
	defer in.mu.Unlock()
	clear(in.counts)
	in.log.Clear()
}

func record(call Call, path, fault string, now time.Time) Record {
	rec := Record{
		Time:      now.UTC(),
		Method:    call.Method,
		Path:      path,
		Query:     redactQuery(call.Query),
		Headers:   RedactHeader(call.Header),
		BodyBytes: len(call.Body),
		Fault:     fault,
	}
	if len(call.Body) <= maxRecordBody && utf8.Valid(call.Body) {
		rec.Body = string(call.Body)
	}
	return rec
}

func faultOf(action Action, matched bool) string {
	if !matched {
		return ""
	}
	return action.Summary()
}
