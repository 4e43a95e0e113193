package gemini

import "switchyard.dev/services/gateway/internal/vendors/provider"

// Dialect returns the entry of this dialect in the list of package adapter.
func Dialect() provider.Dialect {
	return provider.Dialect{
		Name: DialectName, Operations: provider.Contracted(), Reasons: reasons,
		New: func(s provider.Settings) (provider.Provider, error) {
			return New(Config{Name: s.Name, BaseURL: s.BaseURL, Transport: s.Transport})
		},
	}
}
