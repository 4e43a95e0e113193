package openai

import (
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// Dialect returns the entry of this dialect in the list of package adapter.
func Dialect() provider.Dialect {
	return provider.Dialect{
		Name: DialectName, Operations: provider.SetOf(provider.Operations()...), TokenInput: true, Forms: forms, Reasons: reasons, Hints: hints, Terms: terms,
		Relays: []string{DialectName},
		New:    func(s provider.Settings) (provider.Provider, error) { return New(s) },
	}
}

// hints returns which hints a server takes for a model.
func hints(s provider.Settings) func(model string) provider.Hint {
	base, err := wire.Base(s.BaseURL)
	if err != nil {
		return provider.Takes(0)
	}
	return traitsOf(base, s).takes
}

// forms returns the dialect itself and, for a server that has it, the Responses API.
func forms(s provider.Settings) func(model string) []string {
	base, err := wire.Base(s.BaseURL)
	if err == nil && traitsOf(base, s).responses {
		return provider.Forms(DialectName, ResponsesName, CompactionName)
	}
	return provider.Forms(DialectName)
}
