package bedrock

import (
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// citation decodes a source of the text from start to end, in characters. Source: Amazon Bedrock API reference,
// "Citation".
func citation(value gjson.Result, start, end int) provider.Citation {
	var quote wire.Joined
	value.Get("sourceContent").ForEach(func(_, piece gjson.Result) bool {
		quote.Add(wire.Text(piece.Get("text")))
		return true
	})
	return provider.Citation{
		URL: wire.Text(value.Get("location.web.url")), Title: wire.Text(value.Get("title")), Quote: quote.String(), Start: start, End: end,
	}
}

// addCited adds a text with its sources.
func (a *answer) addCited(value gjson.Result) {
	start := a.characters
	value.Get("content").ForEach(func(_, piece gjson.Result) bool {
		a.write(wire.Text(piece.Get("text")))
		return true
	})
	value.Get("citations").ForEach(func(_, one gjson.Result) bool {
		a.citations = append(a.citations, citation(one, start, a.characters))
		return true
	})
}

// write adds a text.
func (a *answer) write(text string) {
	a.text.Add(text)
	a.characters += utf8.RuneCountInString(text)
}

// image returns an image of an answer as a data: URI; empty if the answer doesn't hold its bytes.
func image(format string, value gjson.Result) string {
	data := wire.Text(value.Get("source.bytes"))
	if data == "" {
		return ""
	}
	return "data:image/" + format + ";base64," + data
}
