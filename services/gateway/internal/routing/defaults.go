package routing

// Default is the model that a provider serves an operation with, for requests that
// name only the provider.
type Default struct {
	Target
	Operation Operation
}

// Defaults are the default models of all providers for some operations, by the
// order of the policy. A model stands for all that it does.
func (p *Policy) Defaults(operations ...Operation) []Default {
	var all []Default
	for i := range p.Providers {
		of := p.byName[p.Providers[i].Name]
		seen := make(map[Target]bool)
		for _, operation := range operations {
			if o := of.defaults[operation.index()]; o != nil && !seen[o.candidate.Target] {
				seen[o.candidate.Target] = true
				all = append(all, Default{o.candidate.Target, operation})
			}
		}
	}
	return all
}
