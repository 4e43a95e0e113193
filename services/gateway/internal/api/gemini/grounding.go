package gemini

import (
	"strings"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// grounding are the sources of an answer's text.
type grounding struct {
	Chunks   []groundingChunk `json:"groundingChunks"`
	Supports []support        `json:"groundingSupports,omitempty"`
}

// groundingChunk is a page, or a document of the request.
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

// segment is a part of the text, at its place in bytes.
type segment struct {
	Start int `json:"startIndex"`
	End   int `json:"endIndex"`
}

// toGrounding returns the sources of an answer; nil for none. Without its text, which a stream doesn't keep, nothing says
// which parts of it they support.
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

// imagePart returns an image that a model made: its bytes, or its URL.
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
