// Package pattern compares names with the patterns by which policies and runs select organizations, servers and tools.
package pattern

import (
	"slices"
	"strings"
)

// Matches reports whether a name matches a pattern, in which "*" stands for any characters, or none. Its time is in
// proportion to the lengths for each "*".
func Matches(pattern, name string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, head)
	if !ok {
		return false
	}
	for {
		piece, more, star := strings.Cut(rest, "*")
		if !star {
			return strings.HasSuffix(name, piece)
		}
		at := strings.Index(name, piece)
		if at < 0 {
			return false
		}
		name, rest = name[at+len(piece):], more
	}
}

// Any reports whether a name matches one of the patterns.
func Any(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return Matches(p, name) })
}
