package gemini

import (
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/schema"
)

// Dialect returns the entry of this dialect in the list of package adapter.
func Dialect() provider.Dialect {
	return provider.Dialect{
		Name: DialectName, Operations: provider.Contracted(), Reasons: reasons, Hints: func(provider.Settings) func(string) provider.Hint { return hints },
		Terms: terms,
		New:   func(s provider.Settings) (provider.Provider, error) { return New(s) },
	}
}

// hints returns the hints that a model takes.
func hints(model string) provider.Hint {
	if takesPenalties(model) {
		return provider.HintSeed | provider.HintThoughtSignature | provider.HintPenalties
	}
	return provider.HintSeed | provider.HintThoughtSignature
}

// takesPenalties reports whether a model takes penalties. Models from 2.5 on refuse any but 0 ("Penalty is not enabled for
// this model").
func takesPenalties(model string) bool {
	v := versionOf(model)
	return v > 0 && v < firstThinking
}

// terms returns what a model refuses. Source: Gemini API reference, FunctionDeclaration and GenerationConfig.
func terms(model string) provider.Terms {
	var refused provider.Hint
	if versionOf(model) >= firstThinking {
		refused = provider.HintPenalties
	}
	return provider.Terms{
		Refused: refused, NoReasoning: versionOf(model) > 0 && !reasons(model),
		Functions: provider.NameRule{Longest: 64, Extra: ".:", LetterFirst: true}, Stops: 5, NoBlanks: true,
		Texts: provider.TextsNotEmpty, SystemApart: true, RefusedInResults: provider.AttachedAll,
	}
}

// arguments is what the vendor requires of function schemas.
var arguments schema.Arguments
