// Package catalog knows the models: what each can do and costs (its card), and
// how long it lives (the registry): who makes it, until when it is served, what
// comes after it. Cards are made of the policy, the price table and the shipped
// catalog; operators deprecate models over that. Package routing asks how long
// models live, package api shows them; internal/postgres keeps what operators set.
package catalog

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Entry is what the catalog file says of a model.
type Entry struct {
	provider.Target
	DisplayName, Owner string
	// Input and Output are modalities: text, image, audio, video, file; embedding.
	Input, Output []string
	// Capabilities that the policy doesn't know of: reasoning, prompt_cache.
	Capabilities []string
	// Deprecated is when the vendor said so, Cutoff the first day on which it is not
	// served; zero is not known.
	Deprecated, Cutoff time.Time
	Successor, Reason  string
	// Source is where this was read, Reviewed when.
	Source   string
	Reviewed time.Time
	// copied is what another provider's model is: it says that there is none here.
	copied bool
}

// File is a catalog file.
type File struct {
	entries map[provider.Target]Entry
	names   map[string]string // of providers, for people
}

// document is the form of the file.
type document struct {
	Providers []struct {
		Provider    string `yaml:"provider"`
		DisplayName string `yaml:"display_name"`
		Owner       string `yaml:"owner"`
		// Like takes over what another provider's models are, by their names, and not
		// how long they live: another host keeps its own days.
		Like     string  `yaml:"like"`
		Source   string  `yaml:"source"`
		Reviewed string  `yaml:"reviewed"`
		Models   []model `yaml:"models"`
	} `yaml:"providers"`
}

type model struct {
	Model        string   `yaml:"model"`
	DisplayName  string   `yaml:"display_name"`
	Owner        string   `yaml:"owner"`
	Input        []string `yaml:"input"`
	Output       []string `yaml:"output"`
	Capabilities []string `yaml:"capabilities"`
	Deprecated   string   `yaml:"deprecated"`
	Cutoff       string   `yaml:"cutoff"`
	Successor    string   `yaml:"successor"`
	Reason       string   `yaml:"reason"`
}

// Parse reads a catalog file (YAML, strict: an unknown field is an error).
func Parse(text []byte) (*File, error) {
	var doc document
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("catalog: %w", err)
	}
	f := &File{entries: make(map[provider.Target]Entry), names: make(map[string]string)}
	for i, p := range doc.Providers {
		if p.Provider == "" {
			return nil, fmt.Errorf("catalog: providers[%d].provider: is required", i)
		}
		f.names[p.Provider] = cmp.Or(p.DisplayName, f.names[p.Provider])
		common := Entry{Owner: p.Owner, Source: p.Source}
		var err error
		if common.Reviewed, err = day("reviewed", p.Reviewed); err != nil {
			return nil, fmt.Errorf("catalog: %s: %w", p.Provider, err)
		}
		if err := f.like(p.Provider, p.Like); err != nil {
			return nil, err
		}
		for _, m := range p.Models {
			if err := f.add(p.Provider, m, common); err != nil {
				return nil, fmt.Errorf("catalog: %s/%s: %w", p.Provider, m.Model, err)
			}
		}
	}
	return f, nil
}

// like takes the models of a provider over that stands further up.
func (f *File) like(provider, other string) error {
	if other == "" {
		return nil
	}
	if _, known := f.names[other]; !known || other == provider {
		return fmt.Errorf("catalog: %s: like: %q is no provider above it", provider, other)
	}
	for t, e := range f.entries {
		if t.Provider != other || len(e.Input) == 0 {
			continue // Of one that is gone, nothing more is known.
		}
		e.Provider, e.copied = provider, true
		e.Deprecated, e.Cutoff, e.Successor, e.Reason = time.Time{}, time.Time{}, "", ""
		f.entries[e.Target] = e
	}
	return nil
}

func (f *File) add(name string, m model, e Entry) error {
	if m.Model == "" {
		return errors.New("model: is required")
	}
	e.Target = provider.Target{Provider: name, Model: m.Model}
	if before, twice := f.entries[e.Target]; twice && !before.copied {
		return errors.New("is there twice")
	}
	var deprecated, cutoff error
	e.Deprecated, deprecated = day("deprecated", m.Deprecated)
	e.Cutoff, cutoff = day("cutoff", m.Cutoff)
	if err := errors.Join(deprecated, cutoff); err != nil {
		return err
	}
	if m.Successor == m.Model {
		return errors.New("successor: is the model itself")
	}
	e.DisplayName, e.Owner = cmp.Or(m.DisplayName, m.Model), cmp.Or(m.Owner, e.Owner)
	e.Input, e.Output, e.Capabilities = m.Input, m.Output, m.Capabilities
	e.Successor, e.Reason = m.Successor, m.Reason
	f.entries[e.Target] = e
	return nil
}

