package routing

import (
	"fmt"
	"strings"

	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// maxNamed bounds the candidates that an error names.
const maxNamed = 8

// Refuse returns an apierr.Error that says why every candidate of a request was excluded: what none of them can do, or
// that none of them may see the data.
func Refuse(r *Request, excluded []Exclusion) error {
	named := make([]string, 0, maxNamed)
	lacks := make(map[Lack]int)
	for _, e := range excluded {
		if len(named) < maxNamed {
			named = append(named, e.String())
		}
		lacks[e.Lack]++
	}
	list := strings.Join(named, ", ")
	if len(excluded) > maxNamed {
		list += fmt.Sprintf(" and %d more", len(excluded)-maxNamed)
	}
	unfit := len(excluded) - lacks[LackClassification]
	able := unfit - lacks[LackVocabulary] // Another model was never asked for.
	switch {
	case unfit == 0:
		return policy.Denied("data_classification: no provider that may see this data has what was asked for: " + list)
	case able > 0 && lacks[LackContext] == able:
		return &apierr.Error{
			Kind: apierr.KindInvalid, Reason: ReasonContextOverflow, Class: apierr.ClassContextOverflow,
			Text: inputField(r.Operation) + ": too long for every candidate: " + list,
		}
	case able > 0 && lacks[LackDialect] == able && r.Needs.Relay != "":
		return apierr.New(apierr.KindInvalid, ReasonCapabilityUnsupported,
			"model: only providers of the "+r.Needs.Relay+" dialect have this call: "+list)
	case able > 0 && lacks[LackDialect] == able && r.Needs.DialectField != "":
		return apierr.New(apierr.KindInvalid, ReasonCapabilityUnsupported,
			r.Needs.DialectField+": only providers of the "+r.Needs.Dialect+" dialect can carry it: "+list)
	case able > 0 && lacks[LackTokenInput] == able:
		return apierr.New(apierr.KindInvalid, ReasonCapabilityUnsupported,
			"input: only the model that was named can read these tokens, and no provider of it takes token input; send texts: "+list)
	}
	return apierr.New(apierr.KindInvalid, ReasonCapabilityUnsupported, "no candidate can do what was asked for: "+list)
}

// inputField returns the field of a request that holds most of its input.
func inputField(operation provider.Operation) string {
	switch operation {
	case provider.OperationEmbeddings, provider.OperationModerations, provider.OperationSpeech:
		return "input"
	case provider.OperationVision, provider.OperationImages, provider.OperationCompletions:
		return "prompt"
	case provider.OperationTranscriptions:
		return "file"
	case provider.OperationRerank:
		return "documents"
	case provider.OperationChat:
	}
	return "messages"
}
