package routing

import (
	"time"

	"switchyard.dev/services/gateway/internal/governance/steering"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// Reasons why a request can't be planned.
const (
	ReasonModelNotFound         apierr.Reason = "model_not_found"
	ReasonProviderUnknown       apierr.Reason = "provider_unknown"
	ReasonCapabilityUnsupported apierr.Reason = "capability_unsupported"
	ReasonContextOverflow       apierr.Reason = "context_overflow"
)

// Request is what a caller asked for, as far as it matters for the choice of a provider.
type Request struct {
	// Operation that a candidate must be able to do; empty is chat.
	Operation provider.Operation
	// Organization is the one whose rules apply; Run is the run that the request is part of, or empty.
	Organization, Run string
	// Classification of the data, for the organization's rules; empty is the policy's default.
	Classification string
	// Needs are what the request requires of a model; candidates that lack one are left out.
	Needs Needs
	// Affinity is equal for requests that share a provider's prompt cache; 0 is none.
	Affinity uint64
	// Model is a model's name, "provider/model" or DefaultModel.
	Model string
	// Provider that was asked for; empty leaves it to the policy.
	Provider string
	// Goal that was asked for; empty is the policy's default.
	Goal policy.Goal
	// Substitution allows another provider than the one asked for.
	Substitution bool
}

// Needs are what a request requires of a model. The zero value requires nothing.
type Needs struct {
	// Tools, ParallelTools (several tool calls in one turn), Vision, JSON (an object) and JSONSchema report whether the
	// request uses the feature.
	Tools, ParallelTools, Vision, JSON, JSONSchema bool
	// Reasoning reports whether the request requires a model that reasons.
	Reasoning bool
	// Context is the estimated size of the input in tokens, Output the longest allowed answer; 0 is unknown.
	Context, Output int
	// Tokens is the length of the longest input that was sent as tokens, counted and not estimated: only a provider of
	// the very model that was named can read them.
	Tokens int
	// Dimensions of vectors, Images to generate and their Size ("1024x1024"); zero is the model's own choice.
	Dimensions, Images int
	Size               string
	// Dialect is the only dialect that can carry the request as its caller wrote it, and DialectField the field that
	// requires it; empty is any dialect.
	Dialect, DialectField string
	// Form is the dialect in which the request was written; empty is the contract. Offered is "field: tool" for a tool of
	// the vendor's own that the request offers to the model: providers that take the form come first, and where the policy refuses to serve
	// without such tools, no other provider serves. Empty is none.
	Form, Offered string
	// Compacted is the part of the input that one provider has in a shorter form of its own.
	Compacted Compacted
	// Relay is the API of a relayed call, which the provider must have; empty for the contract's operations. Usage is the
	// call's estimated usage.
	Relay string
	Usage provider.Usage
}

// Compacted is what a provider need not read again: the tokens of Context behind its compaction. The zero value is
// nothing.
type Compacted struct {
	Provider string
	Tokens   int
}

// Candidate is a provider and model that may serve a request.
type Candidate struct {
	provider.Target
	// Upstream is the vendor's own name of the model, Identity one name for it at all of its hosts; empty if not known.
	Upstream, Identity string
	// Host is the provider's name in OpenTelemetry's conventions.
	Host string
	// Unlisted reports whether no policy names the model: the request does, at a provider that takes any model name.
	Unlisted bool
	// Lacks are the features that the model does not have, Limits its known sizes.
	Lacks  policy.Feature
	Limits policy.Limits
	// ImageTokens is the usual number of output tokens of an image that the model makes; 0 if not known.
	ImageTokens int
	// Native reports whether the candidate takes the request as its caller wrote it. Hints are those that it takes otherwise.
	Native bool
	Hints  provider.Hint
	// Terms describes what the vendor refuses for the model.
	Terms *provider.Terms
	// Substitute reports whether the candidate replaces what the request asked for: the host that it names, or the model.
	Substitute bool
}

// IsSameModel reports whether two candidates are hosts of one model.
func (c *Candidate) IsSameModel(other *Candidate) bool {
	return policy.IsSameModel(c.Model, c.Identity, other.Model, other.Identity)
}

// Plan is the list of candidates that may serve a request, best first.
type Plan struct {
	// Requested is the provider that the caller asked for, by name or through its model; empty when the caller left the
	// choice open.
	Requested  string
	Candidates []Candidate
	// Excluded lists the candidates that could not or may not serve this request, and why.
	Excluded []Exclusion
	// Pinned and Canary report whether an operator's override made the first choice; Affinity whether the request's
	// affinity did, among offers of equal merit.
	Pinned, Canary, Affinity bool
	// CanaryRevision is the revision of the canary that was in force; 0 is none.
	CanaryRevision int
	// Warning about a deprecated model, for the caller; empty for none.
	Warning string
}

// State is what a plan depends on besides the policy and the request. The zero State is valid and knows nothing.
type State struct {
	Now time.Time
	// Prices order candidates by cost; nil leaves that to the policy's ranks.
	Prices Prices
	// Live reports latency and availability of candidates; nil knows nothing.
	Live Live
	// Lifecycles knows which models are deprecated or retired; nil is none.
	Lifecycles Lifecycles
	Override   steering.Override
	// Last is the target that last served a request of the same affinity, at LastAt; zero is none.
	Last   provider.Target
	LastAt time.Time
}

// Prices returns what a usage costs at a moment.
type Prices interface {
	Cost(provider, model string, at time.Time, u provider.Usage) price.Cost
}

// Live is what the calls made so far show of candidates.
type Live interface {
	// Latency returns the usual wait for the target's first token, or for its answer; false until there are enough
	// calls.
	Latency(t provider.Target) (time.Duration, bool)
	// Available reports whether a call of an organization would be let through here. It would not at an open breaker,
	// while the organization itself is held back, or at a full bulkhead.
	Available(t provider.Target, organization string) bool
}
