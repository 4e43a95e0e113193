package provider

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

// TypePDF is the media type of PDF documents.
const TypePDF = "application/pdf"

// textTypes are the media types of texts that don't begin with "text/".
var textTypes = map[string]bool{
	"application/json": true, "application/x-ndjson": true, "application/jsonl": true, "application/xml": true, "application/yaml": true,
	"application/x-yaml": true, "application/toml": true, "application/javascript": true, "application/x-javascript": true,
	"application/typescript": true, "application/x-sh": true, "application/sql": true, "application/x-python": true, "application/csv": true,
	"application/x-python-code": true, "application/ecmascript": true, "application/graphql": true,
}

// Type returns the media type of a document in a data: URI, in lower case and without parameters.
func (f *File) Type() string {
	kind, _, _ := f.Data()
	kind, _, _ = strings.Cut(kind, ";")
	return strings.ToLower(strings.TrimSpace(kind))
}

// IsText reports whether a document in a data: URI has the media type of a text. It doesn't look at the content.
func (f *File) IsText() bool {
	kind := f.Type()
	return strings.HasPrefix(kind, "text/") || textTypes[kind] || strings.HasSuffix(kind, "+json") || strings.HasSuffix(kind, "+xml")
}

// PlainText returns the text of a document in a data: URI; false if the document isn't text, or isn't UTF-8.
func (f *File) PlainText() (string, bool) {
	if !f.IsText() {
		return "", false
	}
	_, data, _ := f.Data()
	data = strings.TrimRight(data, "=")
	text, err := base64.RawStdEncoding.DecodeString(data)
	if err != nil || !utf8.Valid(text) {
		return "", false
	}
	return string(text), true
}

// NamedText returns PlainText with the document's name before it, for vendors whose texts have no member for a name.
func (f *File) NamedText() (string, bool) {
	text, ok := f.PlainText()
	if ok && f.Name != "" {
		text = f.Name + "\n\n" + text
	}
	return text, ok
}
