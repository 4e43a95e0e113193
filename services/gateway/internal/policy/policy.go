// Package policy holds the operator's policy for providers: which providers there are, what their models can do, which
// are preferred for which goal, whose data each may see, and what is kept of requests. Parse reads and checks the
// files. A Policy never changes after it was made, and all of its methods are safe for concurrent use. Package routing
// plans requests by it; internal/app reads the files and puts a policy into force.
package policy

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"switchyard.dev/services/gateway/internal/content/redact"
	"switchyard.dev/services/gateway/internal/custody/keyring"
	"switchyard.dev/services/gateway/internal/governance/toolrule"
	"switchyard.dev/services/gateway/internal/vendors/adapter"
	"switchyard.dev/services/gateway/internal/vendors/host"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// DefaultModel is the name by which requests ask for the policy's default model.
const DefaultModel = "default"

// Goal is what a selection is optimized for.
type Goal string

// The goals.
const (
	GoalCost    Goal = "cost"
	GoalLatency Goal = "latency"
	GoalQuality Goal = "quality"
)

var goals = []Goal{GoalCost, GoalLatency, GoalQuality}

// Goals returns all goals, in the order in which documents list them.
func Goals() []Goal { return slices.Clone(goals) }

// IsKnown reports whether the goal is one of Goals.
func (g Goal) IsKnown() bool { return g.index() >= 0 }

func (g Goal) check() error {
	if !g.IsKnown() {
		return fmt.Errorf("default_goal %q: want cost, latency or quality", string(g))
	}
	return nil
}

func (g Goal) index() int {
	switch g {
	case GoalCost:
		return 0
	case GoalLatency:
		return 1
	case GoalQuality:
		return 2
	}
	return -1
}

// Policy holds the configured providers and the rules for choosing between them.
type Policy struct {
	// Providers are the providers in order of preference.
	Providers []Provider

	version    string
	byName     map[string]*entry
	byModel    map[string][]*Offer
	byIdentity map[string][]*Offer
	goal       Goal
	ranks      map[Goal][]*Offer
	defaults   map[provider.Operation]*Offer
	ladders    map[provider.Operation][]*Offer
	tenants    []tenant
	resilience Resilience
	// hedges are by the index of their goal.
	hedges [3]Hedge
	cache  Cache
	budget Budget
	quotas Quotas
	// credentialQuotas are those of the credentials that have limits.
	credentialQuotas map[credentialName]credentialQuotas
	// traces are the settings; tracings are the resulting values, the policy's own first, then one for each
	// organization rule.
	traces   Traces
	tracings []Tracing
	redactor *redact.Redactor
	// approvalTools are patterns of tools whose calls need an approval.
	approvalTools []string
	tools         Tools
	toolRules     *toolrule.Rules
	byok          keyring.Mode
	hostedTools   string
	aliases       map[string]string
	replaced      map[string]bool
}

// Version returns a hash of the files that the policy was read from.
func (p *Policy) Version() string { return p.version }

// build returns the policy of a document, or an error for each part of it that breaks a rule.
func build(doc document) (*Policy, error) {
	p := &Policy{
		Providers: doc.Providers, byName: make(map[string]*entry), byModel: make(map[string][]*Offer), byIdentity: make(map[string][]*Offer),
		goal:  cmp.Or(doc.DefaultGoal, GoalQuality),
		ranks: make(map[Goal][]*Offer), resilience: doc.Resilience, cache: doc.Cache, budget: doc.Budget, quotas: doc.Quotas, replaced: doc.replaced,
		credentialQuotas: make(map[credentialName]credentialQuotas),
		approvalTools:    doc.ToolsNeedingApproval, hostedTools: doc.HostedTools,
	}
	var wrong failures
	for _, err := range []error{
		p.goal.check(), doc.Resilience.check(), doc.Cache.check(), doc.Budget.check(), doc.Quotas.check(), checkTools(doc.ToolsNeedingApproval),
		checkHostedTools(doc.HostedTools), p.setTraces(doc.Traces), p.setByok(doc.Byok), p.setAliases(), p.setHedges(doc.Hedge),
		p.setTools(doc.Tools),
	} {
		wrong.add(doc.name, err)
	}
	for i := range p.Providers {
		file, at := doc.placeOf(i)
		wrong.add(fmt.Sprintf("%s: providers[%d] %q", file, at, p.Providers[i].Name), p.addProvider(i))
	}
	for _, goal := range slices.Sorted(maps.Keys(doc.Goals)) {
		wrong.add(doc.name+": goals."+string(goal), p.addRanks(goal, doc.Goals[goal]))
	}
	var err error
	if p.defaults, err = p.pick("default_model", doc.DefaultModel); err == nil && p.defaults[provider.OperationChat] == nil {
		err = errors.New("default_model: is required, for chat at least")
	}
	wrong.add(doc.name, err)
	wrong.add(doc.name, p.addLadders(doc.Ladder))
	wrong.add(doc.name, p.checkSampled())
	for i := range doc.DataClassification {
		wrong.add(doc.name, prefix(fmt.Sprintf("data_classification[%d].", i), p.addTenant(&doc.DataClassification[i])))
	}
	if err := wrong.err(); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *Policy) addProvider(index int) error {
	e := &entry{Provider: &p.Providers[index], index: index, offers: make(map[string]*Offer)}
	e.host = cmp.Or(host.Of(e.Name, e.BaseURL).Convention, e.Name)
	e.dialect, _ = adapter.Find(e.Dialect) // Parse has checked that there is one.
	settings := e.Adapter()
	e.forms, e.hints = e.dialect.FormsOf(settings), e.dialect.HintsOf(settings)
	p.byName[e.Name] = e
	if err := p.setQuotas(e.Provider); err != nil {
		return err
	}
	for i := range e.Models {
		model := &e.Models[i]
		o := e.offer(model)
		e.offers[model.Name] = o
		p.byModel[model.Name] = append(p.byModel[model.Name], o)
		if o.Identity != "" {
			p.byIdentity[o.Identity] = append(p.byIdentity[o.Identity], o)
		}
	}
	return p.addDefaults(e)
}
