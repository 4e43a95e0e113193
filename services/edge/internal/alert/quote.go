package alert

import (
	"maps"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxQuote bounds a text that others wrote within a message, in bytes.
const maxQuote = 128

// Quote returns a text that others wrote as it is shown within a message: on one line of at most 128 bytes before it is
// escaped, and so that no program that shows the message makes a link of it: a period between the labels of a domain becomes
// [.], and the colon of a scheme [:]. Only a word stays bare. What could pass for a sentence of the message is in quotation marks.
func Quote(text string) string {
	text = Line(text, maxQuote)
	if text == "" {
		return ""
	}
	var out strings.Builder
	bare := true
	for i, r := range text {
		rest := text[i+utf8.RuneLen(r):]
		last, _ := utf8.DecodeLastRuneInString(text[:i])
		next, _ := utf8.DecodeRuneInString(rest)
		switch {
		case isPeriod(r) && isLabel(last) && isLabel(next) && (!unicode.IsDigit(last) || !unicode.IsDigit(next)):
			out.WriteString("[.]")
		case r == ':' && strings.HasPrefix(rest, "//"):
			out.WriteString("[:]")
		case r == '"' || unicode.Is(unicode.Pi, r) || unicode.Is(unicode.Pf, r) || unicode.Is(unicode.Ps, r) && r > unicode.MaxASCII:
			out.WriteByte('\'')
			bare = false
		default:
			out.WriteRune(r)
			bare = bare && isWord(r)
		}
	}
	if bare {
		return out.String()
	}
	return `"` + out.String() + `"`
}

// isPeriod reports whether a character separates the labels of a domain (UTS #46, section 4).
func isPeriod(r rune) bool { return strings.ContainsRune(".\u3002\uff0e\uff61", r) }

// isLabel reports whether a character may be in a label of a domain.
func isLabel(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r) || r == '-' || r == '_'
}

// isWord reports whether a character may be in a word that is shown without quotation marks: in names, ids, times and
// models.
func isWord(r rune) bool {
	return isLabel(r) || isPeriod(r) || strings.ContainsRune("/:+@#", r)
}

// quoted returns the data of an event with its texts quoted.
func quoted(data map[string]any) map[string]any {
	out := maps.Clone(data)
	for name, value := range out {
		switch value := value.(type) {
		case string:
			out[name] = Quote(value)
		case []any, map[string]any:
			out[name] = nil // No text names them.
		}
	}
	return out
}
