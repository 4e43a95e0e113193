package bedrock

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// Bodies of the models. Source: Amazon Bedrock user guide, "Amazon Titan Embeddings models" and "Cohere Embed models".
type titanRequest struct {
	Text       string `json:"inputText"`
	Dimensions int    `json:"dimensions,omitempty"`
}

type cohereRequest struct {
	Texts           []string `json:"texts"`
	InputType       string   `json:"input_type"`
	EmbeddingTypes  []string `json:"embedding_types"`
	OutputDimension int      `json:"output_dimension,omitempty"`
}

// embedder is how a model embeds texts.
type embedder struct {
	// most is the largest number of texts in one call.
	most    int
	request func(texts []string) any
	// read returns the vectors of an answer, as JSON, and the tokens of its input if it says them.
	read func(root gjson.Result) (list []gjson.Result, tokens gjson.Result)
}

// embedderOf returns how the model of a request embeds texts.
func embedderOf(r *provider.Embedding) (embedder, error) {
	switch {
	case strings.Contains(r.Model, "amazon.titan-embed-text-v1"), strings.Contains(r.Model, "amazon.titan-embed-g1-text"):
		if r.Dimensions > 0 {
			return embedder{}, provider.Unsupported("dimensions", "this model's vectors have one length")
		}
		return titan(0), nil
	case strings.Contains(r.Model, "amazon.titan-embed-text"):
		return titan(r.Dimensions), nil
	case strings.Contains(r.Model, "cohere.embed"):
		if r.Dimensions > 0 && strings.Contains(r.Model, "-v3") {
			return embedder{}, provider.Unsupported("dimensions", "this model's vectors have one length")
		}
		return cohere(r.Dimensions), nil
	}
	return embedder{}, provider.Unsupported("model", "this provider embeds with amazon.titan-embed-text and cohere.embed models")
}

func titan(dimensions int) embedder {
	return embedder{
		most: 1, request: func(texts []string) any { return titanRequest{texts[0], dimensions} },
		read: func(root gjson.Result) (list []gjson.Result, tokens gjson.Result) {
			return []gjson.Result{root.Get("embedding")}, root.Get("inputTextTokenCount")
		},
	}
}

const (
	// maxTexts is the largest number of texts in one call of Cohere's models.
	maxTexts = 96
	// inputType is the type of all texts; see package cohere.
	inputType = "search_document"
)

func cohere(dimensions int) embedder {
	return embedder{
		most: maxTexts, request: func(texts []string) any { return cohereRequest{texts, inputType, []string{"float"}, dimensions} },
		read: func(root gjson.Result) (list []gjson.Result, tokens gjson.Result) {
			vectors := root.Get("embeddings")
			if vectors.IsObject() {
				vectors = vectors.Get("float")
			}
			vectors.ForEach(func(_, vector gjson.Result) bool {
				list = append(list, vector)
				return len(list) <= maxTexts
			})
			return list, gjson.Result{}
		},
	}
}

// Embed returns vectors, with as many calls as the model needs. If one call fails, all fail, with a
// *provider.PartialError if the vendor bills others.
func (p *Provider) Embed(ctx context.Context, credential provider.Credential, r *provider.Embedding) (*provider.Vectors, error) {
	if err := r.TextsOnly(); err != nil {
		return nil, err
	}
	by, err := embedderOf(r)
	if err != nil {
		return nil, err
	}
	caller := p.caller.With(credential)
	return provider.EmbedBatches(ctx, r.Input, by.most, func(ctx context.Context, texts []string) (*provider.Vectors, error) {
		response, err := p.post(ctx, caller, r.Model, invoke, by.request(texts)) //nolint:bodyclose // vectors closes it.
		if err != nil {
			return nil, err
		}
		return by.vectors(ctx, response, len(texts))
	})
}

// inputCount is the header with the tokens of a call's input.
const inputCount = "X-Amzn-Bedrock-Input-Token-Count"

// vectors reads an answer, and closes it.
func (by embedder) vectors(ctx context.Context, response *http.Response, texts int) (*provider.Vectors, error) {
	root, err := read(ctx, response)
	if err != nil {
		return nil, err
	}
	list, counted := by.read(root)
	if len(list) != texts {
		return nil, wire.Malformed("the answer holds another number of vectors than of texts", nil)
	}
	made := &provider.Vectors{}
	for _, vector := range list {
		numbers, err := wire.Vector(vector)
		if err != nil {
			return nil, err
		}
		made.Vectors = append(made.Vectors, numbers)
	}
	tokens, known := wire.Tokens(counted)
	if n, err := strconv.ParseInt(response.Header.Get(inputCount), 10, 64); !known && err == nil && n >= 0 {
		tokens, known = min(n, wire.MaxTokens), true
	}
	if known {
		made.Usage = &provider.Usage{Input: tokens}
	}
	return made, nil
}
