package anthropic

import "switchyard.dev/services/gateway/internal/vendors/provider"

// Versions from which a model takes only one of temperature and top_p, takes neither, and doesn't continue an answer.
// Sources: Anthropic's migration guides and release notes.
const (
	firstOneSampling = 401
	firstUnsampled   = 407
	firstUnprefilled = 406
)

// firstEnforced is the version from which a model enforces schemas.
const firstEnforced = 401

// enforces reports whether the vendor can constrain a model's text and call arguments to a schema. It returns true for
// models other than Claude, about which nothing is known.
func enforces(model string) bool { return Version(model) == 0 || Version(model) >= firstEnforced }

// Terms returns what a Claude model refuses, on any host.
func Terms(model string) provider.Terms {
	t := provider.Terms{
		Functions: provider.NameRule{Longest: 128}, NoBlanks: true, Texts: provider.TextsNotBlank, SystemApart: true,
		NoReasoning: Version(model) > 0 && !Reasons(model), NoPrefill: Version(model) >= firstUnprefilled, Loosen: Loosen, Obstacle: obstacleTo,
	}
	if !enforces(model) {
		t.Loosen = LoosenAll
	}
	switch v := Version(model); {
	case v >= firstUnsampled:
		t.Sampling, t.Refused = provider.SamplingDefault, provider.HintTopK
	case v >= firstOneSampling:
		t.Sampling = provider.SamplingOne
	}
	return t
}
