package inference

import "switchyard.dev/services/gateway/internal/vendors/provider"

// Models returns what callers may ask for at present; nil where the planner does not list it.
func (e *Engine) Models() []provider.Target {
	if lister, ok := e.Fleet().Planner.(interface{ Listing() []provider.Target }); ok {
		return lister.Listing()
	}
	return nil
}
