package screen

import "strings"

// maxName is the longest name that is repeated, in bytes.
const maxName = 80

// IsName reports whether a text that matched no known name may be repeated in an error or a log: it consists of
// letters, digits and ._/:- only, at most 80 of them, and doesn't look like a key.
func IsName(text string) bool {
	if text == "" || len(text) > maxName {
		return false
	}
	for i := range len(text) {
		if !isAlnum(text[i]) && strings.IndexByte("._/:-", text[i]) < 0 {
			return false
		}
	}
	return !LooksLikeKey(text)
}

// Quote returns a name in quotes if it may be repeated, and "of this name" otherwise: `no provider "acme" is
// configured`, `no provider of this name is configured`.
func Quote(name string) string {
	if IsName(name) {
		return `"` + name + `"`
	}
	return "of this name"
}

// hidden replaces a part of a path that must not be repeated.
const hidden = "*"

// maxParts is how many parts of a path are repeated at most.
const maxParts = 16

// Path returns the path of a URL or field in which each part that IsName refuses is replaced by "*". separator is "/"
// or ".".
func Path(path, separator string) string {
	parts := strings.SplitN(path, separator, maxParts+1)
	for i, part := range parts {
		name, index, indexed := strings.Cut(part, "[")
		index, closed := strings.CutSuffix(index, "]")
		switch {
		case part == "" || IsName(part):
		case indexed && closed && IsName(name):
			if index != "" && !IsName(index) {
				parts[i] = name + "[" + hidden + "]"
			}
		default:
			parts[i] = hidden
		}
	}
	if path = strings.Join(parts, separator); HasKeyForm(path) { // A key may contain separators.
		return hidden
	}
	return path
}
