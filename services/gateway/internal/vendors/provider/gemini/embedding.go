package gemini

import (
	"context"
	"strconv"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// maxBatch is the largest number of texts in one call.
const maxBatch = 100

type batch struct {
	Requests []embedRequest `json:"requests"`
}

type embedRequest struct {
	Model      string  `json:"model"`
	Content    content `json:"content"`
	Dimensions int     `json:"outputDimensionality,omitempty"`
}

// Embed returns one vector for each input, in order. More inputs than the vendor accepts at a time take several calls.
// Usage is nil unless every call reported some: most models don't.
func (p *Provider) Embed(ctx context.Context, credential provider.Credential, request *provider.Embedding) (*provider.Vectors, error) {
	if err := request.TextsOnly(); err != nil {
		return nil, err
	}
	return provider.EmbedBatches(ctx, request.Input, maxBatch, func(ctx context.Context, texts []string) (*provider.Vectors, error) {
		answer, _, err := p.call(ctx, credential, p.url(request.Model, "batchEmbedContents"), embedBatch(request, texts))
		if err != nil {
			return nil, err
		}
		return vectorsOf(answer, len(texts))
	})
}

func embedBatch(request *provider.Embedding, texts []string) batch {
	b := batch{Requests: make([]embedRequest, len(texts))}
	for i, text := range texts {
		b.Requests[i] = embedRequest{
			Model: "models/" + bare(request.Model), Content: content{Parts: []part{{Text: text}}}, Dimensions: request.Dimensions,
		}
	}
	return b
}

// vectorsOf returns the vectors of one call, which must be as many as its texts.
func vectorsOf(answer gjson.Result, texts int) (*provider.Vectors, error) {
	made := &provider.Vectors{Vectors: make([][]float32, 0, texts)}
	var bad error
	answer.Get("embeddings").ForEach(func(_, embedding gjson.Result) bool {
		values := embedding.Get("values")
		var vector []float32
		if had := made.Vectors; len(had) > 0 { // A number and its comma are at least two bytes.
			vector = make([]float32, 0, min(len(had[0]), len(values.Raw)/2))
		}
		values.ForEach(func(_, value gjson.Result) bool {
			n, err := strconv.ParseFloat(value.Raw, 32)
			if err != nil {
				bad = wire.Malformed("a vector holds a value that is not a number", err)
			}
			vector = append(vector, float32(n))
			return bad == nil
		})
		made.Vectors = append(made.Vectors, vector)
		return bad == nil && len(made.Vectors) <= texts
	})
	switch {
	case bad != nil:
		return nil, bad
	case len(made.Vectors) != texts:
		return nil, wire.Malformed("the answer holds another number of vectors than of texts", nil)
	}
	if u := usageOf(answer.Get("usageMetadata")); u != nil {
		made.Usage = &provider.Usage{Input: u.Input}
	}
	return made, nil
}
