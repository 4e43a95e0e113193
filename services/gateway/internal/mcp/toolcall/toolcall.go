// Package toolcall puts the checks of a tool's call in order: the organization and its run, trust in the server, the
// reviewed definition, the arguments, the policy's rules, approval, and the limits of the server. Only then the call
// leaves, once, and its ledger row is safe before its answer is complete. Lists of tools pass the same decision, so that
// a list shows what a call would pass but for its arguments. Package api calls it; what it needs is declared here and
// wired in internal/app.
package toolcall

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/metric"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/capacity/quota"
	"switchyard.dev/services/gateway/internal/governance/keyterm"
	"switchyard.dev/services/gateway/internal/governance/toolrule"
	"switchyard.dev/services/gateway/internal/governance/trust"
	"switchyard.dev/services/gateway/internal/mcp/definition"
	"switchyard.dev/services/gateway/internal/mcp/input"
	"switchyard.dev/services/gateway/internal/mcp/task"
	"switchyard.dev/services/gateway/internal/mcp/ticket"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/admission"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/gateway/internal/serving/trace"
)

// Asker is who lists or calls tools.
type Asker struct {
	RequestID string
	// Organization pays; Key is the customer key, Service the first-party caller, Run the run and User on whose behalf the
	// call is made, as far as they are known.
	Organization, Key, Service, Run, User string
	// KeyTerms are the limits of the customer key.
	KeyTerms keyterm.Terms
	// Tags are the caller's labels of what the call costs.
	Tags map[string]string
}

// Name is a tool by the name that its caller uses: the tool's own name at a server, or its exposed name where Server is
// empty.
type Name struct{ Server, Tool string }

// Request is one call of a tool.
type Request struct {
	Asker
	Tool Name
	// Arguments are as they arrived; empty for none.
	Arguments json.RawMessage
	// Meta are the members of _meta that are the caller's own, not the protocol's.
	Meta map[string]json.RawMessage
	// Progress gets the reports of the server; nil for none. It is called by one goroutine at a time.
	Progress func(upstream.Progress)
	// Log gets the log messages of the server, in the same way.
	Log    upstream.Log
	Client Client
}

// Client is what a caller can be asked in the course of its request. The zero value can't be asked anything.
type Client struct {
	// Capabilities are what the caller declared, an object; nil for none, and where it can't be asked: without Ask, it has
	// to understand results that require input.
	Capabilities json.RawMessage
	// Tasks reports that the caller takes a task in place of a result.
	Tasks bool
	// Inputs are the answers of a later round, and State the state that it brings, as they arrived; nil and empty for a
	// first round.
	Inputs json.RawMessage
	State  string
	// Ask puts requests, as input.Request.Screen has returned them, to the caller while its request goes on, and returns
	// the answers by their keys, as they arrived. Nil where that can't be.
	Ask func(ctx context.Context, asked []input.Request) (map[string]json.RawMessage, error)
}

// comesAgain reports whether the caller understands results that require input.
func (c *Client) comesAgain() bool { return c.Ask == nil && c.Capabilities != nil }

// Answer is the answer to a Request.
type Answer struct {
	upstream.Result
	// Server and Tool say who answered, by the tool's own name.
	Server, Tool string
}

// Registry holds the registered servers with what was reviewed of them; see definition.Registry. No method waits for a
// store.
type Registry interface {
	// Find returns the server that an organization calls by an ID, Prefixed the one by the prefix of exposed names; nil
	// for none.
	Find(organization, id string) *definition.Entry
	Prefixed(organization, prefix string) *definition.Entry
	// Exposed returns the servers of an organization whose tools have exposed names.
	Exposed(organization string) []*definition.Entry
}

// Texts returns the tools of an entry with their definitions, sorted by name; see definition.Texts.
type Texts interface {
	Of(ctx context.Context, e *definition.Entry) ([]definition.Reviewed, error)
}

// Listings keeps the listings of servers up to date.
type Listings interface {
	// Used notes that a server is in use. It doesn't wait.
	Used(server toolserver.Key)
	// Refresh returns once the listing of a server that the Registry has is at most age old.
	Refresh(ctx context.Context, server toolserver.Key, age time.Duration) error
}

// Trust returns the levels of trust that are in force.
type Trust interface {
	// Level returns the level of a server for an organization; trust.Untrusted where none was assigned. It is an error
	// where the levels that are known may be out of date.
	Level(organization, server string) (trust.Level, error)
}

