package gemini

import (
	"strings"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// grounding holds the sources of an answer's text.
type grounding struct {
	Chunks   []groundingChunk `json:"groundingChunks"`
	Supports []support        `json:"groundingSupports,omitempty"`
}

// groundingChunk is a source: a web page, or a document in the request.
type groundingChunk struct {
	Web       *webSource      `json:"web,omitempty"`
	Retrieved *documentSource `json:"retrievedContext,omitempty"`
}

type webSource struct {
	URI   string `json:"uri"`
	Title string `json:"title"`
}

type documentSource struct {
	Title string `json:"title"`
	Text  string `json:"text,omitempty"`
}

type support struct {
	Segment segment `json:"segment"`
	Chunks  []int   `json:"groundingChunkIndices"`
}

// segment is a byte range of the text.
type segment struct {
	Start int `json:"startIndex"`
	End   int `json:"endIndex"`
}

// toGrounding returns the sources of an answer; nil if there are none. Streams pass no text, because they don't keep
// it; the result then doesn't say which parts of the text each source supports.
func toGrounding(text string, citations []provider.Citation) *grounding {
	if len(citations) == 0 {
		return nil
	}
	placed := append([]provider.Citation(nil), citations...)
	provider.ToBytes(text, placed)
	g := &grounding{}
	for i, c := range placed {
		chunk := groundingChunk{Web: &webSource{c.URL, c.Title}}
		if c.URL == "" {
			chunk = groundingChunk{Retrieved: &documentSource{c.Title, c.Quote}}
		}
		g.Chunks = append(g.Chunks, chunk)
		if c.End > c.Start {
			g.Supports = append(g.Supports, support{segment{c.Start, c.End}, []int{i}})
		}
	}
	return g
}

// imagePart returns the part of a generated image, given as a data: URI or a URL.
func imagePart(uri string) answerPart {
	kind, data, isData := strings.Cut(strings.TrimPrefix(uri, "data:"), ";base64,")
	if !isData {
		return answerPart{File: &fileData{URI: uri}}
	}
	return answerPart{Inline: &inlineData{kind, data}}
}

type inlineData struct {
	MIMEType string `json:"mimeType"`
	Data     string `json:"data"`
}

type fileData struct {
	URI string `json:"fileUri"`
}
