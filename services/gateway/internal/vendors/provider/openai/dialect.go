package openai

import (
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// Dialect returns the entry of this dialect in the list of package adapter.
func Dialect() provider.Dialect {
	return provider.Dialect{
		Name: DialectName, Operations: provider.SetOf(provider.Operations()...), TokenInput: true, Forms: forms, Reasons: reasons,
		Relays: []string{DialectName},
		New: func(s provider.Settings) (provider.Provider, error) {
			return New(Config{
				Name: s.Name, BaseURL: s.BaseURL, APIVersion: s.APIVersion, KeyHeader: s.KeyHeader,
				StreamUsage: s.StreamUsage, ShortToolIDs: s.ShortToolIDs, Responses: s.Responses, Batches: s.Batches,
				ReasoningStyle: s.ReasoningStyle, Transport: s.Transport,
			})
		},
	}
}

// forms returns the dialect itself and, for a server that has it, the Responses API.
func forms(s provider.Settings) []string {
	base, err := wire.Base(s.BaseURL)
	if err == nil && traitsOf(base, Config{APIVersion: s.APIVersion, Responses: s.Responses}).responses {
		return []string{DialectName, ResponsesName, CompactionName}
	}
	return []string{DialectName}
}
