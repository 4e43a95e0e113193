package gemini

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/platform/apierr"
)

// maxTexts is the largest number of texts of one request; vendors get them in batches.
const maxTexts = 2048

// Embedding is a request for vectors.
type Embedding struct {
	Model string
	Texts []string
	// Dimensions is 0 for the model's own.
	Dimensions int
	// Unknown lists fields that no provider is sent.
	Unknown []string
	// Batch reports whether the body holds several requests, and the answer several vectors.
	Batch bool
	// Extension is the JSON of what only this gateway supports; may be nil.
	Extension []byte
}

var embedNames = known("model", "content", "taskType", "title", "outputDimensionality", "requests", "embedContentConfig")

// ReadEmbedding parses the body of embedContent or of batchEmbedContents. model is the model in the path; empty leaves
// it to the body.
func ReadEmbedding(body []byte, model string) (*Embedding, error) {
	root, err := parse(body, embedNames)
	if err != nil {
		return nil, err
	}
	e := &Embedding{Batch: root.has("requests"), Extension: root.Raw(dialect.Extension)}
	if e.Model, err = modelOf(root, model); err != nil {
		return nil, err
	}
	if !e.Batch {
		return e, e.read(root, 0)
	}
	list, err := root.list("requests")
	if err != nil {
		return nil, err
	}
	if len(list) == 0 || len(list) > maxTexts {
		return nil, apierr.Invalid("requests", fmt.Sprintf("must hold 1 to %d requests", maxTexts))
	}
	for i, one := range list {
		o, err := newObject(dialect.At("requests", i), one, embedNames)
		if err != nil {
			return nil, err
		}
		named, err := modelOf(o, e.Model)
		if err == nil {
			e.Model = named
			err = e.read(o, i)
		}
		if err != nil {
			return nil, err
		}
	}
	e.ignore(root)
	return e, nil
}

// read reads one request for a vector. All requests of a batch have the same settings.
func (e *Embedding) read(o *object, i int) error {
	var dimensions int64
	if err := o.whole("outputDimensionality", 1, maxTokens, &dimensions); err != nil {
		return err
	}
	if i > 0 && int(dimensions) != e.Dimensions {
		return apierr.Invalid(o.at("outputDimensionality"), "must be that of the requests before it")
	}
	e.Dimensions = int(dimensions)
	raw := o.raw("content")
	if raw == nil {
		return apierr.Invalid(o.at("content"), "is required")
	}
	text, err := textOfContent(o.at("content"), raw)
	if err != nil {
		return err
	}
	if text == "" {
		return apierr.Invalid(o.at("content"), "must hold a text")
	}
	e.Texts = append(e.Texts, text)
	e.ignore(o)
	return nil
}

// ignore notes the members that were not read.
func (e *Embedding) ignore(o *object) {
	const most = 16
	for _, name := range o.Rest() {
		if len(e.Unknown) < most && !slices.Contains(e.Unknown, name) {
			e.Unknown = append(e.Unknown, name)
		}
	}
}

// textOfContent returns the texts of a content, joined.
func textOfContent(path string, raw json.RawMessage) (string, error) {
	o, err := newObject(path, raw, contentNames)
	if err != nil {
		return "", err
	}
	list, err := o.list("parts")
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for i, one := range list {
		p, err := newObject(dialect.At(o.at("parts"), i), one, partNames)
		if err != nil {
			return "", err
		}
		var piece string
		if err := p.take("text", &piece); err != nil {
			return "", err
		}
		if len(p.Rest()) > 0 {
			return "", apierr.Invalid(p.path, "must be a text: only texts can be embedded")
		}
		text.WriteString(piece)
	}
	return text.String(), nil
}
