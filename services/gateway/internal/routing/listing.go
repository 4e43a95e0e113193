package routing

// Listing names every model that callers may ask for by its name alone, each
// once, with the first provider that has it.
func (p *Policy) Listing() []Target {
	var listing []Target
	seen := make(map[string]bool)
	for _, provider := range p.Providers {
		for _, model := range provider.Models {
			if !seen[model.Name] {
				seen[model.Name] = true
				listing = append(listing, Target{provider.Name, model.Name})
			}
		}
	}
	return listing
}
