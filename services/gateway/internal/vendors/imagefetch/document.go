package imagefetch

import (
	"bytes"
	"context"
	"mime"
	"strings"
)

// Document is a document as it was received.
type Document struct {
	// Type is application/pdf, or the type of a text or of an office document.
	Type string
	Data []byte
}

// DataURI returns the document as a data: URI (RFC 2397).
func (d Document) DataURI() string { return Image(d).DataURI() }

// FetchDocument fetches a document as Fetch fetches an image. A PDF is one by its bytes. Of others, which have no mark,
// the server says which they are.
func (f *Fetcher) FetchDocument(ctx context.Context, raw string) (Document, error) {
	got, err := f.fetch(ctx, raw, document)
	if err != nil {
		return Document{}, err
	}
	kind := documentType(got.data, got.declared)
	if kind == "" {
		return Document{}, document.invalid("the file is no PDF, and its server names no type of a text or of an office document", nil)
	}
	return Document{kind, got.data}, nil
}

const typePDF = "application/pdf"

// markBytes is where the mark of a PDF may be. Source: ISO 32000-1, annex H, implementation note 13.
const markBytes = 1024

// documentType returns the media type of a document, without parameters; "" for anything else.
func documentType(data []byte, declared string) string {
	if bytes.Contains(data[:min(len(data), markBytes)], []byte("%PDF-")) {
		return typePDF
	}
	kind, _, err := mime.ParseMediaType(declared)
	switch {
	case err != nil, len(data) == 0, kind == typePDF:
		return ""
	case strings.HasPrefix(kind, "text/"), kind == "application/json", kind == "application/xml",
		kind == "application/rtf", kind == "application/msword", strings.HasPrefix(kind, "application/vnd.ms-"),
		strings.HasPrefix(kind, "application/vnd.openxmlformats-officedocument."),
		strings.HasPrefix(kind, "application/vnd.oasis.opendocument."):
		return kind
	}
	return ""
}
