package openai

import "switchyard.dev/services/gateway/internal/vendors/provider"

// annotation is a source of an answer's text: a web page or a document in the request. OpenAI's chat reference has only
// pages; documents use the form of its Assistants API.
type annotation struct {
	Type string        `json:"type"`
	URL  *urlCitation  `json:"url_citation,omitempty"`
	File *fileCitation `json:"file_citation,omitempty"`
}

type urlCitation struct {
	StartIndex int    `json:"start_index"`
	EndIndex   int    `json:"end_index"`
	URL        string `json:"url"`
	Title      string `json:"title"`
	Content    string `json:"content,omitempty"`
}

type fileCitation struct {
	StartIndex int    `json:"start_index"`
	EndIndex   int    `json:"end_index"`
	Filename   string `json:"filename"`
	Content    string `json:"content,omitempty"`
}

func annotations(citations []provider.Citation) (out []annotation) {
	for _, c := range citations {
		if c.URL != "" {
			out = append(out, annotation{Type: "url_citation", URL: &urlCitation{c.Start, c.End, c.URL, c.Title, c.Quote}})
			continue
		}
		out = append(out, annotation{Type: "file_citation", File: &fileCitation{c.Start, c.End, c.Title, c.Quote}})
	}
	return out
}

// picture is a generated image in OpenRouter's form.
type picture struct {
	Type     string `json:"type"`
	ImageURL struct {
		URL string `json:"url"`
	} `json:"image_url"`
	Index int `json:"index"`
}

// pictures returns images as pictures. first is the number of images that the answer had before them.
func pictures(urls []string, first int) []picture {
	out := make([]picture, len(urls))
	for i, url := range urls {
		out[i].Type, out[i].ImageURL.URL, out[i].Index = "image_url", url, first+i
	}
	return out
}
