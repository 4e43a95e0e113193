package routing

import (
	"time"

	"switchyard.dev/services/gateway/internal/governance/steering"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// Reasons of a request that can't be planned.
const (
	ReasonModelNotFound         apierr.Reason = "model_not_found"
	ReasonProviderUnknown       apierr.Reason = "provider_unknown"
	ReasonCapabilityUnsupported apierr.Reason = "capability_unsupported"
	ReasonContextOverflow       apierr.Reason = "context_overflow"
)

// Request is what a caller asked to be served by.
type Request struct {
	// Operation that a candidate must be able to do; empty is chat.
	Operation provider.Operation
	// Organization whose rules hold, and Run it is part of (may be empty).
	Organization, Run string
	// Classification of the data, for those rules; empty is the policy's default.
	Classification string
	// Needs are what the request asks of a model; candidates that lack one are left out.
	Needs Needs
	// Affinity is the same for requests that share a provider's prompt cache; 0 is none.
	Affinity uint64
	// Model by its name, as "provider/model", or DefaultModel.
	Model string
	// Provider asked for; empty leaves it to the policy.
	Provider string
	// Goal asked for; empty is the policy's default.
	Goal policy.Goal
	// Substitution allows another provider than the one asked for.
	Substitution bool
}

// Needs are what a request asks of a model. The zero value asks for nothing.
type Needs struct {
	// Tools, ParallelTools (calls of one turn that came together), Vision, JSON
	// (an object) and JSONSchema that the request uses.
	Tools, ParallelTools, Vision, JSON, JSONSchema bool
	// Context is the estimated size of the input in tokens, Output the most that
	// may be answered; 0 is unknown.
	Context, Output int
	// Tokens of the longest input where it came as tokens, counted and not
	// estimated: only a provider of the very model that was named can read them.
	Tokens int
	// Dimensions of vectors, Images to make and their Size ("1024x1024"); zero is
	// the model's own choice.
	Dimensions, Images int
	Size               string
	// Dialect that alone can carry the request as its caller wrote it, and the field
	// because of which; empty is any.
	Dialect, DialectField string
}

// Candidate is a provider and model that may serve a request.
type Candidate struct {
	provider.Target
	// Upstream is the model by the vendor's own name.
	Upstream string
	// Unlisted reports that no policy names the model: the request does, at a provider
	// that takes any.
	Unlisted bool
	// Lacks are the features that the model does not have, Limits what is known of
	// its sizes.
	Lacks  policy.Feature
	Limits policy.Limits
	// Substitute reports that it stands in for what the request asked for.
	Substitute bool
}

// Plan is who may serve a request, best first.
type Plan struct {
	// Requested is the provider that the caller asked for, by name or through
	// its model; empty when the caller left the choice open.
	Requested  string
	Candidates []Candidate
	// Excluded could not serve this request, or may not, and why.
	Excluded []Exclusion
	// Pinned and Canary tell that an operator's override made the first choice,
	// Affinity that the request's own did, among offers of equal merit.
	Pinned, Canary, Affinity bool
	// CanaryRevision is that of the canary that was in force; 0 is none.
	CanaryRevision int
	// Warning is what the caller should know of a deprecated model; empty for none.
	Warning string
}

// State is what a plan depends on besides the policy and the request. The zero
// State is a valid one: nothing is known.
type State struct {
	Now time.Time
	// Prices order candidates by cost; nil leaves that to the policy's ranks.
	Prices Prices
	// Live is what was seen of the candidates lately; nil is nothing.
	Live Live
	// Lifecycles knows which models are deprecated or retired; nil is none.
	Lifecycles Lifecycles
	Override   steering.Override
	// Last is the target that last served requests of the same affinity, at LastAt; zero
	// is none.
	Last   provider.Target
	LastAt time.Time
}

// Prices knows what a usage costs at a moment.
type Prices interface {
	Cost(provider, model string, at time.Time, u provider.Usage) price.Cost
}

// Live is what is known of candidates from calls that were made.
type Live interface {
	// Latency is the usual wait for the target's first token, or for its answer;
	// false until enough calls were seen.
	Latency(t provider.Target) (time.Duration, bool)
	// Available reports whether a call of an organization would be let go here: not at
	// an open breaker, while it is held back itself, or at a full bulkhead.
	Available(t provider.Target, organization string) bool
}
