package reference

import "switchyard.dev/services/platform/apidoc"

// ownPatterns has the words of patterns of the edge's own contract.
var ownPatterns = map[string]string{
	`^switchyard(\.\*|(\.[a-z0-9_]{1,64}){1,4}(\.\*)?)$`: "must be a type of Switchyard's events, or the beginning of one up to a dot and then *",
	`^[a-z0-9][a-z0-9_-]{0,63}$`:                         "must be 1 to 64 lower-case letters, digits, _ and -, of which the first is a letter or digit",
	`^T[A-Z0-9]{2,20}$`:                                  "must be the id of a workspace of Slack, such as T0123ABCD",
	`^[UW][A-Z0-9]{2,20}$`:                               "must be the id of a user of Slack, such as U0123ABCD",
	`^[CDG][A-Z0-9]{2,20}$`:                              "must be the id of a conversation of Slack, such as C0123ABCD",
	`^https?://`:                                         "must begin with http:// or https://",
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
