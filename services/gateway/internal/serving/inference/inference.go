// Package inference is the one pipeline of completions: admit, plan, resolve
// keys, try the candidates in turn, meter. Package api calls it for both faces.
package inference

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/metric"
	oteltrace "go.opentelemetry.io/otel/trace"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/custody/keyring"
	"switchyard.dev/services/gateway/internal/governance/steering"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Planner orders the candidates of a request.
type Planner interface {
	Plan(r routing.Request) (routing.Plan, error)
}

// Keys finds credentials; the error is keyring.ErrNoKey where there is none, and
// another one where the organization's own can't be read.
type Keys interface {
	Resolve(ctx context.Context, scope keyring.Scope, provider string) (provider.Credential, error)
}

// Ledger records what is billed.
type Ledger interface {
	// Ready is nil when an entry can be taken.
	Ready(ctx context.Context) error
	// Commit returns once the entry is safe: nothing that ends the process can lose
	// it from then on.
	Commit(ctx context.Context, entry ledger.Entry) error
}

// Prices knows what a usage costs.
type Prices interface {
	Cost(provider, model string, at time.Time, u provider.Usage) price.Cost
}

// Fleet is what a policy file makes of the world, all of one version: a request
// keeps the one that it began with, so that a reload changes nothing halfway.
type Fleet struct {
	Planner Planner
	// Keys are those of this version's providers: an address of one version never
	// sees the key of another.
	Keys      Keys
	Providers map[string]provider.Provider
	Prices    Prices
	// CacheTTL returns how long answers of an organization are kept; 0 is not at all.
	// Nil keeps none of any organization.
	CacheTTL func(organization string) time.Duration
	// NeedsApproval reports whether calls of a tool need one. Nil: no tool's do.
	NeedsApproval func(tool string) bool
	// ServesUnpriced lets calls under a ceiling use models without a price, which
	// cost it nothing.
	ServesUnpriced bool
	// Version of the files that it was made of.
	Version string
}

func (f *Fleet) cacheTTL(organization string) time.Duration {
	if f.CacheTTL == nil {
		return 0
	}
	return f.CacheTTL(organization)
}

// CanaryRecorder counts what came of requests while a canary is set.
type CanaryRecorder interface{ Record(s steering.CanarySample) }

// Clocks bound the waits of a call. The time to connect is the transport's.
type Clocks struct {
	// Answer bounds one attempt at a whole answer.
	Answer time.Duration
	// FirstToken bounds one attempt's wait for the first content of a stream.
	FirstToken time.Duration
	// Idle bounds the wait between two events of a stream.
	Idle time.Duration
	// Total bounds a request with all its attempts.
	Total time.Duration
}

// Options of an Engine. All but Health, Answers, Admission, Approvals, Recorder,
// Canary, Memory and After are required.
type Options struct {
	// Fleet gives the present one; it is called once a request.
	Fleet  func() *Fleet
	Ledger Ledger
	// Images are fetched for providers that can't.
	Images ImageSource
	// Health decides who may be called now; nil makes one that other replicas don't share.
	Health *health.Monitor
	// Answers is the response cache; nil where there is none.
	Answers Answers
	// Admission decides who may call; nil admits every request.
	Admission Admission
	// Approvals are people's decisions on tool calls; nil where there are none.
	Approvals Approvals
	// Recorder records what became of requests; nil records nothing.
	Recorder Recorder
	// Canary counts what comes of requests while a canary is set; nil counts none.
	Canary CanaryRecorder
	// Memory bounds what answers of vendors hold; nil bounds single answers only.
	Memory *memory.Budget
	// After puts off what the answer doesn't wait for until it has gone; nil does it
	// at once.
	After  func(ctx context.Context, f func())
	Clocks Clocks
	Log    *slog.Logger
	Meter  metric.Meter
	Tracer oteltrace.Tracer
}

// Engine serves completions. Safe for concurrent use.
type Engine struct {
	Options
	metrics *metrics
}

// New returns an engine.
func New(o Options) (*Engine, error) {
	m, err := newMetrics(o.Meter)
	if err != nil {
		return nil, fmt.Errorf("inference: %w", err)
	}
	if o.After == nil {
		o.After = func(_ context.Context, f func()) { f() }
	}
	if o.Health == nil {
		o.Health = health.New(health.Options{Log: o.Log})
	}
	return &Engine{Options: o, metrics: m}, nil
}

// Request is one completion to serve.
type Request struct {
	// ID of the request, the caller's or ours.
	ID string
	// Organization pays; Key is the customer key, Service the first-party
	// caller and Run the session, as far as they are known.
	Organization, Key, Service, Run string
	Route                           routing.Request
	// Byok is how to use the organization's own credentials; empty: as the policy
	// says. ByokProvider is the only provider whose own is used; empty is any.
	Byok         keyring.Mode
	ByokProvider string
	// Locale to answer in; empty leaves it to the model. ForceLocale makes it
	// hold whatever language the input is in.
	Locale      string
	ForceLocale bool
	// Bounds are what a native body says of the size and the price of its answer.
	Bounds Bounds
	// BypassCache leaves the response cache out of it.
	BypassCache bool
	// Metadata are the caller's labels; ApprovalRef the approval of its tools.
	Metadata    map[string]string
	ApprovalRef string
	// Raw is the request as it came, ReplayOf the request that it repeats; both
	// only for the record. Probe marks an operator's question in the ledger.
	Raw      trace.RawRequest
	ReplayOf string
	Probe    bool

	// What is asked for, by Route.Operation: the conversation of a chat or a
	// question about an image, texts or tokens to embed, or images to make. The model is set
	// for each candidate.
	Chat         provider.Chat
	Embedding    provider.Embedding
	ImageRequest provider.ImageRequest
}

// Route says how a request was served, known before the first byte of the answer.
type Route struct {
	Provider, Model string
	Attempts        int
	// Overhead is the time spent here and not waiting for providers.
	Overhead time.Duration
	// Warning is what the caller should know of the model it asked for; empty for none.
	Warning string
}

// Completion is a whole answer.
type Completion struct {
	Text         string
	ToolCalls    []provider.ToolCall
	FinishReason provider.FinishReason
	Report       ledger.Report
	Route        Route
	// Native is the vendor's whole answer; see provider.Chat.
	Native json.RawMessage

	record *record
}

// Wrote notes how the answer was written in the contract's words, for its trace to
// have the same bytes. Only within a call that the engine's After waits for.
func (c *Completion) Wrote(text json.RawMessage) {
	if c.record != nil {
		c.record.Answer.Written = text
	}
}
