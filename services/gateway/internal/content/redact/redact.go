// Package redact removes personal data and secrets from text before people read it: e-mail and IP addresses, phone,
// card and account numbers, API keys, and whatever an operator's own patterns match. Each kind is found by a scan whose
// work is bounded by the length of the text. Package trace shows only text that has been redacted.
//
// It errs on the side of removing too much: the text itself is kept elsewhere, sealed, and a number that looks like a
// card number costs a reader little.
package redact

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/platform/jsoncheck"
)

// Kind is a kind of data that is removed. Its text stands in brackets in place of the data.
type Kind string

// The built-in kinds. An operator's patterns are kinds by their names.
const (
	KindEmail  Kind = "email"
	KindPhone  Kind = "phone"
	KindCard   Kind = "card"
	KindIBAN   Kind = "iban"
	KindIP     Kind = "ip"
	KindAPIKey Kind = "api_key"
	// KindBinary is an image, or other bytes in base64: no detector can find what they show.
	KindBinary Kind = "binary"
)

// Pattern is a kind of data that an operator defines by a regular expression.
type Pattern struct {
	Name       Kind
	Expression *regexp.Regexp
}

// maxDepth is how many levels of JSON within strings of JSON are read.
const maxDepth = 4

// Redactor removes data from text. The zero Redactor has no patterns. Safe for concurrent use.
type Redactor struct{ patterns []Pattern }

// New returns a redactor that applies patterns in addition to the built-in detectors.
func New(patterns []Pattern) *Redactor { return &Redactor{patterns} }

// Kinds is the set of kinds that were removed.
type Kinds map[Kind]bool

// Sorted returns the kinds sorted by name.
func (k Kinds) Sorted() []string {
	names := make([]string, 0, len(k))
	for kind := range k {
		names = append(names, string(kind))
	}
	slices.Sort(names)
	return names
}

// span is the range of a match in the text.
type span struct {
	from, to int
	kind     Kind
}

// Text returns text with all matches replaced, and adds their kinds to found.
func (r *Redactor) Text(text string, found Kinds) string {
	spans := r.find(text)
	if len(spans) == 0 {
		return text
	}
	var out strings.Builder
	at := 0
	for _, s := range spans {
		found[s.kind] = true
		_, _ = out.WriteString(text[at:s.from])
		_, _ = out.WriteString("[" + string(s.kind) + "]")
		at = s.to
	}
	_, _ = out.WriteString(text[at:])
	return out.String()
}

// JSON returns a JSON text with the matches in its strings and numbers replaced, and adds their kinds to found. The
// result is valid JSON. A text that is not JSON becomes a JSON string.
func (r *Redactor) JSON(text []byte, found Kinds) []byte { return r.json(text, found, 0) }

func (r *Redactor) json(text []byte, found Kinds, depth int) []byte {
	if len(text) == 0 {
		return text
	}
	if !jsoncheck.Valid(text) {
		return jsontext.AppendText(nil, r.Text(string(text), found))
	}
	return jsontext.Rewrite(text, hiding(jsontext.Change{
		String: func(text string) (string, bool) { return r.inside(text, found, depth) },
		Number: func(digits string) (string, bool) {
			if strings.ContainsAny(digits, ".eE") {
				return "", false // A measure: vectors and probabilities are full of them.
			}
			redacted := r.Text(digits, found)
			return redacted, redacted != digits
		},
	}, func() { found[KindAPIKey] = true }))
}

// inside redacts a string of JSON, which may hold JSON itself (arguments of tools do).
func (r *Redactor) inside(text string, found Kinds, depth int) (string, bool) {
	if head, size, ok := binary(text); ok {
		found[KindBinary] = true
		return fmt.Sprintf("%s[%s, %d characters]", head, KindBinary, size), true
	}
	var redacted string
	if depth < maxDepth && holdsJSON(text) {
		redacted = string(r.json([]byte(text), found, depth+1))
	} else {
		redacted = r.Text(text, found)
	}
	return redacted, redacted != text
}

func holdsJSON(text string) bool {
	text = strings.TrimLeft(text, " \t\r\n")
	return text != "" && (text[0] == '{' || text[0] == '[') && jsoncheck.Valid([]byte(text))
}

// minBinary is the length from which unbroken base64 is taken for bytes: no word, key or name is as long.
const minBinary = 1024

// binary recognizes base64, either behind the head of a data: URI or bare. It returns the head and the number of base64
// characters.
func binary(text string) (head string, size int, ok bool) {
	const mark = ";base64,"
	if i := strings.Index(text[:min(len(text), 128)], mark); i >= 0 && strings.HasPrefix(text, "data:") {
		head = text[:i+len(mark)]
		return head, len(text) - len(head), len(text) > len(head)
	}
	if len(text) < minBinary {
		return "", 0, false
	}
	for i := range len(text) {
		if c := text[i]; !isAlnum(c) && c != '+' && c != '/' && c != '=' && c != '-' && c != '_' && c != '\n' && c != '\r' {
			return "", 0, false
		}
	}
	return "", len(text), true
}

// find returns the spans to be removed, in order and without overlaps.
func (r *Redactor) find(text string) []span {
	var found []span
	for _, detect := range detectors {
		found = detect(text, found)
	}
	for _, p := range r.patterns {
		for _, at := range p.Expression.FindAllStringIndex(text, -1) {
			if at[0] < at[1] {
				found = append(found, span{at[0], at[1], p.Name})
			}
		}
	}
	if len(found) < 2 {
		return found
	}
	slices.SortStableFunc(found, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to))
	})
	merged := found[:1]
	for _, s := range found[1:] {
		if last := &merged[len(merged)-1]; s.from < last.to {
			last.to = max(last.to, s.to) // Neither of the two leaves anything behind.
		} else {
			merged = append(merged, s)
		}
	}
	return merged
}

// detectors find the built-in kinds. Each looks at a bounded piece of text from each position.
var detectors = []func(text string, found []span) []span{keys, emails, ibans, cards, addresses, phones}
