package inference

import "switchyard.dev/services/gateway/internal/vendors/provider"

// Models returns what callers may ask for at present; nil where the planner does not list it.
func (e *Engine) Models() []provider.Target {
	if lister, ok := e.Fleet().Planner.(interface{ Listing() []provider.Target }); ok {
		return lister.Listing()
	}
	return nil
}

// EstimateInput estimates the input tokens of a request, as a bill does when a vendor reports none.
func EstimateInput(r *Request) int64 { return estimateInput(r).Prompt() }
