package routing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/screen"
)

// NewPlan returns the candidates of a request in order: those that were asked for, then other hosts of the same model,
// under whatever name, then the fallback ladder, each section ranked by the goal. Candidates that can't or may not serve the request
// are excluded before the ranking and listed in the plan. The same policy, request and state give the same plan. The
// error is an apierr.Error.
func NewPlan(p *policy.Policy, r Request, s State) (Plan, error) {
	b := planners.Get().(*planner) //nolint:errcheck // The pool holds nothing else.
	defer b.release()
	b.policy, b.request, b.state = p, r, s
	if err := b.read(); err != nil {
		return Plan{}, err
	}
	if s.Override.Pin != nil {
		return b.pinned(*s.Override.Pin)
	}
	asked, open, err := b.asked()
	if err != nil {
		return Plan{}, err
	}
	b.section(asked, false)
	if !open {
		b.requested = b.askedProvider(asked)
	}
	if !open && !r.Substitution {
		b.warn = b.warning(asked, open)
		return b.plan()
	}
	if !open {
		b.otherHosts(asked[0])
	}
	b.section(p.Ladder(b.operation), !open)
	b.canary(asked, open)
	b.warn = b.warning(asked, open)
	return b.plan()
}

// planner builds a plan.
type planner struct {
	policy    *policy.Policy
	request   Request
	state     State
	operation provider.Operation
	goal      policy.Goal
	access    policy.Access
	offers    []*policy.Offer
	requested string
	// host is the provider that the request names; empty if it names only a model.
	host string
	// vocabulary is the model whose tokens the request holds; nil for texts.
	vocabulary *policy.Offer
	picked     []scored
	excluded   []Exclusion
	isCanary   bool
	isPinned   bool
	isAffine   bool
	warn       string
}

// planners are reused: allocating one costs more than a plan.
var planners = sync.Pool{New: func() any {
	return &planner{offers: make([]*policy.Offer, 0, 32), picked: make([]scored, 0, 32)}
}}

// release clears the planner and returns it to the pool.
func (b *planner) release() {
	clear(b.picked)
	clear(b.offers)
	*b = planner{offers: b.offers[:0], picked: b.picked[:0]}
	planners.Put(b)
}

// read validates the request and finds the access rules that apply to it.
func (b *planner) read() error {
	r := &b.request
	b.goal = cmp.Or(r.Goal, b.policy.DefaultGoal())
	if !b.goal.IsKnown() {
		return apierr.Invalid("optimization_goal", "must be cost, latency or quality")
	}
	b.operation = cmp.Or(r.Operation, provider.OperationChat)
	if b.operation == provider.OperationChat && r.Needs.Vision {
		b.operation = provider.OperationVision
	}
	if b.operation.Set() == 0 {
		return apierr.Internal(fmt.Errorf("plan: no operation %q", r.Operation))
	}
	if canonical, ok := b.policy.Canonical(r.Provider); ok {
		r.Provider = canonical
	} else if r.Provider != "" {
		return apierr.New(apierr.KindInvalid, ReasonProviderUnknown,
			fmt.Sprintf("provider: no provider %s is configured", screen.Quote(r.Provider)))
	}
	if r.Needs.Offered != "" && r.Needs.Dialect == "" && b.policy.RefusesHostedTools() {
		r.Needs.Dialect, r.Needs.DialectField = r.Needs.Form, r.Needs.Offered
	}
	var err error
	b.access, err = b.policy.Access(r.Organization, r.Classification)
	return err
}

// asked returns the offers that a request names. open reports whether it named none, so that the list is the policy's
// own choice.
func (b *planner) asked() (offers []*policy.Offer, open bool, err error) {
	p, r := b.policy, &b.request
	switch isDefault := r.Model == "" || r.Model == policy.DefaultModel; {
	case isDefault && r.Needs.Tokens > 0:
		return nil, false, apierr.Invalid("model", "is required if the input is tokens: each model has its own tokenizer")
	case isDefault && r.Provider != "":
		if o := p.ProviderDefault(r.Provider, b.operation); o != nil {
			return b.served(b.at(o))
		}
		return nil, false, apierr.Invalid("model", "is required with the provider "+r.Provider)
	case isDefault:
		return b.open()
	}
	if offers = b.named(); len(offers) > 0 {
		if r.Needs.Tokens > 0 {
			b.vocabulary = offers[0]
		}
		return b.served(offers)
	}
	return nil, false, b.unlisted()
}

// open returns the policy's choice: its default model, and before it, if a goal was asked for, the goal's ranks.
func (b *planner) open() (offers []*policy.Offer, open bool, err error) {
	fallback := b.policy.Default(b.operation)
	if b.request.Goal != "" {
		for _, o := range b.policy.Ranked(b.goal) {
			if o.Operations.Has(b.operation) {
				b.offers = append(b.offers, o)
			}
		}
	}
	if fallback != nil && !slices.Contains(b.offers, fallback) {
		b.offers = append(b.offers, fallback)
	}
	if len(b.offers) == 0 {
		return nil, false, apierr.Invalid("model", "is required: the policy has no default for "+string(b.operation))
	}
	return b.offers, true, nil
}

