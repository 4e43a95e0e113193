package openai

import (
	"cmp"
	"strings"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// citation decodes an annotation of a text. Its members are in an object named after its type, or in the annotation
// itself. Sources: OpenAI API reference, "Chat Completions"; OpenRouter's documentation, "Web search".
func citation(annotation gjson.Result) (c provider.Citation, ok bool) {
	kind := annotation.Get("type").Str
	if !strings.HasSuffix(kind, "_citation") {
		return c, false
	}
	of := annotation
	if nested := annotation.Get(kind); nested.IsObject() {
		of = nested
	}
	c = provider.Citation{
		URL: wire.Text(of.Get("url")), Quote: wire.Text(of.Get("content")),
		Title: cmp.Or(wire.Text(of.Get("title")), wire.Text(of.Get("filename"))),
		Start: position(of.Get("start_index")), End: position(of.Get("end_index")),
	}
	return c, c.URL != "" || c.Title != ""
}

func position(value gjson.Result) int {
	n, _ := wire.Tokens(value)
	return int(n)
}

// source decodes an entry of the source list that Perplexity sends next to its choices: an object or a URL.
func source(entry gjson.Result) (c provider.Citation, ok bool) {
	if entry.IsObject() {
		c = provider.Citation{URL: wire.Text(entry.Get("url")), Title: wire.Text(entry.Get("title"))}
	} else {
		c.URL = wire.Text(entry)
	}
	return c, c.URL != ""
}

// picture returns the URL of an image in an answer, in OpenRouter's form or in the form of requests.
func picture(entry gjson.Result) string {
	of := entry.Get("image_url")
	if of.IsObject() {
		of = of.Get("url")
	}
	return wire.Text(of)
}

// addImage adds the image of an entry, if it has one.
func (c *chunk) addImage(entry gjson.Result) {
	if url := picture(entry); url != "" {
		c.images = append(c.images, url)
	}
}

// addAnnotation adds the source of an annotation, if it has one.
func (c *chunk) addAnnotation(annotation gjson.Result) {
	if found, ok := citation(annotation); ok {
		c.citations = append(c.citations, found)
	}
}

// addSources adds the sources that are listed next to the choices, except the first skip, which came before. It returns
// how many are listed. Perplexity repeats the list in each chunk, in two forms.
func (c *chunk) addSources(skip int) int {
	listed := 0
	for _, list := range []gjson.Result{c.results, c.sources} {
		each(list, func(entry gjson.Result) {
			found, ok := source(entry)
			if listed++; ok && listed > skip {
				c.citations = append(c.citations, found)
			}
		})
		if listed > 0 {
			break
		}
	}
	return listed
}