// Policy is the part of the policy that is about tools. A request keeps the one that it began with.
type Policy struct {
	Rules *toolrule.Rules
	// Version is the policy's.
	Version string
}

// Admission decides which requests may run now; see admission.Controller.
type Admission interface {
	Admit(ctx context.Context, organization, run string, key keyterm.Terms) (admission.Grant, error)
}

// Limits bounds the calls of servers; see quota.Books.
type Limits interface {
	TryReserve(ctx context.Context, d quota.Demand) (*quota.Reservation, error)
}

// Circuits hold an organization's calls back from servers that have failed; see health.Set.
type Circuits interface {
	// Acquire lets a call through, or returns why not. done is called once, with how the call ended.
	Acquire(ctx context.Context, c health.Circuit) (done func(ctx context.Context, v health.Verdict), refused *health.Refusal)
}

// Upstream calls servers; see upstream.Client.
type Upstream interface {
	// Call makes one call, and never repeats it once it may have reached the server. The error is a *wire.Error for an
	// answer that is an error of the protocol, and otherwise an *upstream.Error. The answer is charged to the memory.Hold of
	// ctx.
	Call(ctx context.Context, server *toolserver.Server, call *upstream.Call) (upstream.Result, error)
	// Query makes one query, in the same way.
	Query(ctx context.Context, server *toolserver.Server, query *upstream.Query) (upstream.Result, error)
	// Follow receives notices of resources until the stream ends.
	Follow(ctx context.Context, server *toolserver.Server, follow *upstream.Follow) error
	// Task asks about a task, and FollowTasks receives notices of tasks until the stream ends.
	Task(ctx context.Context, server *toolserver.Server, query *upstream.TaskQuery) (*task.Task, error)
	FollowTasks(ctx context.Context, server *toolserver.Server, follow *upstream.TaskFollow) error
}

// Ledger records what is billed.
type Ledger interface {
	// Ready returns nil when an entry can be taken.
	Ready(ctx context.Context) error
	// Commit returns once the entry is safe.
	Commit(ctx context.Context, entry ledger.Entry) error
}

// Recorder records the outcome of requests; see trace.Recorder.
type Recorder interface {
	Observe(organization string) (keep int, ok bool)
	Record(ctx context.Context, o *trace.Observation)
}

// Options of a Caller. All but Approvals, Tickets, Claims, Sampler, Recorder, Memory and After are required.
type Options struct {
	Registry Registry
	Texts    Texts
	Listings Listings
	// Offerings are what servers offer beside tools.
	Offerings Offerings
	Trust     Trust
	// Policy returns the one in force; it is called once a request.
	Policy    func() Policy
	Admission Admission
	// Approvals asks for approvals; with nil no call is approved. A call that waits for its decision is held for Hold.
	Approvals Approvals
	Hold      time.Duration
	// ApprovalPages are where callers are sent to whose calls wait for approval; empty for no page.
	ApprovalPages ApprovalPages
	// Tickets seals what callers bring back, and Claims keeps which of it was used. Where either is nil, servers can ask
	// callers for nothing, and no call becomes a task.
	Tickets  *ticket.Tickets
	Claims   Claims
	Limits   Limits
	Circuits Circuits
	Upstream Upstream
	// Sampler answers servers that ask for completions, where the policy says so; nil answers none.
	Sampler Sampler
	Ledger  Ledger
	// Recorder records outcomes; nil records nothing.
	Recorder Recorder
	// Memory bounds the memory that answers take; nil bounds single answers only.
	Memory *memory.Budget
	// After defers work that the answer doesn't wait for; nil does it at once.
	After func(ctx context.Context, f func())
	Log   *slog.Logger
	Meter metric.Meter
}

// Caller lists and calls tools. Safe for concurrent use.
type Caller struct {
	Options
	schemas schemas
	metrics *metrics
	// finished are the tasks whose end was recorded.
	finished *finished
}

// New returns a Caller, or an error of the meter.
func New(o Options) (*Caller, error) {
	m, err := newMetrics(o.Meter)
	if err != nil {
		return nil, err
	}
	if o.After == nil {
		o.After = func(_ context.Context, f func()) { f() }
	}
	return &Caller{Options: o, schemas: newSchemas(), metrics: m, finished: newFinished()}, nil
}
