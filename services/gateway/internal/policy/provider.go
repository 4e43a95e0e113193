package policy

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"golang.org/x/net/http/httpguts"

	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/vendors/adapter"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Model is a model that a provider serves.
type Model struct {
	// Name is the name that callers use.
	Name string `yaml:"name"`
	// Upstream is the vendor's own name, if it differs.
	Upstream string `yaml:"upstream"`
	// Identity says which model it is, where neither name does, by any of its names; see package identity.
	Identity     string `yaml:"identity"`
	Capabilities `yaml:",inline"`
	price.Rates  `yaml:",inline"`
}

// Provider is a configured vendor.
type Provider struct {
	Name string `yaml:"name"`
	// Aliases are other names for it that callers may use; a provider of that name takes precedence.
	Aliases []string `yaml:"aliases"`
	// Dialect is its wire format; package adapter lists the dialects.
	Dialect string `yaml:"dialect"`
	BaseURL string `yaml:"base_url"`
	// KeyFile is the path of the file with the fleet's key; if empty, the provider is called without a key.
	KeyFile string `yaml:"key_file"`
	// Credentials are the fleet's, where it has several; see Pool. CredentialChoice is how one of them is chosen;
	// ChoiceWeighted if empty.
	Credentials      []Credential `yaml:"credentials"`
	CredentialChoice Choice       `yaml:"credential_choice"`
	// KeyHeader is the header that carries the key instead of the dialect's own.
	KeyHeader  string `yaml:"key_header"`
	Connection `yaml:",inline"`
	// APIVersion, StreamUsage, ShortToolIDs and Responses are settings of the openai dialect; see its package.
	APIVersion   string `yaml:"api_version"`
	StreamUsage  *bool  `yaml:"stream_usage"`
	ShortToolIDs bool   `yaml:"short_tool_ids"`
	Responses    *bool  `yaml:"responses"`
	// Batches is whether it runs batch jobs; a setting of the openai and the anthropic dialect.
	Batches *bool `yaml:"batches"`
	// ReasoningStyle is how the server is told how much to think; a setting of the openai dialect too.
	ReasoningStyle string `yaml:"reasoning_style"`
	// Regions are the regions that it works in, and Tags its properties, both for data rules.
	Regions []string `yaml:"regions"`
	Tags    []string `yaml:"tags"`
	// PromptCacheTTL is how long it keeps a prompt in its cache. For so long, requests with the same prompt are sent to
	// the same place.
	PromptCacheTTL time.Duration `yaml:"prompt_cache_ttl"`
	// DefaultModel is the provider's model for an operation; if absent, its first model that supports the operation.
	DefaultModel perOperation[string] `yaml:"default_model"`
	// Capabilities are the operations and features of models that set none.
	Capabilities `yaml:",inline"`
	// Models are the models it serves. If empty, it serves any model, requested as "name/model".
	Models []Model `yaml:"models"`
}

func (p *Provider) check() error {
	_, known := adapter.Find(p.Dialect)
	switch {
	case !providerName.MatchString(p.Name):
		return errors.New("name: want lower-case letters, digits, '.', '_' and '-', at most 64")
	case !known:
		return fmt.Errorf("dialect: %q: want %s", p.Dialect, adapter.Names())
	case p.PromptCacheTTL != 0 && p.PromptCacheTTL < time.Second:
		return errors.New("prompt_cache_ttl: want at least 1s")
	}
	if p.KeyHeader != "" && !httpguts.ValidHeaderFieldName(p.KeyHeader) {
		return errors.New("key_header: not a valid header name")
	}
	if err := cmp.Or(p.Capabilities.check(), p.Connection.check(), p.checkCredentials()); err != nil {
		return err
	}
	seen := make(map[string]bool)
	for i, model := range p.Models {
		if model.Name == "" || model.Name == DefaultModel || seen[model.Name] {
			return fmt.Errorf("models[%d].name %q: is empty, reserved or a duplicate", i, model.Name)
		}
		seen[model.Name] = true
		if err := model.check(); err != nil {
			return fmt.Errorf("models[%d] %q: %w", i, model.Name, err)
		}
	}
	return nil
}

// resolve makes the paths of files absolute, and completes identities.
func (p *Provider) resolve(source *Source) error {
	p.KeyFile = source.absolute(p.KeyFile)
	p.Connection.resolve(source.absolute)
	for i := range p.Credentials {
		c := &p.Credentials[i]
		if err := c.resolve(source, p.BaseURL); err != nil {
			return fmt.Errorf("credentials[%d] %q: %w", i, c.Name, err)
		}
	}
	return nil
}

// Adapter returns the settings for the adapter of the provider's dialect. Transport and Headers are left to the caller.
func (p *Provider) Adapter() provider.Settings {
	limits := make(map[string]int)
	for _, model := range p.Models {
		if model.Limits.Output > 0 {
			limits[cmp.Or(model.Upstream, model.Name)] = model.Limits.Output
		}
	}
	return provider.Settings{
		Name: p.Name, BaseURL: p.BaseURL, APIVersion: p.APIVersion, KeyHeader: p.KeyHeader,
		StreamUsage: p.StreamUsage, ShortToolIDs: p.ShortToolIDs, Responses: p.Responses, Batches: p.Batches,
		ReasoningStyle: p.ReasoningStyle, OutputLimits: limits,
	}
}

// check hides the embedded methods of the same name.
func (m *Model) check() error { return m.Capabilities.check() }
