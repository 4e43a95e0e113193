// Package routing decides which provider and model serve a request. A policy is
// read from configuration and never changed; a plan is a pure function of it,
// the request and the state of the moment. Package inference asks for plans
// through a Router; internal/app reads the policy.
package routing

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"switchyard.dev/services/gateway/internal/keyring"
	"switchyard.dev/services/gateway/internal/price"
	"switchyard.dev/services/gateway/internal/redact"
)

// DefaultModel is the alias that stands for the policy's default model.
const DefaultModel = "default"

var goals = []Goal{GoalCost, GoalLatency, GoalQuality}

// Model is one that a provider serves.
type Model struct {
	// Name that callers use.
	Name string `yaml:"name"`
	// Upstream is the vendor's own name, when it differs.
	Upstream     string `yaml:"upstream"`
	Capabilities `yaml:",inline"`
	price.Rates  `yaml:",inline"`
}

// Provider is one configured vendor.
type Provider struct {
	Name string `yaml:"name"`
	// Aliases are other names of it, for callers; a provider of such a name goes before.
	Aliases []string `yaml:"aliases"`
	// Dialect is the wire form it speaks: openai, anthropic, gemini, cohere or sandbox.
	Dialect string `yaml:"dialect"`
	BaseURL string `yaml:"base_url"`
	// KeyFile holds the fleet's key. Empty: the provider is called without one.
	KeyFile string `yaml:"key_file"`
	// KeyHeader carries the key in place of "Authorization: Bearer" (openai dialect).
	KeyHeader string `yaml:"key_header"`
	// APIVersion, StreamUsage and ShortToolIDs are of the openai dialect; see its package.
	APIVersion   string `yaml:"api_version"`
	StreamUsage  *bool  `yaml:"stream_usage"`
	ShortToolIDs bool   `yaml:"short_tool_ids"`
	// Regions that it works in, and Tags: what rules of data go by.
	Regions []string `yaml:"regions"`
	Tags    []string `yaml:"tags"`
	// PromptCacheTTL is how long it keeps a prompt in its cache; so long requests
	// of one prompt stay together.
	PromptCacheTTL time.Duration `yaml:"prompt_cache_ttl"`
	// DefaultModel of the provider for an operation; its first that does it when absent.
	DefaultModel perOperation[string] `yaml:"default_model"`
	// Capabilities of models that have none of their own: operations and features.
	Capabilities `yaml:",inline"`
	// Models it serves. None: any, asked for as "name/model".
	Models []Model `yaml:"models"`
}

func (p *Provider) check() error {
	switch {
	case !providerName.MatchString(p.Name):
		return errors.New("name: want lower-case letters, digits, '.', '_' and '-', at most 64")
	case dialects[p.Dialect] == 0:
		return fmt.Errorf("dialect: %q: want openai, anthropic, gemini, cohere or sandbox", p.Dialect)
	case p.PromptCacheTTL != 0 && p.PromptCacheTTL < time.Second:
		return errors.New("prompt_cache_ttl: want at least 1s")
	}
	if err := p.Capabilities.check(); err != nil {
		return err
	}
	seen := make(map[string]bool)
	for i, model := range p.Models {
		if model.Name == "" || model.Name == DefaultModel || seen[model.Name] {
			return fmt.Errorf("models[%d].name %q: is empty, reserved or there twice", i, model.Name)
		}
		seen[model.Name] = true
		if err := model.check(); err != nil {
			return fmt.Errorf("models[%d] %q: %w", i, model.Name, err)
		}
	}
	return nil
}

// check shadows the embedded ones.
func (m *Model) check() error { return m.Capabilities.check() }

// Policy says which providers there are and how to choose between them.
type Policy struct {
	// Providers in order of preference.
	Providers []Provider

	version    string
	byName     map[string]*entry
	byModel    map[string][]*offer
	goal       int
	ranks      [][]*offer // by goal
	defaults   []*offer   // by operation; nil where there is none
	ladders    [][]*offer // by operation
	tenants    []tenant
	resilience Resilience
	cache      Cache
	budget     Budget
	// traces with what holds for each of their rules, the policy's own first.
	traces   Traces
	tracings []Tracing
	redactor *redact.Redactor
	// approvalTools are patterns of tools whose calls need an approval.
	approvalTools []string
	byok          keyring.Mode
	aliases       map[string]string
	replaced      map[string]bool
}

