package ledger

import (
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Report is what an answer says of its entry: who served it, what it used and what it costs.
type Report struct {
	Provider, Model string
	// Prompt and Completion are sums of tokens, and Usage has them by bucket.
	Prompt, Completion int64
	Usage              provider.Usage
	Cost               price.Pico
	// Estimated reports that the figures are not the provider's own, or that the model has no price.
	Estimated bool
	// RequestedProvider is empty where no other provider could have served the request.
	RequestedProvider string
	RequestedGoal     string
	Substituted       bool
	CacheHit          bool
}
