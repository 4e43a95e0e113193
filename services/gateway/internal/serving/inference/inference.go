// Package inference is the pipeline of all completions: admit, plan, resolve keys, try the candidates in turn, meter.
// Package api calls it for the native API and the compatible faces.
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
	"switchyard.dev/services/gateway/internal/governance/keyterm"
	"switchyard.dev/services/gateway/internal/governance/steering"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/secret"
)

// Planner orders the candidates of a request.
type Planner interface {
	Plan(r routing.Request) (routing.Plan, error)
}

// Keys returns the credentials for a provider that can be used now, at least one. The error is keyring.ErrNoKey where
// there is none, and another one where the organization's own can't be read.
type Keys interface {
	Resolve(ctx context.Context, scope keyring.Scope, provider string) ([]provider.Credential, error)
}

// Ledger records what is billed.
type Ledger interface {
	// Ready returns nil when an entry can be taken.
	Ready(ctx context.Context) error
	// Commit returns once the entry is safe: the end of the process can't lose it from then on.
	Commit(ctx context.Context, entry ledger.Entry) error
}

// Prices returns the cost of a usage, and that of a request in a batch job.
type Prices interface {
	Cost(provider, model string, at time.Time, u provider.Usage) price.Cost
	CostInBatch(provider, model string, at time.Time, u provider.Usage) price.Cost
}

// Fleet is the content of a policy file, all of one version. A request keeps the Fleet that it began with, so that a
// reload changes nothing while it runs.
type Fleet struct {
	Planner Planner
	// Keys are those of this version's providers, so that the key of one version is never sent to an address of another.
	Keys      Keys
	Providers map[string]provider.Provider
	// Choices are how a credential is chosen of the providers that have several.
	Choices map[string]policy.Choice
	Prices  Prices
	// CacheTTL returns how long answers of an organization are cached; 0 is not at all. A nil func caches no answers.
	CacheTTL func(organization string) time.Duration
	// NeedsApproval reports whether calls of a tool need an approval. A nil func requires none.
	NeedsApproval func(tool string) bool
	// Hedge returns when requests of a goal are hedged. A nil func hedges none.
	Hedge func(goal policy.Goal) policy.Hedge
	// Limits are those of credentials and organizations; nil for none.
	Limits Limits
	// QuotaWait is how long a request may wait until limits have room.
	QuotaWait time.Duration
	// ServesUnpriced reports whether calls under a ceiling may use models without a price, which then count as free.
	ServesUnpriced bool
	// Version is that of the files that the Fleet was read from.
	Version string
}

func (f *Fleet) cacheTTL(organization string) time.Duration {
	if f.CacheTTL == nil {
		return 0
	}
	return f.CacheTTL(organization)
}

// CanaryRecorder counts the outcome of requests while a canary is set.
type CanaryRecorder interface{ Record(s steering.CanarySample) }

// Clocks bound the waits of a call. The transport bounds the time to connect.
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

// Options of an Engine. All but Health, Quotas, Answers, Admission, Approvals, Recorder,
// Canary, Pseudonym, Memory and After are required.
type Options struct {
	// Fleet returns the one in force; it is called once a request.
	Fleet  func() *Fleet
	Ledger Ledger
	// Images fetches images for providers that can't.
	Images ImageSource
	// Health decides which providers may be called now; nil makes a Monitor that other replicas don't share.
	Health *health.Monitor
	// Quotas are the books of the limits of tokens and requests; nil holds nothing to them.
	Quotas Quotas
	// Answers is the response cache; nil for none.
	Answers Answers
	// Admission decides which requests may run; nil admits every request.
	Admission Admission
	// Approvals reads the approvals of tool calls; nil where there are none.
	Approvals Approvals
	// Recorder records the outcome of requests; nil records nothing.
	Recorder Recorder
	// Canary counts the outcome of requests while a canary is set; nil counts none.
	Canary CanaryRecorder
	// Pseudonym returns the name by which vendors know an end user of an organization; see NewPseudonym. Nil makes
	// those without a key.
	Pseudonym func(organization, user string) string
	// Memory bounds the memory that answers of vendors take; nil bounds single answers only.
	Memory *memory.Budget
	// After defers work that the answer doesn't wait for until the answer has been written; nil does it at once. The
	// ledger row, the request's place among the calls in flight and the record of its circuit are never deferred.
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
	hedges  hedgeBudgets
	usual   usualOutputs
}

