package alert

import (
	"maps"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxQuote bounds a quoted text within a message, in bytes.
const maxQuote = 128

// Quote returns a text that others wrote in the form in which a message shows it: on one line, of at most 128 bytes
// before it is escaped. No program makes a link of the result: a period between labels of a domain becomes [.] unless
// digits surround it, and the colon of a scheme becomes [:]. A text that could pass for a sentence of the message is in
// quotation marks; a single word is not.
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

// isWord reports whether a character may be in a word that needs no quotation marks, such as a name, an id, a time or a
// model.
func isWord(r rune) bool {
	return isLabel(r) || isPeriod(r) || strings.ContainsRune("/:+@#", r)
}

// quoted returns an event's data with quoted texts and written-out numbers, and without lists and objects.
func quoted(data map[string]any) map[string]any {
	out := maps.Clone(data)
	for name, value := range out {
		switch value := value.(type) {
		case string:
			out[name] = Quote(value)
		case float64: // A template would print 1e+06.
			out[name] = strconv.FormatFloat(value, 'f', -1, 64)
		case []any, map[string]any:
			out[name] = nil // No template uses them.
		}
	}
	return out
}
