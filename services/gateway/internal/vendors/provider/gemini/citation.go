package gemini

import (
	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// grounding returns the sources of an answer's text, with places in bytes: one citation for each supported part of the
// text and each source that supports it, and the remaining sources without a place. Source: Gemini API reference,
// "GroundingMetadata". Because many parts may name the same source, it stops adding parts after maxCitations bytes.
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

// maxCitations is how many bytes of citations with a place grounding collects before it stops.
const maxCitations = 4 << 20

// recitations returns the sources that an answer recites, with places in bytes. Source: Gemini API reference,
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

// sources returns the citations so far, with places in characters. A stream passes no text, because it doesn't keep it;
// the places are then known only if the text is ASCII, and 0 otherwise.
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