// New returns an Engine, or an error of the meter.
func New(o Options) (*Engine, error) {
	m, err := newMetrics(o.Meter)
	if err != nil {
		return nil, fmt.Errorf("inference: %w", err)
	}
	if o.After == nil {
		o.After = func(_ context.Context, f func()) { f() }
	}
	if o.Pseudonym == nil {
		o.Pseudonym = NewPseudonym(secret.Value{})
	}
	if o.Health == nil {
		o.Health = health.New(health.Options{Log: o.Log})
	}
	return &Engine{Options: o, metrics: m}, nil
}

// Request is one completion to serve.
type Request struct {
	// ID of the request, chosen by the caller or generated.
	ID string
	// Organization pays; Key is the customer key, Service the first-party caller and Run the session, as far as they are
	// known.
	Organization, Key, Service, Run string
	// User is on whose behalf the request is made; empty if the caller named none.
	User string
	// KeyTerms are the limits of the customer key.
	KeyTerms keyterm.Terms
	Route    routing.Request
	// Byok is how to use the organization's own credentials; empty: as the policy says. ByokProvider is the only provider
	// whose own credential is used; empty is any.
	Byok         keyring.Mode
	ByokProvider string
	// Locale to answer in; empty leaves it to the model. ForceLocale applies it whatever language the input is in.
	Locale      string
	ForceLocale bool
	// Bounds are the fields of a native body that affect the size and the price of its answer.
	Bounds Bounds
	// ShowsReasoning reports whether the answer has a place for the model's reasoning, which then is the beginning of an
	// answer. KeepsAnswer reports whether a streamed answer is kept until its end, where it is repeated whole.
	ShowsReasoning, KeepsAnswer bool
	// ShowsImages reports whether the answer has a place for images that the model generates.
	ShowsImages bool
	// BypassCache skips the response cache.
	BypassCache bool
	// Stored reports whether the answer is stored for later requests. Such a request is never hedged.
	Stored bool
	// Metadata are the caller's labels. ApprovalRef names the approval of the answer's tool calls.
	Metadata    map[string]string
	ApprovalRef string
	// Tags are the caller's labels of what the request costs; see package tag.
	Tags map[string]string
	// Raw is the request as it arrived, ReplayOf the request that it repeats; both are only recorded. Probe marks an
	// operator's probe in the ledger.
	Raw      trace.RawRequest
	ReplayOf string
	Probe    bool

	// What is asked for, by Route.Operation: the conversation of a chat or a question about an image, texts or tokens to
	// embed, or images to make. The model is set for each candidate.
	Chat         provider.Chat
	Embedding    provider.Embedding
	ImageRequest provider.ImageRequest
	// Hints are the fields of a chat that no answer depends on, by their names in the caller's form.
	Hints []provider.HintField
	// Relay is a call that is only relayed; nil for one of the contract's operations.
	Relay *provider.Relay
}

// Shows reports whether an event shows the caller something.
func (r *Request) Shows(e provider.Event) bool {
	return e.Shown() || r.ShowsReasoning && e.Reasoning != ""
}

// Route is how a request was served, known before the first byte of the answer.
type Route struct {
	Provider, Model string
	Attempts        int
	// Hedged is the target whose call was ended because another call of the request answered first; zero for none.
	Hedged provider.Target
	// Queued is how long the request waited until limits had room; zero if it did not wait.
	Queued time.Duration
	// Overhead is the time spent in the gateway and not waiting for providers, nor for limits.
	Overhead time.Duration
	// Warning is for the caller, about the model it asked for; empty for none.
	Warning string
	// Ignored names the hints of the request that the provider that served did not get.
	Ignored []string
}

// Completion is a whole answer.
type Completion struct {
	Text, Reasoning string
	ToolCalls       []provider.ToolCall
	// Citations and Images are as in provider.Answer.
	Citations    []provider.Citation
	Images       []string
	FinishReason provider.FinishReason
	Report       ledger.Report
	Route        Route
	// Native is the vendor's whole answer; see provider.Chat.
	Native json.RawMessage

	record *record
}

// Wrote sets the answer as it was encoded in the contract's form, so that its trace has the same bytes. It may be
// called only before the engine's After runs.
func (c *Completion) Wrote(text json.RawMessage) {
	if c.record != nil {
		c.record.Answer.Written = text
	}
}
