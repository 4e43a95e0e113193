package anthropic

import "switchyard.dev/services/gateway/internal/vendors/provider"

// Versions from which a model takes the temperature or top_p but not both, takes neither, and doesn't continue an answer.
// Sources: Anthropic's migration guides and release notes.
const (
	firstOneSampling = 401
	firstUnsampled   = 407
	firstUnprefilled = 406
)

// firstEnforced is the version from which a model enforces schemas.
const firstEnforced = 401

// enforces reports whether a model's output can be constrained to a schema: its text, and the arguments of its calls. That
// of other vendors' models is not known.
func enforces(model string) bool { return Version(model) == 0 || Version(model) >= firstEnforced }

// Terms returns what a model of Claude refuses, at each of its hosts.
func Terms(model string) provider.Terms {
	t := provider.Terms{
		Functions: provider.NameRule{Longest: 128}, NoBlanks: true, NoPrefill: Version(model) >= firstUnprefilled, Obstacle: obstacleTo,
	}
	switch v := Version(model); {
	case v >= firstUnsampled:
		t.Sampling = provider.SamplingDefault
	case v >= firstOneSampling:
		t.Sampling = provider.SamplingOne
	}
	return t
}
