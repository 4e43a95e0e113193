package anthropic

import "switchyard.dev/services/gateway/internal/vendors/provider"

// Dialect returns the entry of this dialect in the list of package adapter.
func Dialect() provider.Dialect {
	return provider.Dialect{
		Name: DialectName, Operations: provider.SetOf(provider.OperationChat, provider.OperationVision), Reasons: Reasons,
		Hints: func(provider.Settings) func(string) provider.Hint {
			return provider.Takes(provider.HintCachePoint | provider.HintEndUser | provider.HintOneCall | provider.HintSignedThinking)
		},
		Terms: Terms,
		New:   func(s provider.Settings) (provider.Provider, error) { return New(s) },
	}
}
