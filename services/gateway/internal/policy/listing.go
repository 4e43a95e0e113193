package policy

import "switchyard.dev/services/gateway/internal/vendors/provider"

// Listing returns every model that callers may request by its name alone, each once, with the first provider that lists
// it.
func (p *Policy) Listing() []provider.Target {
	var listing []provider.Target
	seen := make(map[string]bool)
	for _, of := range p.Providers {
		for _, model := range of.Models {
			if !seen[model.Name] {
				seen[model.Name] = true
				listing = append(listing, provider.Target{Provider: of.Name, Model: model.Name})
			}
		}
	}
	return listing
}
