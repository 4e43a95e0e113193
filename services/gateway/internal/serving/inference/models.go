package inference

import "switchyard.dev/services/gateway/internal/vendors/provider"

// Models lists what callers may ask for at present, where the planner tells.
func (e *Engine) Models() []provider.Target {
	if lister, ok := e.Fleet().Planner.(interface{ Listing() []provider.Target }); ok {
		return lister.Listing()
	}
	return nil
}

// EstimateInput guesses the tokens of what a request sends, as a bill does when
// a vendor reports none.
func EstimateInput(r *Request) int64 { return estimateInput(r).Prompt() }
