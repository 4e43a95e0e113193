package openai

import (
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// Dialect returns the entry of this dialect in the list of package adapter.
func Dialect() provider.Dialect {
	return provider.Dialect{
		Name: DialectName, Operations: provider.SetOf(provider.Operations()...), TokenInput: true, Takes: takes, Reasons: reasons,
		New: func(s provider.Settings) (provider.Provider, error) {
			return New(Config{
				Name: s.Name, BaseURL: s.BaseURL, APIVersion: s.APIVersion, KeyHeader: s.KeyHeader,
				StreamUsage: s.StreamUsage, ShortToolIDs: s.ShortToolIDs, Responses: s.Responses, ReasoningStyle: s.ReasoningStyle, Transport: s.Transport,
			})
		},
	}
}

// takes reports whether a server takes bodies of this dialect, or of its Responses API.
func takes(s provider.Settings, form string) bool {
	switch form {
	case DialectName:
		return true
	case ResponsesName:
		base, err := wire.Base(s.BaseURL)
		return err == nil && traitsOf(base, Config{APIVersion: s.APIVersion, Responses: s.Responses}).responses
	}
	return false
}
