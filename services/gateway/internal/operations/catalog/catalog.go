// Package catalog describes the models. A card says what a model can do and what it costs; the registry says who makes
// it, until when it is served and which model succeeds it. Cards are made from the policy, the price table and the
// catalog file; operators' deprecations have precedence over the file. Package routing asks for the lifecycles, package
// api shows the models; internal/postgres stores the deprecations.
package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/strictyaml"
)

// Entry is what the catalog file says of a model.
type Entry struct {
	provider.Target
	DisplayName, Owner string
	// Input and Output are modalities: text, image, audio, video, file; embedding, categories, ranking.
	Input, Output []string
	// Capabilities that the policy has no setting for: reasoning, prompt_cache.
	Capabilities []string
	// Deprecated is when the vendor announced the deprecation, Cutoff the first day on which the model is not served;
	// zero is not known.
	Deprecated, Cutoff time.Time
	Successor, Reason  string
	// Source is where this was read, Reviewed when.
	Source   string
	Reviewed time.Time
	// copied reports that the entry comes from another provider by "like"; the model need not exist at this one.
	copied bool
}

// File is a parsed catalog file.
type File struct {
	entries map[provider.Target]Entry
	names   map[string]string // display names by provider
}

// document is the form of the file.
type document struct {
	Providers []struct {
		Provider    string `yaml:"provider"`
		DisplayName string `yaml:"display_name"`
		Owner       string `yaml:"owner"`
		// Like copies the models of another provider further up in the file, without their lifecycles: another host has
		// its own dates.
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
	if err := strictyaml.Decode(text, &doc); err != nil && !errors.Is(err, strictyaml.ErrEmpty) {
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

// like copies the models of a provider that is further up in the file.
func (f *File) like(provider, other string) error {
	if other == "" {
		return nil
	}
	if _, known := f.names[other]; !known || other == provider {
		return fmt.Errorf("catalog: %s: like: %q is not a provider listed above it", provider, other)
	}
	for t, e := range f.entries {
		if t.Provider != other || len(e.Input) == 0 {
			continue // Of a retired model nothing more is known.
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
		return errors.New("appears twice")
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

// day parses a date; an empty one is the zero time.
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

// Catalog is the models of a policy, with what the file and the prices say of them. It is immutable.
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

// Card is what a model can do and what it costs. The lists of its Entry are complete even if the file doesn't list the
// model.
type Card struct {
	Entry
	// Aliases are other names of the model that requests may use.
	Aliases    []string
	Operations []provider.Operation
	Limits     policy.Limits
	// Dimensions is the largest dimension of its vectors; 0 is unknown.
	Dimensions int
	// Identity is one name for the model at all of its hosts; empty if unknown.
	Identity string
	Price    *price.Row
	// IsDefault reports whether requests without a model get this one from its provider, for one of its operations.
	IsDefault bool
	Lifecycle Row
}

// targets returns the models that can be called: those that providers list, and for a provider without a list those of
// the file.
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

// Provider returns a configured provider by its name or an alias.
func (c *Catalog) Provider(name string) (Provider, bool) {
	name, ok := c.policy.Canonical(name)
	if !ok {
		return Provider{}, false
	}
	i := slices.IndexFunc(c.policy.Providers, func(p policy.Provider) bool { return p.Name == name })
	p := &c.policy.Providers[i]
	return Provider{Name: p.Name, DisplayName: cmp.Or(c.file.names[p.Name], p.Name), Dialect: p.Dialect, Aliases: p.Aliases}, true
}

// card returns a model's card.
func (c *Catalog) card(t provider.Target, now time.Time) Card {
	e, known := c.file.entries[t]
	if !known {
		e = Entry{Target: t, DisplayName: t.Model}
	}
	d, _ := c.policy.Describe(t)
	e.Input, e.Output = modalities(e, d.Operations)
	e.Capabilities = abilities(e, d)
	card := Card{Entry: e, Aliases: []string{t.String()}, Operations: d.Operations, Limits: d.Limits, Dimensions: d.MostDimensions, Identity: d.Identity}
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

// modalities returns the file's modalities, or those that follow from the operations.
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
		case provider.OperationCompletions:
			add(&out, "text")
		case provider.OperationModerations:
			add(&in, "image")
			add(&out, "categories")
		case provider.OperationSpeech:
			add(&out, "audio")
		case provider.OperationTranscriptions:
			add(&in, "audio")
			add(&out, "text")
		case provider.OperationRerank:
			add(&out, "ranking")
		}
	}
	return in, out
}

// tokenInput is the capability of a model whose inputs may be tokens.
const tokenInput = "token_input"

// abilities returns what may be asked of a model.
func abilities(e Entry, d policy.Description) []string {
	var all []string
	if slices.Contains(d.Operations, provider.OperationChat) || slices.Contains(d.Operations, provider.OperationVision) {
		all = append(all, "streaming")
		for _, feature := range d.Features {
			if feature != "image_urls" && feature != tokenInput { // How images are sent is up to the gateway.
				all = append(all, feature)
			}
		}
	}
	if slices.Contains(d.Operations, provider.OperationEmbeddings) && slices.Contains(d.Features, tokenInput) {
		all = append(all, tokenInput)
	}
	return append(all, e.Capabilities...)
}
