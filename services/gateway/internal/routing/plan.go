package routing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"switchyard.dev/services/platform/apierr"
)

// Reasons of a request that can't be planned.
const (
	ReasonModelNotFound   apierr.Reason = "model_not_found"
	ReasonProviderUnknown apierr.Reason = "provider_unknown"
)

// Operation is a kind of completion, by the ledger's name.
type Operation string

// The operations.
const (
	OperationChat       Operation = "chat"
	OperationEmbeddings Operation = "embeddings"
	OperationVision     Operation = "vision"
	OperationImages     Operation = "images"
)

// Request is what a caller asked to be served by.
type Request struct {
	// Operation that a candidate must be able to do.
	Operation Operation
	// Organization whose rules hold.
	Organization string
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
	Goal Goal
	// Substitution allows another provider than the one asked for.
	Substitution bool
}

// Needs are what a request asks of a model. The zero value asks for nothing.
type Needs struct {
	// Tools, Vision, JSON (an object) and JSONSchema that the request uses.
	Tools, Vision, JSON, JSONSchema bool
	// Context is the estimated size of the input in tokens, Output the most that
	// may be answered; 0 is unknown.
	Context, Output int
	// Dialect that alone can carry the request as its caller wrote it; empty is any.
	Dialect string
}

// Candidate is a provider and model that may serve a request.
type Candidate struct {
	Target
	// Upstream is the model by the vendor's own name.
	Upstream string
}

// Plan is who may serve a request, best first.
type Plan struct {
	// Requested is the provider that the caller asked for, by name or through
	// its model; empty when the caller left the choice open.
	Requested  string
	Candidates []Candidate
}

// Plan orders the candidates of a request: those that were asked for, then
// other providers of the same model, then the ladder, each ranked by the goal.
func (p *Policy) Plan(r Request) (Plan, error) {
	if r.Goal != "" && !slices.Contains(goals, r.Goal) {
		return Plan{}, apierr.Invalid("optimization_goal", "must be cost, latency or quality")
	}
	if r.Provider != "" && p.byName[r.Provider] == nil {
		return Plan{}, apierr.New(apierr.KindInvalid, ReasonProviderUnknown,
			fmt.Sprintf("provider: no provider %q is configured", r.Provider))
	}
	asked, open, err := p.asked(r)
	if err != nil {
		return Plan{}, err
	}
	var plan Plan
	if !open {
		p.rank(asked, cmp.Or(r.Goal, p.goal))
		plan.Requested = asked[0].Provider
		if !r.Substitution {
			asked = asked[:1]
		}
	}
	if !open && r.Substitution {
		alike := p.listing(asked[0].Model, "")
		p.rank(alike, cmp.Or(r.Goal, p.goal))
		asked = append(asked, alike...)
	}
	if open || r.Substitution {
		ladder := slices.Clone(p.ladder)
		p.rank(ladder, cmp.Or(r.Goal, p.goal))
		asked = append(asked, ladder...)
	}
	for _, target := range asked {
		model, _ := p.byName[target.Provider].model(target.Model)
		candidate := Candidate{target, cmp.Or(model.Upstream, model.Name)}
		if !slices.Contains(plan.Candidates, candidate) {
			plan.Candidates = append(plan.Candidates, candidate)
		}
	}
	return plan, nil
}

// asked lists the targets that a request names; open tells that it named none,
// and the list is the policy's own choice.
func (p *Policy) asked(r Request) (targets []Target, open bool, err error) {
	provider := p.byName[r.Provider]
	switch isDefault := r.Model == "" || r.Model == DefaultModel; {
	case isDefault && provider != nil:
		if len(provider.Models) == 0 {
			return nil, false, apierr.Invalid("model", "is required with the provider "+provider.Name)
		}
		return []Target{{provider.Name, provider.Models[0].Name}}, false, nil
	case isDefault && r.Goal != "":
		return append(slices.Clone(p.ranks[r.Goal]), p.fallback), true, nil
	case isDefault:
		return []Target{p.fallback}, true, nil
	}
	if targets = p.named(r.Model, r.Provider); len(targets) > 0 {
		return targets, false, nil
	}
	return nil, false, apierr.New(apierr.KindNotFound, ReasonModelNotFound, fmt.Sprintf(
		"model: no configured provider has %q; the configured ones are in GET /v1/models/catalog", r.Model))
}

// named finds the providers that serve a model: the one that its prefix names,
// or all that list it.
func (p *Policy) named(model, provider string) []Target {
	of, rest, _ := strings.Cut(model, "/")
	if at := p.byName[of]; at != nil && (provider == "" || provider == of) {
		if _, ok := at.model(rest); ok {
			return []Target{{of, rest}}
		}
	}
	return p.listing(model, provider)
}

// listing finds the providers, or the one named, that list a model. One without
// a list has any model, but only when it is named.
func (p *Policy) listing(model, provider string) []Target {
	var found []Target
	for i := range p.Providers {
		at := &p.Providers[i]
		if provider != at.Name && (provider != "" || len(at.Models) == 0) {
			continue
		}
		if _, ok := at.model(model); ok {
			found = append(found, Target{at.Name, model})
		}
	}
	return found
}

// rank sorts by a goal's ranks; what has none stays behind, in order.
func (p *Policy) rank(targets []Target, goal Goal) {
	ranks := p.ranks[goal]
	place := func(t Target) int {
		if i := slices.Index(ranks, t); i >= 0 {
			return i
		}
		return len(ranks)
	}
	slices.SortStableFunc(targets, func(a, b Target) int { return cmp.Compare(place(a), place(b)) })
}
