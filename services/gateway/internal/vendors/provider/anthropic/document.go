package anthropic

import (
	"net/url"
	"path"
	"strings"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// FetchesDocument implements provider.DocumentFetcher. The vendor fetches only PDFs.
func (p *Provider) FetchesDocument(address string) bool { return isPDF(address) }

// isPDF reports whether the path of a URL ends in .pdf.
func isPDF(address string) bool {
	at, err := url.Parse(address)
	return err == nil && strings.EqualFold(path.Ext(at.Path), ".pdf")
}

// encodeDocument returns the block of a document: a PDF by its bytes or its URL, or a text. The dialect has no other
// types. Source: Anthropic API reference, "Messages", DocumentBlockParam.
func encodeDocument(file *provider.File) (block, error) {
	document := block{Type: "document", Title: file.Name}
	_, data, isData := file.Data()
	switch text, isText := file.PlainText(); {
	case !isData && !isPDF(file.URL):
		return block{}, provider.Unsupported("messages[].content", "this provider takes only PDFs by URL")
	case !isData:
		document.Source = &source{Type: "url", URL: file.URL}
	case file.Type() == provider.TypePDF:
		document.Source = &source{Type: "base64", MediaType: provider.TypePDF, Data: data}
	case isText && !provider.IsBlank(text):
		document.Source = &source{Type: "text", MediaType: "text/plain", Data: text}
	case isText:
		return block{}, provider.Unsupported("messages[].content", "this provider takes no empty documents")
	default:
		return block{}, provider.Unsupported("messages[].content", "this provider takes only PDFs and UTF-8 texts as documents")
	}
	return document, nil
}
