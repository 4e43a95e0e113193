package sandbox

import "switchyard.dev/services/gateway/internal/vendors/provider"

// Dialect returns the entry of this dialect in the list of package adapter.
func Dialect() provider.Dialect {
	return provider.Dialect{
		Name: "sandbox", Operations: provider.SetOf(provider.Operations()...), TokenInput: true,
		Relays: []string{"openai", "cohere"},
		Hints: func(provider.Settings) func(string) provider.Hint {
			return provider.Takes(provider.HintSeed | provider.HintOneCall)
		},
		Reasons: func(model string) bool { return model == modelReasoning },
		New: func(s provider.Settings) (provider.Provider, error) {
			return New(Config{Name: s.Name}), nil
		},
	}
}
