package health

import (
	"regexp"
	"strings"
)

// version matches the suffix that dates or stages a model: "-2024-08-06", "@20240620", "-0613", "-002", "-latest",
// ":free".
var version = regexp.MustCompile(`(?:[-@](?:latest|preview|exp|\d{4}-\d{2}-\d{2}|\d{2}-\d{4}|\d{8}|\d{6}|\d{4}|0\d\d)|:[^:/]*)+$`)

// Family returns the name that all versions of a model share. Versions of a model run on the same machines and fail
// together: "gpt-4o-2024-08-06" and "gpt-4o" are one family.
func Family(model string) string {
	lower := strings.ToLower(model)
	if family := version.ReplaceAllString(lower, ""); family != "" {
		return family
	}
	return lower
}
