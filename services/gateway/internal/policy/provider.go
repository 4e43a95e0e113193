package policy

import (
	"errors"
	"fmt"
	"time"

	"switchyard.dev/services/gateway/internal/money/price"
)

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
