package anthropic

import (
	"cmp"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// citation decodes a citation of any type. Source: Anthropic API reference, "Citations".
func citation(value gjson.Result) provider.Citation {
	return provider.Citation{
		URL:   cmp.Or(wire.Text(value.Get("url")), wire.Text(value.Get("source"))),
		Title: cmp.Or(wire.Text(value.Get("title")), wire.Text(value.Get("document_title"))),
		Quote: wire.Text(value.Get("cited_text")),
	}
}

// cited collects the sources of an answer's text blocks. A block's sources belong to the whole text of the block.
type cited struct {
	// start is where the block begins in the answer's text, and end is where the text ends so far, in characters.
	start, end int
	sources    []provider.Citation
}

// write adds the length of a piece of text.
func (c *cited) write(text string) { c.end += utf8.RuneCountInString(text) }

// take ends the block and returns its sources.
func (c *cited) take() []provider.Citation {
	sources := c.sources
	for i := range sources {
		sources[i].Start, sources[i].End = c.start, c.end
	}
	c.start, c.sources = c.end, nil
	return sources
}