// entry is a provider, compiled for planning.
type entry struct {
	*Provider
	index    int
	offers   map[string]*offer
	defaults []*offer // by operation
}

// offer is a model at a provider, compiled for planning.
type offer struct {
	candidate    Candidate
	provider     *entry
	capabilities Capabilities
	operations   operationSet
	// places in the ranks, by goal; unranked when it is in none. tied tells that
	// others have the same place.
	places []int32
	tied   []bool
	// hash of the target, for rendezvous.
	hash uint64
}

// unranked is behind every rank.
const unranked = 1 << 30

// Version is a hash of the files that the policy was read from.
func (p *Policy) Version() string { return p.version }

func build(doc document) (*Policy, error) {
	p := &Policy{
		Providers: doc.Providers, byName: make(map[string]*entry), byModel: make(map[string][]*offer),
		goal:  slices.Index(goals, cmp.Or(doc.DefaultGoal, GoalQuality)),
		ranks: make([][]*offer, len(goals)), resilience: doc.Resilience, cache: doc.Cache, budget: doc.Budget, replaced: doc.replaced,
		approvalTools: doc.ToolsNeedingApproval,
	}
	if p.goal < 0 {
		return nil, fmt.Errorf("default_goal %q: want cost, latency or quality", doc.DefaultGoal)
	}
	if err := errors.Join(doc.Resilience.check(), doc.Cache.check(), doc.Budget.check(), checkTools(doc.ToolsNeedingApproval), p.setTraces(doc.Traces), p.setByok(doc.Byok), p.setAliases()); err != nil {
		return nil, err
	}
	for i := range p.Providers {
		if err := p.addProvider(i); err != nil {
			return nil, fmt.Errorf("providers[%d] %q: %w", i, p.Providers[i].Name, err)
		}
	}
	for goal, tiers := range doc.Goals {
		if err := p.addRanks(goal, tiers); err != nil {
			return nil, fmt.Errorf("goals.%s: %w", goal, err)
		}
	}
	var err error
	if p.defaults, err = p.pick("default_model", doc.DefaultModel); err != nil {
		return nil, err
	}
	if p.defaults[OperationChat.index()] == nil {
		return nil, errors.New("default_model: is required, for chat at least")
	}
	if err := p.addLadders(doc.Ladder); err != nil {
		return nil, err
	}
	for i := range doc.DataClassification {
		if err := p.addTenant(&doc.DataClassification[i]); err != nil {
			return nil, fmt.Errorf("data_classification[%d].%w", i, err)
		}
	}
	return p, nil
}

func (p *Policy) addProvider(index int) error {
	provider := &p.Providers[index]
	e := &entry{Provider: provider, index: index, offers: make(map[string]*offer)}
	p.byName[provider.Name] = e
	for i := range provider.Models {
		model := &provider.Models[i]
		o := e.offer(model)
		e.offers[model.Name] = o
		p.byModel[model.Name] = append(p.byModel[model.Name], o)
	}
	return p.addDefaults(e)
}

// offer compiles a model of the provider.
func (e *entry) offer(model *Model) *offer {
	target := Target{e.Name, model.Name}
	o := &offer{
		candidate: Candidate{Target: target, Upstream: cmp.Or(model.Upstream, model.Name)},
		provider:  e, capabilities: model.within(e.Capabilities), operations: dialects[e.Dialect],
		places: make([]int32, len(goals)), tied: make([]bool, len(goals)), hash: xxhash.Sum64String(target.String()),
	}
	if o.capabilities.Operations != nil {
		o.operations &= setOf(o.capabilities.Operations)
	}
	if o.capabilities.Features != nil {
		o.candidate.Lacks = ^*o.capabilities.Features & (1<<len(featureNames) - 1)
	}
	if !slices.Contains(takesTokens, e.Dialect) {
		o.candidate.Lacks |= FeatureTokenInput
	}
	o.candidate.Limits = o.capabilities.Limits
	for i := range o.places {
		o.places[i] = unranked
	}
	return o
}