// named returns the offers of the request's model: those that list the name, or else those that list another name of the
// same model. If the request names a provider, they are that provider's. A provider without a list of models has any
// model, but only when the provider is named.
func (b *planner) named() []*policy.Offer {
	p, model, of := b.policy, b.request.Model, b.request.Provider
	prefix, rest, prefixed := strings.Cut(model, "/")
	prefixed = prefixed && (of == "" || of == prefix)
	if prefixed {
		if o := p.Offer(provider.Target{Provider: prefix, Model: rest}); o != nil {
			return b.at(o)
		}
	}
	if of != "" {
		if o := p.Offer(provider.Target{Provider: of, Model: model}); o != nil {
			return b.at(o)
		}
	} else if hosts := b.hosts(model); len(hosts) > 0 {
		return hosts
	}
	if prefixed && len(b.hostsAt(prefix, rest)) > 0 {
		return b.offers
	}
	if of != "" {
		return b.hostsAt(of, model)
	}
	return p.HostsOf(model)
}

// hosts returns the offers that list a name. If all of them are retired, it returns those of the model under all of its
// names, unless they are retired too: a host's end is not that of the other hosts.
func (b *planner) hosts(model string) []*policy.Offer {
	listed := b.policy.OffersOf(model)
	if len(listed) > 0 && b.areRetired(listed) {
		if all := b.policy.HostsOf(model); !b.areRetired(all) {
			return all
		}
	}
	return listed
}

// hostsAt returns a provider's offers of the model that a name stands for.
func (b *planner) hostsAt(of, model string) []*policy.Offer {
	b.offers = b.offers[:0]
	for _, o := range b.policy.HostsOf(model) {
		if o.Provider == of {
			b.offers, b.host = append(b.offers, o), of
		}
	}
	return b.offers
}

// at returns the one offer of a host that the request names.
func (b *planner) at(o *policy.Offer) []*policy.Offer {
	b.host, b.offers = o.Provider, append(b.offers[:0], o)
	return b.offers
}

// askedProvider returns the provider that the caller asked for: the best of those that have the model and can serve, or
// else the first.
func (b *planner) askedProvider(asked []*policy.Offer) string {
	if len(b.picked) > 0 {
		return b.picked[0].Provider
	}
	return asked[0].Provider
}

// section appends the offers that can serve and are not in the plan yet, ranked.
func (b *planner) section(offers []*policy.Offer, substitute bool) {
	from := len(b.picked)
	for _, o := range offers {
		b.pick(o, substitute)
	}
	b.order(from)
}

// otherHosts appends the other hosts of the model that was asked for, ranked: those that list it under the same name, or
// under another. They are substitutes for a host that the request names.
func (b *planner) otherHosts(asked *policy.Offer) {
	from := len(b.picked)
	for _, o := range b.policy.OffersOf(asked.Model) {
		b.pick(o, b.host != "" && b.host != o.Provider)
	}
	if asked.Identity != "" {
		for _, o := range b.policy.HostsOf(asked.Identity) {
			b.pick(o, b.host != "" && b.host != o.Provider)
		}
	}
	b.order(from)
}

// pick appends an offer that can serve, unless it is in the plan.
func (b *planner) pick(o *policy.Offer, substitute bool) {
	if !b.has(o) && b.admits(o) {
		b.picked = append(b.picked, scored{Offer: o, substitute: substitute, native: b.native(o), index: int32(len(b.picked))})
	}
}

// order ranks the section that begins at an index.
func (b *planner) order(from int) {
	b.rank(b.picked[from:])
	if b.request.Needs.Offered != "" {
		nativeFirst(b.picked[from:])
	}
	if from == 0 {
		b.isAffine = b.request.Affinity != 0 && affine(b.picked)
	}
}

// native reports whether a provider takes the request as its caller wrote it.
func (b *planner) native(o *policy.Offer) bool {
	form := b.request.Needs.Form
	return form != "" && o.Takes(form)
}

// nativeFirst moves the offers that take the request as it was written before the others.
func nativeFirst(section []scored) {
	slices.SortStableFunc(section, func(x, y scored) int {
		switch {
		case x.native == y.native:
			return 0
		case x.native:
			return -1
		}
		return 1
	})
}

func (b *planner) has(o *policy.Offer) bool {
	for i := range b.picked {
		if b.picked[i].is(o) {
			return true
		}
	}
	return len(b.excluded) > 0 && slices.ContainsFunc(b.excluded, func(e Exclusion) bool { return e.Target == o.Target })
}

// admits reports whether an offer can and may serve, and lists it in excluded if not.
func (b *planner) admits(o *policy.Offer) bool {
	if !b.access.Admits(o) {
		b.excluded = append(b.excluded, Exclusion{Target: o.Target, Lack: LackClassification})
		return false
	}
	if b.vocabulary != nil && !b.vocabulary.IsSameModel(o) {
		b.excluded = append(b.excluded, Exclusion{Target: o.Target, Lack: LackVocabulary})
		return false
	}
	if lack, limit := lackOf(o, b.operation, &b.request.Needs); lack != "" {
		b.excluded = append(b.excluded, Exclusion{Target: o.Target, Lack: lack, Limit: limit})
		return false
	}
	if b.isRetired(o.Target) {
		b.excluded = append(b.excluded, Exclusion{Target: o.Target, Lack: LackRetired})
		return false
	}
	return true
}

// plan returns the result: the picked candidates, or an error that says why there are none.
func (b *planner) plan() (Plan, error) {
	if len(b.picked) == 0 {
		return Plan{}, Refuse(&b.request, b.excluded)
	}
	plan := Plan{
		Requested: b.requested, Excluded: b.excluded, Pinned: b.isPinned, Canary: b.isCanary, Affinity: b.isAffine && !b.isCanary, Warning: b.warn,
		Candidates: make([]Candidate, len(b.picked)),
	}
	if c := b.state.Override.Canary; c != nil && !b.isPinned {
		plan.CanaryRevision = c.Revision
	}
	for i := range b.picked {
		plan.Candidates[i] = b.picked[i].candidate()
	}
	return plan, nil
}
