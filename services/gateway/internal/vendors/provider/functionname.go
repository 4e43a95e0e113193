package provider

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// NameRule says which function names a vendor accepts. The zero value accepts every name.
type NameRule struct {
	// Longest is the maximum length in bytes; with 0, every name is accepted.
	Longest int
	// Extra lists further characters that a name may have, besides letters, digits, '_' and '-'.
	Extra string
	// LetterFirst reports whether a name must begin with a letter or '_'.
	LetterFirst bool
}

// Lengths of the hash in a replaced name, in hexadecimal digits. The long one is used if the short one gives a name
// that is already used.
const (
	shortMark = 8
	longMark  = 32
)

// takes reports whether the vendor accepts a name unchanged.
func (r NameRule) takes(name string) bool {
	if r.Longest == 0 {
		return true
	}
	if name == "" || len(name) > r.Longest || r.LetterFirst && !isLetter(rune(name[0])) && name[0] != '_' {
		return false
	}
	return strings.IndexFunc(name, func(c rune) bool { return !r.has(c) }) < 0
}

// takesAll reports whether the vendor accepts all function names in a chat.
func (r NameRule) takesAll(chat *Chat) bool {
	all := true
	eachName(chat, func(name string) string {
		all = all && (name == "" || r.takes(name))
		return name
	})
	return all
}

func (r NameRule) has(c rune) bool {
	return isLetter(c) || c >= '0' && c <= '9' || c == '_' || c == '-' || strings.ContainsRune(r.Extra, c)
}

func isLetter(c rune) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// fit returns a name that the vendor accepts: the beginning of name and a hash of name with the given number of digits.
func (r NameRule) fit(name string, digits int) string {
	sum := sha256.Sum256([]byte(name))
	mark := "_" + hex.EncodeToString(sum[:digits/2])
	var begin strings.Builder
	if r.LetterFirst && !isLetter(rune(name[0])) {
		begin.WriteByte('_')
	}
	for _, c := range name {
		if begin.Len() == r.Longest-len(mark) {
			break
		}
		if !r.has(c) {
			c = '_'
		}
		begin.WriteRune(c)
	}
	return begin.String() + mark
}

// names maps the function names that a vendor doesn't accept to replacements, and back.
type names struct {
	sent   map[string]string // replacements by the caller's names
	called map[string]string // the caller's names by their replacements
}

// newNames returns the replacements for a chat's function names under a vendor's rule. No replacement equals a name
// that is sent unchanged or another replacement: if even the long hash doesn't prevent that, newNames returns an error.
func newNames(chat *Chat, rule NameRule) (names, error) {
	var n names
	var others []string
	if rule.takesAll(chat) {
		return n, nil
	}
	used := make(map[string]bool)
	eachName(chat, func(name string) string {
		if rule.takes(name) {
			used[name] = true
		} else if name != "" {
			others = append(others, name)
		}
		return name
	})
	for _, name := range others {
		if n.sent[name] != "" {
			continue
		}
		fit := rule.fit(name, shortMark)
		if used[fit] {
			fit = rule.fit(name, longMark)
		}
		if used[fit] {
			return names{}, Unsupported("tools[].function.name", "two names become the same when they are shortened for this provider")
		}
		if n.sent == nil {
			n = names{make(map[string]string), make(map[string]string)}
		}
		used[fit], n.sent[name], n.called[fit] = true, fit, name
	}
	return n, nil
}

// eachName replaces each function name in a chat with what rename returns for it: in tools, the tool choice, calls and
// their results. It writes into the slices that the chat holds.
func eachName(chat *Chat, rename func(name string) string) {
	for i := range chat.Tools {
		set(&chat.Tools[i].Name, rename)
	}
	if chat.ToolChoice != nil {
		set(&chat.ToolChoice.Name, rename)
	}
	for i := range chat.Messages {
		m := &chat.Messages[i]
		if m.Role == RoleTool {
			set(&m.Name, rename)
		}
		for j := range m.ToolCalls {
			set(&m.ToolCalls[j].Name, rename)
		}
	}
}

// set writes a name only if it changes, because several calls may read the chat concurrently.
func set(name *string, rename func(string) string) {
	if renamed := rename(*name); renamed != *name {
		*name = renamed
	}
}
