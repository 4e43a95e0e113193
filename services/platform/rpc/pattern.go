package rpc

import (
	"strconv"
	"strings"

	"switchyard.dev/services/platform/apidoc"
)

// patternReason begins the generated text of a pattern's rule.
const patternReason = "value does not match regex pattern "

// wordsOfPattern returns the text of a rule with its pattern, if it has one, in words.
func wordsOfPattern(reason string) string {
	quoted, ok := strings.CutPrefix(reason, patternReason)
	if !ok {
		return reason
	}
	pattern, err := strconv.Unquote(quoted)
	if rule, known := apidoc.PatternRule(pattern); err == nil && known {
		return rule
	}
	return "does not have the form that this field takes"
}
