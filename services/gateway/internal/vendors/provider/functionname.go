package provider

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// NameRule says which names of functions a vendor takes. The zero value takes every name.
type NameRule struct {
	// Longest is the largest length, in bytes; 0 takes every name.
	Longest int
	// Extra lists the characters that a name may have besides letters, digits, '_' and '-'.
	Extra string
	// LetterFirst reports whether a name must begin with a letter or '_'.
	LetterFirst bool
}

// Lengths of the hash in a shortened name, in hexadecimal digits: the short one is used unless two names would become
// the same.
const (
	shortMark = 8
	longMark  = 32
)

// takes reports whether the vendor takes a name as it is.
func (r NameRule) takes(name string) bool {
	if r.Longest == 0 {
		return true
	}
	if name == "" || len(name) > r.Longest || r.LetterFirst && !isLetter(rune(name[0])) && name[0] != '_' {
		return false
	}
	return strings.IndexFunc(name, func(c rune) bool { return !r.has(c) }) < 0
}

// takesAll reports whether the vendor takes all names of a chat's functions.
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

// fit returns a name that the vendor takes: the beginning of a name, and a mark of so many digits, which are the same for
// the same name.
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

// names holds the names of a request's functions that a vendor doesn't take, in both directions.
type names struct {
	sent   map[string]string // by the caller's names
	called map[string]string // the caller's names by those sent
}

// newNames returns the names that the vendor of a rule gets for the functions of a chat. Names that it takes as they are
// come first, so that no other function gets one of them. Two functions never get the same name: where not even a long
// hash tells them apart, the chat is refused.
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
			return names{}, Unsupported("tools[].function.name", "this provider takes shorter names, of which two would be the same")
		}
		if n.sent == nil {
			n = names{make(map[string]string), make(map[string]string)}
		}
		used[fit], n.sent[name], n.called[fit] = true, fit, name
	}
	return n, nil
}

// eachName passes each name of a function in a chat to rename: those of tools, of the choice, of calls and of their
// results. What rename returns for a name takes its place in the lists that the chat holds.
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

// set writes a name only where it changes: a chat may be read by several calls at a time.
func set(name *string, rename func(string) string) {
	if renamed := rename(*name); renamed != *name {
		*name = renamed
	}
}
