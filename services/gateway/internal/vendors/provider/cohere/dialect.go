package cohere

import "switchyard.dev/services/gateway/internal/vendors/provider"

// Dialect returns the entry of this dialect in the list of package adapter.
func Dialect() provider.Dialect {
	return provider.Dialect{
		Name: DialectName, Operations: provider.SetOf(provider.OperationEmbeddings, provider.OperationRerank), Relays: []string{DialectName},
		New: func(s provider.Settings) (provider.Provider, error) { return New(s) },
	}
}
