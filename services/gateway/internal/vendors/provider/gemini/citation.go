package gemini

import (
	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// grounding returns the sources of an answer's text, at their places in bytes: for each part of the text that the vendor
// supports by sources one of each, and the other sources without a place. Source: Gemini API reference, "GroundingMetadata".
// As many parts may name one source, only maxCitations bytes are taken.
func grounding(metadata gjson.Result) (found []provider.Citation) {
	var sources []provider.Citation
	size := 0
	metadata.Get("groundingChunks").ForEach(func(_, chunk gjson.Result) bool {
		chunk.ForEach(func(_, of gjson.Result) bool { // web, retrievedContext or maps
			sources = append(sources, provider.Citation{
				URL: wire.Text(of.Get("uri")), Title: wire.Text(of.Get("title")), Quote: wire.Text(of.Get("text")),
			})
			return false
		})
		return true
	})
	used := make([]bool, len(sources))
	metadata.Get("groundingSupports").ForEach(func(_, support gjson.Result) bool {
		start, end := place(support.Get("segment.startIndex")), place(support.Get("segment.endIndex"))
		support.Get("groundingChunkIndices").ForEach(func(_, index gjson.Result) bool {
			if n := place(index); n < len(sources) {
				c := sources[n]
				c.Start, c.End = start, end
				found, used[n] = append(found, c), true
				size += provider.CitationBytes(found[len(found)-1:])
			}
			return size < maxCitations
		})
		return size < maxCitations
	})
	for i, source := range sources {
		if !used[i] {
			found = append(found, source)
		}
	}
	return found
}

// maxCitations bounds the sources of an answer, in bytes.
const maxCitations = 4 << 20

// recitations returns the sources that an answer repeats, at their places in bytes. Source: Gemini API reference,
// "CitationMetadata"; Vertex AI has another name for the list.
func recitations(metadata gjson.Result) (found []provider.Citation) {
	for _, list := range []string{"citationSources", "citations"} {
		metadata.Get(list).ForEach(func(_, source gjson.Result) bool {
			found = append(found, provider.Citation{
				URL: wire.Text(source.Get("uri")), Title: wire.Text(source.Get("title")),
				Start: place(source.Get("startIndex")), End: place(source.Get("endIndex")),
			})
			return true
		})
	}
	return found
}

func place(value gjson.Result) int {
	n, _ := wire.Tokens(value)
	return int(n)
}

// sources returns the citations of the answer so far at their places in characters. Without the text, which a stream doesn't
// keep, places are known only in plain ASCII.
func (r *reader) sources(text string) []provider.Citation {
	switch {
	case text != "":
		provider.ToCharacters(text, r.citations)
	case !r.ascii():
		for i := range r.citations {
			r.citations[i].Start, r.citations[i].End = 0, 0
		}
	}
	return r.citations
}

func (r *reader) ascii() bool { return r.bytes == r.characters }

// imageURI returns an inline image of an answer as a data: URI; empty for other data.
func imageURI(data gjson.Result) string {
	kind := wire.Text(data.Get("mimeType"))
	if len(kind) < len("image/") || kind[:len("image/")] != "image/" {
		return ""
	}
	return "data:" + kind + ";base64," + wire.Text(data.Get("data"))
}
