package responses

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// urlCitation and fileCitation are sources of a text: a web page and a document in the request.
type urlCitation struct {
	Type       string `json:"type"`
	StartIndex int    `json:"start_index"`
	EndIndex   int    `json:"end_index"`
	URL        string `json:"url"`
	Title      string `json:"title"`
}

type fileCitation struct {
	Type     string `json:"type"`
	FileID   string `json:"file_id"`
	Filename string `json:"filename"`
	Index    int    `json:"index"`
}

// annotation returns the annotation of a text item. begin is where the item starts in the answer's text, in characters.
func annotation(c provider.Citation, begin int) any {
	start, end := max(c.Start-begin, 0), max(c.End-begin, 0)
	if c.URL == "" {
		return fileCitation{"file_citation", "", c.Title, end}
	}
	return urlCitation{"url_citation", start, end, c.URL, c.Title}
}

func annotations(citations []provider.Citation) []any {
	out := make([]any, len(citations))
	for i, c := range citations {
		out[i] = annotation(c, 0)
	}
	return out
}

// imageItem is the output item of a generated image.
type imageItem struct {
	ID     string  `json:"id"`
	Type   string  `json:"type"`
	Status string  `json:"status"`
	Result *string `json:"result"`
	Format string  `json:"output_format,omitempty"`
}

const typeImageCall = "image_generation_call"

// newImage returns the item of an image. Its result is the base64 text of a data: URI, or the URL.
func newImage(id, uri string) imageItem {
	item := imageItem{ID: id, Type: typeImageCall, Status: statusCompleted, Result: &uri}
	kind, data, isData := strings.Cut(strings.TrimPrefix(uri, "data:image/"), ";base64,")
	if isData {
		item.Result, item.Format = &data, kind
	}
	return item
}

// image writes the events of an image item.
func (s *stream) image(uri string) {
	s.close(statusCompleted, "")
	index, id := s.place(), newID("ig")
	s.item("response.output_item.added", index, imageItem{ID: id, Type: typeImageCall, Status: statusInProgress})
	s.items[index] = s.item("response.output_item.done", index, newImage(id, uri))
}

// annotate adds sources to the text item that is being written, or begins one for them.
func (s *stream) annotate(citations []provider.Citation) {
	if len(citations) == 0 {
		return
	}
	if s.writing == nil || s.writing.kind != typeMessage {
		s.close(statusCompleted, "")
		s.writing = s.newText(typeMessage)
	}
	t := s.writing
	for _, c := range citations {
		found := annotation(c, t.begin)
		text, err := jsontext.Marshal(found)
		if err != nil {
			continue // It holds texts and numbers.
		}
		more := append([]byte(`,"annotation_index":`), strconv.Itoa(len(t.annotations))...)
		s.inItem("response.output_text.annotation.added", t.id, t.index, "content_index", append(append(more, `,"annotation":`...), text...))
		t.annotations = append(t.annotations, found)
	}
}

// written adds the length of text to the characters of the answer.
func (s *stream) written(text string) { s.characters += utf8.RuneCountInString(text) }
