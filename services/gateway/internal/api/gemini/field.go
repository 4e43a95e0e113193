package gemini

import (
	"slices"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// requestFields are those of a request. Source: Gemini API reference, "generateContent", and the types of Google's own client.
// What cachedContent and continuationToken name is known to one vendor alone.
var requestFields = dialect.Fields{
	{Name: "model", Class: dialect.Handled},
	{Name: "contents", Class: dialect.Read},
	{Name: "systemInstruction", Class: dialect.Read},
	{Name: "generationConfig", Class: dialect.Read},
	{Name: "tools", Class: dialect.Read},
	{Name: "toolConfig", Class: dialect.Read},

	{Name: "safetySettings", Class: dialect.Hint, Defaults: []string{"[]"}},
	{Name: "labels", Class: dialect.Hint, Defaults: []string{"{}"}},
	{Name: "store", Class: dialect.Hint, Defaults: []string{"false"}},

	{Name: "cachedContent", Class: dialect.Own, Open: true, Defaults: []string{`""`}},
	{Name: "continuationToken", Class: dialect.Own, Open: true, Defaults: []string{`""`}},
	{
		Name: "serviceTier", Class: dialect.Own, Surcharge: true,
		Defaults: []string{`""`, `"standard"`, `"unspecified"`},
	},
}

// generationFields are the fields of generationConfig.
var generationFields = dialect.Fields{
	{Name: "temperature", Class: dialect.Read, Hint: provider.HintTemperature},
	{Name: "topP", Class: dialect.Read, Hint: provider.HintTopP},
	{Name: "maxOutputTokens", Class: dialect.Read},
	{Name: "stopSequences", Class: dialect.Read, Hint: provider.HintStop},
	{Name: "thinkingConfig", Class: dialect.Read},
	{Name: "responseMimeType", Class: dialect.Read},
	{Name: "responseSchema", Class: dialect.Read},
	{Name: "responseJsonSchema", Class: dialect.Read},
	{Name: "responseModalities", Class: dialect.Read},

	{Name: "seed", Class: dialect.Hint, Hint: provider.HintSeed},
	{Name: "presencePenalty", Class: dialect.Hint, Hint: provider.HintPenalties, Defaults: []string{"0", "0.0"}},
	{Name: "frequencyPenalty", Class: dialect.Hint, Hint: provider.HintPenalties, Defaults: []string{"0", "0.0"}},
	{Name: "topK", Class: dialect.Hint},
	{Name: "mediaResolution", Class: dialect.Hint},
	{Name: "imageConfig", Class: dialect.Hint},
	{Name: "audioTimestamp", Class: dialect.Hint, Defaults: []string{"false"}},
	{Name: "enableAffectiveDialog", Class: dialect.Hint, Defaults: []string{"false"}},
	{Name: "enableEnhancedCivicAnswers", Class: dialect.Hint, Defaults: []string{"false"}},
	{Name: "modelSelectionConfig", Class: dialect.Hint},

	{Name: "candidateCount", Class: dialect.Own, Defaults: []string{"1"}},
	{Name: "responseLogprobs", Class: dialect.Own, Defaults: []string{"false"}},
	{Name: "logprobs", Class: dialect.Own, Defaults: []string{"0"}},
	{Name: "speechConfig", Class: dialect.Own, Defaults: []string{"{}"}},
	{Name: "audioTranscriptionConfig", Class: dialect.Own, Defaults: []string{"{}"}},
	{Name: "routingConfig", Class: dialect.Own, Defaults: []string{"{}"}},
}

// Fields returns the fields of a request, those of generationConfig with its name.
func (Dialect) Fields() dialect.Fields {
	return append(slices.Clip(requestFields), generationFields.Within("generationConfig")...)
}
