// Package routing decides which provider and model serve a request. A policy is
// read from configuration and never changed; a plan is a pure function of it.
// Package inference asks for plans, internal/app reads the policy.
package routing

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"switchyard.dev/services/gateway/internal/price"
)

// DefaultModel is the alias that stands for the policy's default model.
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

// Target is a model of a provider, written "provider/model".
type Target struct{ Provider, Model string }

// String is the target as it is configured.
func (t Target) String() string { return t.Provider + "/" + t.Model }

// Model is one that a provider serves.
type Model struct {
	// Name that callers use.
	Name string `yaml:"name"`
	// Upstream is the vendor's own name, when it differs.
	Upstream    string `yaml:"upstream"`
	price.Rates `yaml:",inline"`
}

// UnmarshalYAML reads a model given by its name alone, or as an object.
func (m *Model) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		m.Name = node.Value
		return nil
	}
	type plain Model
	text, err := yaml.Marshal(node)
	if err != nil {
		return fmt.Errorf("model: %w", err)
	}
	return strict(text, (*plain)(m)) // node.Decode would let unknown fields pass.
}

// Provider is one configured vendor.
type Provider struct {
	Name string `yaml:"name"`
	// Dialect is the wire form it speaks: openai, anthropic or sandbox.
	Dialect string `yaml:"dialect"`
	BaseURL string `yaml:"base_url"`
	// KeyFile holds the fleet's key. Empty: the provider is called without one.
	KeyFile string `yaml:"key_file"`
	// KeyHeader carries the key in place of "Authorization: Bearer" (openai dialect).
	KeyHeader string `yaml:"key_header"`
	// Models it serves. None: any, asked for as "name/model".
	Models []Model `yaml:"models"`
}

func (p *Provider) model(name string) (Model, bool) {
	if len(p.Models) == 0 {
		return Model{Name: name}, name != ""
	}
	i := slices.IndexFunc(p.Models, func(m Model) bool { return m.Name == name })
	if i < 0 {
		return Model{}, false
	}
	return p.Models[i], true
}

// Policy says which providers there are and how to choose between them.
type Policy struct {
	// Providers in order of preference.
	Providers []Provider
	byName    map[string]*Provider
	fallback  Target
	goal      Goal
	ranks     map[Goal][]Target
	ladder    []Target
}

// document is the policy file.
type document struct {
	// DefaultModel serves requests that name no model.
	DefaultModel string     `yaml:"default_model"`
	DefaultGoal  Goal       `yaml:"default_goal"`
	Providers    []Provider `yaml:"providers"`
	// Goals ranks targets for each goal, the best first.
	Goals map[Goal][]string `yaml:"goals"`
	// Ladder is tried, in order, when what was asked for fails.
	Ladder []string `yaml:"ladder"`
}

// Source is a configuration file: its text and where it lies.
type Source struct {
	Text []byte
	// KeysDir is where relative key_files lie; empty when they lie nowhere.
	KeysDir string
}

// Parse reads a policy, and the file of further providers (may be empty). A
// further provider takes the place of one of the same name, and keeps its
// models when it names none.
func Parse(policy, extra Source) (*Policy, error) {
	var doc document
	if err := strict(policy.Text, &doc); err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	var more struct {
		Providers []Provider `yaml:"providers"`
	}
	if err := strict(extra.Text, &more); err != nil {
		return nil, fmt.Errorf("extra providers: %w", err)
	}
	place(doc.Providers, policy.KeysDir)
	place(more.Providers, extra.KeysDir)
	for _, provider := range more.Providers {
		i := slices.IndexFunc(doc.Providers, func(p Provider) bool { return p.Name == provider.Name })
		if i < 0 {
			doc.Providers = append(doc.Providers, provider)
			continue
		}
		if len(provider.Models) == 0 {
			provider.Models = doc.Providers[i].Models
		}
		doc.Providers[i] = provider
	}
	p, err := build(doc)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	return p, nil
}

func strict(text []byte, into any) error {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// nowhere can't hold a key: it is where key files lie that have no directory.
const nowhere = "/nonexistent"

// place makes key files absolute, so that the working directory says nothing
// about keys.
func place(providers []Provider, dir string) {
	for i := range providers {
		if file := &providers[i].KeyFile; *file != "" && !filepath.IsAbs(*file) {
			*file = filepath.Join(cmp.Or(dir, nowhere), *file)
		}
	}
}

var providerName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

func build(doc document) (*Policy, error) {
	p := &Policy{
		Providers: doc.Providers, byName: make(map[string]*Provider),
		goal: cmp.Or(doc.DefaultGoal, GoalQuality), ranks: make(map[Goal][]Target),
	}
	for i := range p.Providers {
		if err := p.addProvider(&p.Providers[i]); err != nil {
			return nil, fmt.Errorf("providers[%d] %q: %w", i, p.Providers[i].Name, err)
		}
	}
	if !slices.Contains(goals, p.goal) {
		return nil, fmt.Errorf("default_goal %q: want cost, latency or quality", p.goal)
	}
	var err error
	if p.fallback, err = p.target(doc.DefaultModel); err != nil {
		return nil, fmt.Errorf("default_model: %w", err)
	}
	for goal, names := range doc.Goals {
		if !slices.Contains(goals, goal) {
			return nil, fmt.Errorf("goals.%s: want cost, latency or quality", goal)
		}
		if p.ranks[goal], err = p.targets(names); err != nil {
			return nil, fmt.Errorf("goals.%s: %w", goal, err)
		}
	}
	if p.ladder, err = p.targets(doc.Ladder); err != nil {
		return nil, fmt.Errorf("ladder: %w", err)
	}
	return p, nil
}

func (p *Policy) addProvider(provider *Provider) error {
	switch {
	case !providerName.MatchString(provider.Name):
		return errors.New("name: want lower-case letters, digits, '.', '_' and '-', at most 64")
	case p.byName[provider.Name] != nil:
		return errors.New("name: is there twice")
	}
	seen := make(map[string]bool)
	for _, model := range provider.Models {
		if model.Name == "" || model.Name == DefaultModel || seen[model.Name] {
			return fmt.Errorf("model %q: is empty, reserved or there twice", model.Name)
		}
		seen[model.Name] = true
	}
	p.byName[provider.Name] = provider
	return nil
}

func (p *Policy) targets(names []string) ([]Target, error) {
	var all []Target
	for _, name := range names {
		t, err := p.target(name)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// target reads "provider/model" and checks that both exist.
func (p *Policy) target(name string) (Target, error) {
	of, model, _ := strings.Cut(name, "/")
	provider := p.byName[of]
	if provider == nil {
		return Target{}, fmt.Errorf("%q: want provider/model of a configured provider", name)
	}
	if _, ok := provider.model(model); !ok {
		return Target{}, fmt.Errorf("%q: the provider has no such model", name)
	}
	return Target{of, model}, nil
}
