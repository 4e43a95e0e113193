package health

import (
	"regexp"
	"strings"
)

// version is the tail that dates or stages a model: "-2024-08-06", "@20240620",
// "-0613", "-002", "-latest", ":free".
var version = regexp.MustCompile(`(?:[-@](?:latest|preview|exp|\d{4}-\d{2}-\d{2}|\d{2}-\d{4}|\d{8}|\d{6}|\d{4}|0\d\d)|:[^:/]*)+$`)

// Family is the name that the versions of a model share: they run on the same
// machines and fail together. "gpt-4o-2024-08-06" and "gpt-4o" are one family.
func Family(model string) string {
	lower := strings.ToLower(model)
	if family := version.ReplaceAllString(lower, ""); family != "" {
		return family
	}
	return lower
}