// find gives the provider's offer of a model. A provider without a list has any.
func (e *entry) find(model string) *offer {
	if len(e.Models) > 0 {
		return e.offers[model]
	}
	if model == "" {
		return nil
	}
	if known := e.offers[model]; known != nil {
		return known
	}
	made := e.offer(&Model{Name: model})
	made.candidate.Unlisted = true
	return made
}

// addDefaults finds the provider's model for requests that name only it.
func (p *Policy) addDefaults(e *entry) error {
	var err error
	e.defaults, err = pickEach("default_model", e.DefaultModel, func(name string) (*offer, error) {
		o := e.find(name)
		if o == nil {
			return nil, fmt.Errorf("%q: the provider has no such model", name)
		}
		o.candidate.Unlisted = false
		e.offers[name] = o
		return o, nil
	})
	if err != nil {
		return err
	}
	for operation := range operations {
		for i := 0; e.defaults[operation] == nil && i < len(e.Models); i++ {
			if o := e.offers[e.Models[i].Name]; o.operations.has(operation) {
				e.defaults[operation] = o
			}
		}
	}
	return nil
}

// pick finds the target of a setting for each operation.
func (p *Policy) pick(field string, setting perOperation[string]) ([]*offer, error) {
	return pickEach(field, setting, p.target)
}

func pickEach(field string, setting perOperation[string], find func(name string) (*offer, error)) ([]*offer, error) {
	picked := make([]*offer, len(operations))
	for operation, name := range setting.of {
		path, at := field+"."+string(operation), operation.index()
		if setting.all {
			path = field
		}
		if at < 0 {
			return nil, fmt.Errorf("%s: want chat, embeddings, vision or images", path)
		}
		o, err := find(name)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", path, err)
		case o.operations.has(at):
			picked[at] = o
		case !setting.all:
			return nil, fmt.Errorf("%s: %q does not do %s", path, name, operation)
		}
	}
	return picked, nil
}

// target reads "provider/model" and checks that both exist.
func (p *Policy) target(name string) (*offer, error) {
	of, model, _ := strings.Cut(name, "/")
	e := p.byName[of]
	if e == nil {
		return nil, fmt.Errorf("%q: want provider/model of a configured provider", name)
	}
	o := e.find(model)
	if o == nil {
		return nil, fmt.Errorf("%q: the provider has no such model", name)
	}
	o.candidate.Unlisted = false
	e.offers[model] = o // Of a provider without a list: the one that ranks are kept in.
	return o, nil
}

// gone tells that a target's provider has been replaced by one with other models.
func (p *Policy) gone(name string) bool {
	of, _, _ := strings.Cut(name, "/")
	return p.replaced[of]
}

func (p *Policy) addRanks(goal Goal, tiers []tier) error {
	at := slices.Index(goals, goal)
	if at < 0 {
		return errors.New("want cost, latency or quality")
	}
	for place, names := range tiers {
		for _, name := range names {
			o, err := p.target(name)
			if err != nil && p.gone(name) {
				continue
			}
			if err != nil {
				return err
			}
			if o.places[at] != unranked {
				return fmt.Errorf("%q: is there twice", name)
			}
			o.places[at], o.tied[at] = int32(place), len(names) > 1
			p.ranks[at] = append(p.ranks[at], o)
		}
	}
	return nil
}

func (p *Policy) addLadders(setting perOperation[[]string]) error {
	p.ladders = make([][]*offer, len(operations))
	for operation, names := range setting.of {
		at := operation.index()
		path := "ladder"
		if !setting.all {
			path += "." + string(operation)
		}
		if at < 0 {
			return fmt.Errorf("%s: want chat, embeddings, vision or images", path)
		}
		for _, name := range names {
			o, err := p.target(name)
			switch {
			case err != nil && p.gone(name):
			case err != nil:
				return fmt.Errorf("%s: %w", path, err)
			case o.operations.has(at):
				p.ladders[at] = append(p.ladders[at], o)
			case !setting.all:
				return fmt.Errorf("%s: %q does not do %s", path, name, operation)
			}
		}
	}
	return nil
}
