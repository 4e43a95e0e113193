package policy

import "switchyard.dev/services/gateway/internal/vendors/provider"

// Default is the model with which a provider serves an operation for requests that name only the provider.
type Default struct {
	provider.Target
	Operation provider.Operation
}

// Defaults returns the default models of all providers for some operations, in the policy's order. A model that is the
// default for several of the operations appears once, with the first.
func (p *Policy) Defaults(operations ...provider.Operation) []Default {
	var all []Default
	for i := range p.Providers {
		of := p.byName[p.Providers[i].Name]
		seen := make(map[provider.Target]bool)
		for _, operation := range operations {
			if o := of.defaults[operation]; o != nil && !seen[o.Target] {
				seen[o.Target] = true
				all = append(all, Default{o.Target, operation})
			}
		}
	}
	return all
}
