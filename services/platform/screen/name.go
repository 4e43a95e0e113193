package screen

import "strings"

// maxName bounds what is repeated, in bytes.
const maxName = 80

// IsName reports whether a text that names nothing may be repeated in an error or a
// log: letters, digits and ._/:- alone, 80 at most, and not like a key.
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

// Quote is a name in quotes where it may be repeated and "of this name" where it may
// not: `no provider "acme" is configured`, `no provider of this name is configured`.
func Quote(name string) string {
	if IsName(name) {
		return `"` + name + `"`
	}
	return "of this name"
}

// hidden stands for a part of a path that is not repeated.
const hidden = "*"

// maxParts bounds the parts of a path that are repeated.
const maxParts = 16

// Path is the path of a URL or field, each part of which is repeated where IsName
// allows it, and is "*" elsewhere. separator is "/" or ".".
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
	if path = strings.Join(parts, separator); HasKeyForm(path) { // A key may have separators.
		return hidden
	}
	return path
}
