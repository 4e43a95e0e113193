package wire

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// unsupportedCodes are error codes that say that the vendor or its model lacks something, not that the request is
// wrong.
var unsupportedCodes = []string{"unsupported_parameter", "unsupported_value", "unknown_parameter", "unsupported_feature"}

// unsupportedTexts matches the texts of such errors. Sources: observed answers of OpenAI, Anthropic, Amazon Bedrock,
// Google and compatible servers.
var unsupportedTexts = regexp.MustCompile(`(?i)` + strings.Join([]string{
	`\b(?:is|are) not supported\b`,
	`\b(?:is|are|was) not (?:supported|permitted|available|enabled) (?:with|by|for|on|in) th(?:is|e) (?:model|provider|api|endpoint|deployment|region)`,
	`\b(?:deprecated|specified|enabled|available|allowed) for this model\b`,
	`\b(?:does not|doesn't) support\b`,
	`\bunsupported (?:parameter|value|keyword|schema|type|feature|field)`,
	`\bschema\b[^.]*\b(?:unsupported|not (?:supported|permitted|allowed)|too complex|recursive|circular)\b`,
	`\bmust be a JSON Schema of 'type\b`,
	`'?additionalProperties'? must be (?:explicitly )?set to`,
	`\bproperty keys should match pattern\b`,
	`\b(?:extra inputs are|extraneous key \[[^\]]*\] is) not permitted\b`,
	`\bdoes not match any of the expected tags\b`,
	`\bmay not be enabled when\b`,
}, "|"))

// maxCompared is how many bytes of an error text are matched.
const maxCompared = 4 << 10

// isUnsupported reports whether a vendor refused a request because the vendor or its model lacks something that the
// request uses. Another candidate may have it. An error in a stream or in a 2xx answer has no status of its own.
func isUnsupported(e *provider.Error) bool {
	refusal := e.Status <= http.StatusBadRequest || e.Status == http.StatusUnprocessableEntity
	if e.Class != apierr.ClassPolicy || !refusal {
		return false
	}
	return slices.Contains(unsupportedCodes, e.Code) || unsupportedTexts.MatchString(e.Text[:min(len(e.Text), maxCompared)])
}
