package vertex

import (
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/anthropic"
	"switchyard.dev/services/gateway/internal/vendors/provider/gemini"
	"switchyard.dev/services/gateway/internal/vendors/provider/openai"
)

// Dialect returns the entry of this dialect in the list of package adapter.
func Dialect() provider.Dialect {
	google, claude, open := gemini.Dialect(), anthropic.Dialect(), openai.Dialect()
	of := func(model string) provider.Dialect {
		switch {
		case isClaude(model):
			return claude
		case isOpen(model):
			return open
		}
		return google
	}
	return provider.Dialect{
		Name: DialectName, Operations: provider.Contracted(),
		Reasons: func(model string) bool { return of(model).Reasons(model) },
		Forms: func(provider.Settings) func(model string) []string {
			return func(model string) []string { return []string{of(model).Name} }
		},
		Hints: func(s provider.Settings) func(model string) provider.Hint {
			return func(model string) provider.Hint { return of(model).HintsOf(s)(model) }
		},
		Terms: func(model string) provider.Terms { return of(model).TermsOf(model) },
		New:   func(s provider.Settings) (provider.Provider, error) { return New(s) },
	}
}
