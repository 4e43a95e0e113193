package reference

import "switchyard.dev/services/platform/apidoc"

// ownPatterns has the words of patterns of the edge's own contract.
var ownPatterns = map[string]string{
	`^switchyard(\.\*|(\.[a-z0-9_]{1,64}){1,4}(\.\*)?)$`: "must be a type of Switchyard's events, or the beginning of one up to a dot and then *",
	`^https?://`: "must begin with http:// or https://",
}

// patternText returns a regular expression in words, and one that is unknown as it is.
func patternText(pattern string) string {
	if rule, ok := apidoc.PatternRule(pattern); ok {
		return rule
	}
	if rule := ownPatterns[pattern]; rule != "" {
		return rule
	}
	return "matches " + pattern
}
