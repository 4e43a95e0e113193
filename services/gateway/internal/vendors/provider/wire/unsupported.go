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
var unsupportedCodes = []string{
	"unsupported_parameter", "unsupported_value", "unknown_parameter", "unsupported_feature", "array_above_max_length",
	"invalid_json_schema", "invalid_function_parameters",
}

// unsupportedTexts matches the texts of such errors. Sources: observed answers of OpenAI, Anthropic, Amazon Bedrock,
// Google, xAI, DeepSeek, Groq and compatible servers.
var unsupportedTexts = anyOf(
	// Parameters, features and kinds of content.
	`\b(?:is|are) not supported\b`,
	`\bis un(?:supported\b|available now\b)`,
	`\bnot (?:supported|permitted|available|enabled) (?:with|by|for|on|in) `+
		`(?:th(?:is|e) (?:model|provider|api|endpoint|deployment|region)|models/|api version)`,
	`\b(?:deprecated|specified|enabled|available|allowed) for this model\b`,
	`\b(?:does not|doesn't) support\b`,
	`\bonly supported (?:by certain models|in v1/)`,
	`\bunsupported (?:parameter|value|keyword|schema|type|feature|field)`,
	`\b(?:unrecognized|model incompatible) request arguments? supplied\b`,
	`\bunknown name "[^"]*"(?: at '[^']*')?: cannot find field\b`,
	`\b(?:extra inputs are|extraneous key \[[^\]]*\] is) not permitted\b`,
	`\bdoes not match any of the expected tags\b`,
	`\bis not a multimodal model\b`,
	`\brequires --enable-`,
	`\bmust contain the word 'json'`,
	// Thinking.
	`\bmay not be enabled when\b`,
	`\bonly (?:works in thinking mode|enabled when thinking is enabled)\b`,
	`\bthinking_budget is out of range\b`,
	// Sizes.
	`\bmaximum allowed number of output tokens\b`,
	`\bsupports at most \d+ (?:completion|output) tokens\b`,
	`\bat most \d+ (?:image|video|audio)\(s\) may be provided\b`,
	`'tools': array too long\b`,
	`\btool_calls\[\d+\]\.id': string too long\b`,
	// Schemas.
	`\bschema\b[^.]*\b(?:unsupported|not (?:supported|permitted|allowed)|too complex|recursive|circular)\b`,
	`\bmust be a JSON Schema of 'type\b`,
	`'?additionalProperties'? must be (?:explicitly )?set to`,
	`'required' is required to be supplied\b`,
	`\bproperty keys should match pattern\b`,
	`\$ref cannot have keywords\b`,
	`\bcompiled grammar is too large\b`,
	`\btoo many (?:strict tools|optional parameters|parameters with union types|states for serving)\b`,
)

// unsupportedPaths matches the texts of errors with status 404 that name the feature or API that the model lacks. Any
// other 404 may mean that the caller misspelled the model.
var unsupportedPaths = anyOf(
	`\bno endpoints found that support\b`,
	`\b(?:not|only) supported in (?:the )?v1/`,
)

// anyOf returns an expression that matches each of the patterns, whatever the case.
func anyOf(patterns ...string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)` + strings.Join(patterns, "|"))
}

// maxCompared is how many bytes of an error text are matched. Vendors name the reason first.
const maxCompared = 2 << 10

// isUnsupported reports whether a vendor refused a request because the vendor or its model lacks something that the
// request uses. Another candidate may have it. An error in a stream or in a 2xx answer has no status of its own.
func isUnsupported(e *provider.Error) bool {
	if e.Class != apierr.ClassPolicy {
		return false
	}
	text := e.Text[:min(len(e.Text), maxCompared)]
	switch status := e.Status; {
	case status == http.StatusNotFound:
		return unsupportedPaths.MatchString(text)
	case status > http.StatusBadRequest && status != http.StatusUnprocessableEntity:
		return false
	}
	return slices.Contains(unsupportedCodes, e.Code) || unsupportedTexts.MatchString(text) ||
		unsupportedPaths.MatchString(text)
}
