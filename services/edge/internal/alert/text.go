package alert

import (
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"strings"
	"text/template"
	"unicode"
	"unicode/utf8"
)

//go:embed texts.tmpl
var texts string

// templates has two templates for each type of event, "title <type>" and "body <type>", and those of other types.
var templates = template.Must(template.New("texts").Option("missingkey=zero").Parse(texts))

const maxTitle, maxBody = 200, 2000

// Text returns the title and the body of the message about an event. It quotes the event's texts, so that they don't
// act as templates, links or sentences of the message.
func Text(e *Event) (title, body string) {
	return one(render("title "+e.Type, "title", e, maxTitle)), render("body "+e.Type, "body", e, maxBody)
}

// Line returns the beginning of a text on one line, of at most limit bytes, without what can't be printed or
// changes the order of what is shown.
func Line(text string, limit int) string {
	out := &bounded{limit: limit}
	_, _ = out.Write([]byte(one(strings.Map(visible, text)))) // It reports that the text is cut.
	return strings.TrimSpace(out.String())
}

// one returns text on one line.
func one(text string) string { return strings.Join(strings.Fields(text), " ") }

// render executes a template, or the other one if there is none of that name, up to limit bytes.
func render(name, other string, e *Event, limit int) string {
	t := templates.Lookup(name)
	if t == nil {
		t = templates.Lookup(other)
	}
	out := &bounded{limit: limit}
	if err := t.Execute(out, map[string]any{"type": e.Type, "subject": Quote(e.Subject), "data": quoted(e.Data)}); err != nil && !out.full {
		return e.Type
	}
	return strings.TrimSpace(strings.Map(printable, strings.ReplaceAll(out.String(), "<no value>", "-")))
}

// printable drops control characters except line feeds.
func printable(r rune) rune {
	if r < ' ' && r != '\n' || r == 0x7f || r == utf8.RuneError {
		return -1
	}
	return r
}

// visible drops control characters except line feeds, and the characters that format others, such as those that turn the
// direction of a text.
func visible(r rune) rune {
	if unicode.Is(unicode.Cf, r) {
		return -1
	}
	return printable(r)
}

// bounded keeps the beginning of what is written.
type bounded struct {
	bytes.Buffer

	limit int
	full  bool
}

// Write keeps what fits, and ends the template with an error when nothing does.
func (b *bounded) Write(p []byte) (int, error) {
	left := b.limit - b.Len()
	if len(p) <= left {
		return b.Buffer.Write(p)
	}
	b.full = true
	for left > 0 && !utf8.RuneStart(p[left]) {
		left--
	}
	_, _ = b.Buffer.Write(p[:max(left, 0)])
	return 0, fmt.Errorf("text: longer than %d bytes: %w", b.limit, io.ErrShortWrite)
}
