// Package cohere implements the embeddings dialect of Cohere, and relays calls of its reranker. Cohere's own chat dialect is not needed: its
// OpenAI-compatible address serves chat through package openai. Source: Cohere API reference v2, "Embed", "Rerank" and "Errors".
package cohere

import (
	"context"
	"net/http"
	"net/url"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/jsoncheck"
)

// maxTexts is the largest number of texts in one call.
const maxTexts = 96

// inputType is the type of all texts: documents that are stored and searched. Cohere's models expect the
// queries of a search as "search_query"; the contract doesn't distinguish the two. Vectors of one type compare well
// with each other, which is what callers without a choice expect.
const inputType = "search_document"

// Provider is a configured vendor. Safe for concurrent use.
type Provider struct {
	settings provider.Settings
	base     *url.URL
	caller   wire.Caller
}

// New returns a Provider, or an error if the base URL is not absolute.
func New(settings provider.Settings) (*Provider, error) {
	base, err := wire.Base(settings.BaseURL)
	if err != nil {
		return nil, err
	}
	if base.Path == "" {
		base.Path = "/v2"
	}
	return &Provider{
		settings: settings, base: base,
		caller: wire.NewCaller(settings, "Authorization", classify),
	}, nil
}

// Name returns the provider's name in the policy.
func (p *Provider) Name() string { return p.settings.Name }

type request struct {
	Model           string   `json:"model"`
	Texts           []string `json:"texts"`
	InputType       string   `json:"input_type"`
	EmbeddingTypes  []string `json:"embedding_types"`
	OutputDimension int      `json:"output_dimension,omitempty"`
}

// Embed returns vectors, with one call for every 96 texts. If one call fails, all fail, with a *provider.PartialError
// if the vendor bills others.
func (p *Provider) Embed(ctx context.Context, credential provider.Credential, r *provider.Embedding) (*provider.Vectors, error) {
	if err := r.TextsOnly(); err != nil {
		return nil, err
	}
	caller := p.caller.With(credential)
	return provider.EmbedBatches(ctx, r.Input, maxTexts, func(ctx context.Context, texts []string) (*provider.Vectors, error) {
		response, err := caller.Post(ctx, p.base.JoinPath("embed"), http.Header{}, request{ //nolint:bodyclose // read closes it.
			Model: r.Model, Texts: texts, InputType: inputType,
			EmbeddingTypes: []string{"float"}, OutputDimension: r.Dimensions,
		})
		if err != nil {
			return nil, err
		}
		return read(ctx, response, len(texts))
	})
}

func read(ctx context.Context, response *http.Response, texts int) (*provider.Vectors, error) {
	body, err := wire.Read(ctx, response)
	if err != nil {
		return nil, err
	}
	if !jsoncheck.Valid(body) {
		return nil, wire.Malformed("the answer is not JSON", nil)
	}
	root := wire.ParseView(body)
	list := root.Get("embeddings.float")
	if !list.IsArray() {
		return nil, wire.Malformed("the answer holds no list of vectors", nil)
	}
	made := &provider.Vectors{Usage: usageOf(root)}
	list.ForEach(func(_, vector gjson.Result) bool {
		var numbers []float32
		numbers, err = wire.Vector(vector)
		made.Vectors = append(made.Vectors, numbers)
		return err == nil && len(made.Vectors) <= texts
	})
	if err != nil {
		return nil, err
	}
	if len(made.Vectors) != texts {
		return nil, wire.Malformed("the answer holds another number of vectors than of texts", nil)
	}
	return made, nil
}

// usageOf returns what is billed, or nil if the answer doesn't contain it.
func usageOf(root gjson.Result) *provider.Usage {
	tokens, ok := wire.Tokens(root.Get("meta.billed_units.input_tokens"))
	if !ok {
		return nil
	}
	return &provider.Usage{Input: tokens}
}
