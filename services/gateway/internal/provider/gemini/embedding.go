package gemini

import (
	"context"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"
	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/gateway/internal/provider"
	"switchyard.dev/services/gateway/internal/provider/wire"
	"switchyard.dev/services/platform/panics"
)

const (
	// maxBatch is what the vendor takes in one call.
	maxBatch = 100
	// maxCalls bounds the calls that one request makes at a time.
	maxCalls = 4
)

type batch struct {
	Requests []embedRequest `json:"requests"`
}

type embedRequest struct {
	Model      string  `json:"model"`
	Content    content `json:"content"`
	Dimensions int     `json:"outputDimensionality,omitempty"`
}

// Embed makes one vector per input, in order; more inputs than the vendor takes
// at a time are several calls. Usage is nil unless every call reported some:
// most models don't.
func (p *Provider) Embed(ctx context.Context, credential provider.Credential, request *provider.Embedding) (*provider.Vectors, error) {
	if err := request.TextsOnly(); err != nil {
		return nil, err
	}
	chunks := slices.Collect(slices.Chunk(request.Input, maxBatch))
	answers := make([]gjson.Result, len(chunks))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxCalls)
	for i, chunk := range chunks {
		group.Go(panics.Guard(func() (err error) {
			answers[i], _, err = p.call(ctx, credential, p.url(request.Model, "batchEmbedContents"), embedBatch(request, chunk))
			return err
		}))
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	vectors := &provider.Vectors{Vectors: make([][]float32, 0, len(request.Input)), Usage: &provider.Usage{}}
	for i, answer := range answers {
		if err := add(vectors, answer, len(chunks[i])); err != nil {
			return nil, err
		}
	}
	return vectors, nil
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

// add appends the vectors of one call, which must be as many as its texts and
// of one length.
func add(vectors *provider.Vectors, answer gjson.Result, texts int) error {
	had := len(vectors.Vectors)
	var bad error
	answer.Get("embeddings").ForEach(func(_, embedding gjson.Result) bool {
		values := embedding.Get("values")
		var vector []float32
		if had := vectors.Vectors; len(had) > 0 { // A number and its comma are two bytes at least.
			vector = make([]float32, 0, min(len(had[0]), len(values.Raw)/2))
		}
		values.ForEach(func(_, value gjson.Result) bool {
			n, err := strconv.ParseFloat(value.Raw, 32)
			if err != nil {
				bad = wire.Malformed("a vector holds what is no number", err)
			}
			vector = append(vector, float32(n))
			return bad == nil
		})
		vectors.Vectors = append(vectors.Vectors, vector)
		return bad == nil && len(vectors.Vectors)-had <= texts
	})
	switch first := vectors.Vectors; {
	case bad != nil:
		return bad
	case len(first)-had != texts:
		return wire.Malformed("the answer holds another number of vectors than of texts", nil)
	case slices.ContainsFunc(first, func(v []float32) bool { return len(v) == 0 || len(v) != len(first[0]) }):
		return wire.Malformed("the vectors are not of one length", nil)
	}
	u := usageOf(answer.Get("usageMetadata"))
	if u == nil || vectors.Usage == nil {
		vectors.Usage = nil
		return nil
	}
	vectors.Usage.Input += u.Input
	return nil
}