// day reads a date; the empty one is none.
func day(field, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: want a day such as 2026-01-31", field)
	}
	return t, nil
}

// Catalog is the models of a policy, with what the file and the prices say of
// them. It is never changed after it was made.
type Catalog struct {
	policy *policy.Policy
	prices *price.Table
	file   *File
}

// New returns the catalog of a policy.
func New(policy *policy.Policy, prices *price.Table, file *File) *Catalog {
	return &Catalog{policy, prices, file}
}

// Provider is a configured provider and its names.
type Provider struct {
	Name, DisplayName, Dialect string
	Aliases                    []string
}

// Card is what a model can do and what it costs. The lists of its Entry are
// complete, also where the file doesn't know the model.
type Card struct {
	Entry
	// Aliases are other names of it that requests may use.
	Aliases    []string
	Operations []provider.Operation
	Limits     policy.Limits
	// Dimensions of its vectors at the most; 0 is unknown.
	Dimensions int
	Price      *price.Row
	// IsDefault: requests without a model get it from its provider, for one of its
	// operations.
	IsDefault bool
	Lifecycle Row
}

// targets are the models that can be called: those that providers list, and of
// one without a list those of the file.
func (c *Catalog) targets() []provider.Target {
	var all []provider.Target
	for _, p := range c.policy.Providers {
		for _, m := range p.Models {
			all = append(all, provider.Target{Provider: p.Name, Model: m.Name})
		}
		if len(p.Models) == 0 {
			for t := range c.file.entries {
				if t.Provider == p.Name {
					all = append(all, t)
				}
			}
		}
	}
	slices.SortFunc(all, compare)
	return all
}

func compare(a, b provider.Target) int {
	return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Model, b.Model))
}

// Provider finds a configured provider by its name or an alias.
func (c *Catalog) Provider(name string) (Provider, bool) {
	name, ok := c.policy.Canonical(name)
	if !ok {
		return Provider{}, false
	}
	i := slices.IndexFunc(c.policy.Providers, func(p policy.Provider) bool { return p.Name == name })
	p := &c.policy.Providers[i]
	return Provider{Name: p.Name, DisplayName: cmp.Or(c.file.names[p.Name], p.Name), Dialect: p.Dialect, Aliases: p.Aliases}, true
}

// card puts a model's card together.
func (c *Catalog) card(t provider.Target, now time.Time) Card {
	e, known := c.file.entries[t]
	if !known {
		e = Entry{Target: t, DisplayName: t.Model}
	}
	d, _ := c.policy.Describe(t)
	e.Input, e.Output = modalities(e, d.Operations)
	e.Capabilities = abilities(e, d)
	card := Card{Entry: e, Aliases: []string{t.String()}, Operations: d.Operations, Limits: d.Limits, Dimensions: d.MostDimensions}
	if row, ok := c.prices.At(t.Provider, t.Model, now); ok {
		card.Price = &row
	}
	for _, operation := range d.Operations {
		if usual := c.policy.ProviderDefault(t.Provider, operation); usual != nil && usual.Target == t {
			card.IsDefault = true
		}
	}
	return card
}

// modalities are the file's, or what the operations come to.
func modalities(e Entry, operations []provider.Operation) (in, out []string) {
	if len(e.Input) > 0 && len(e.Output) > 0 {
		return e.Input, e.Output
	}
	add := func(list *[]string, name string) {
		if !slices.Contains(*list, name) {
			*list = append(*list, name)
		}
	}
	for _, operation := range operations {
		add(&in, "text")
		switch operation {
		case provider.OperationChat:
			add(&out, "text")
		case provider.OperationVision:
			add(&in, "image")
			add(&out, "text")
		case provider.OperationEmbeddings:
			add(&out, "embedding")
		case provider.OperationImages:
			add(&out, "image")
		}
	}
	return in, out
}

// tokenInput is the ability of a model whose inputs may come as tokens.
const tokenInput = "token_input"

// abilities are what may be asked of a model.
func abilities(e Entry, d policy.Description) []string {
	var all []string
	if slices.Contains(d.Operations, provider.OperationChat) || slices.Contains(d.Operations, provider.OperationVision) {
		all = append(all, "streaming")
		for _, feature := range d.Features {
			if feature != "image_urls" && feature != tokenInput { // How images come is the gateway's affair.
				all = append(all, feature)
			}
		}
	}
	if slices.Contains(d.Operations, provider.OperationEmbeddings) && slices.Contains(d.Features, tokenInput) {
		all = append(all, tokenInput)
	}
	return append(all, e.Capabilities...)
}
