// Package cohere speaks the embeddings dialect of Cohere. Its chat has a dialect
// of its own, which nothing here needs: Cohere's OpenAI-compatible address serves
// chat through package openai. Source: Cohere API reference v2, "Embed" and "Errors".
package cohere

import (
	"context"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/jsoncheck"
)

// maxTexts is how many texts one call may hold.
const maxTexts = 96

// InputTypeDocument is what texts are embedded as unless configured: what is
// stored and searched in. Cohere's models want the queries of a search embedded
// as "search_query"; the contract doesn't tell the two apart, and vectors of one
// kind compare well with one another, which is what callers who say nothing expect.
const InputTypeDocument = "search_document"

// Config of one provider that speaks the dialect.
type Config struct {
	// Name as the policy calls it.
	Name string
	// BaseURL up to the version segment, which may be left out: "https://api.cohere.com".
	BaseURL string
	// InputType of the texts; InputTypeDocument when empty.
	InputType string
	// Transport reaches the vendor; see wire.NewTransport.
	Transport http.RoundTripper
}

// Provider is a configured vendor. Safe for concurrent use.
type Provider struct {
	config Config
	url    *url.URL
	caller wire.Caller
}

var versioned = regexp.MustCompile(`/v\d+$`)

// New fails on a base URL that is not absolute.
func New(config Config) (*Provider, error) {
	base, err := wire.Base(config.BaseURL)
	if err != nil {
		return nil, err
	}
	if !versioned.MatchString(base.Path) {
		base.Path += "/v2"
	}
	base.Path += "/embed"
	if config.InputType == "" {
		config.InputType = InputTypeDocument
	}
	return &Provider{
		config: config, url: base,
		caller: wire.Caller{Transport: config.Transport, Classify: classify, Now: time.Now},
	}, nil
}

// Name as the policy calls the provider.
func (p *Provider) Name() string { return p.config.Name }

type request struct {
	Model           string   `json:"model"`
	Texts           []string `json:"texts"`
	InputType       string   `json:"input_type"`
	EmbeddingTypes  []string `json:"embedding_types"`
	OutputDimension int      `json:"output_dimension,omitempty"`
}

// Embed makes vectors, with a call for every 96 texts. A failure of one fails
// them all, with a *provider.PartialError where the vendor bills others.
func (p *Provider) Embed(ctx context.Context, credential provider.Credential, r *provider.Embedding) (*provider.Vectors, error) {
	if err := r.TextsOnly(); err != nil {
		return nil, err
	}
	caller := p.caller.With(credential.Key)
	made, err := provider.EmbedBatches(ctx, r.Input, maxTexts, func(ctx context.Context, texts []string) (*provider.Vectors, error) {
		header := http.Header{}
		if !credential.Key.IsZero() {
			header.Set("Authorization", "Bearer "+credential.Key.Reveal())
		}
		response, err := caller.Post(ctx, p.url, header, request{ //nolint:bodyclose // read closes it.
			Model: r.Model, Texts: texts, InputType: p.config.InputType,
			EmbeddingTypes: []string{"float"}, OutputDimension: r.Dimensions,
		})
		if err != nil {
			return nil, err
		}
		return read(ctx, response, len(texts))
	})
	if err != nil {
		return nil, err
	}
	for _, vector := range made.Vectors {
		if len(vector) != len(made.Vectors[0]) {
			return nil, wire.Malformed("the vectors differ in length", nil)
		}
	}
	return made, nil
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
		numbers, err = numbersOf(vector)
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

func numbersOf(vector gjson.Result) ([]float32, error) {
	var numbers []float32
	broken := !vector.IsArray()
	vector.ForEach(func(_, n gjson.Result) bool {
		broken = broken || n.Type != gjson.Number || math.IsInf(float64(float32(n.Num)), 0)
		numbers = append(numbers, float32(n.Num))
		return !broken
	})
	if broken || len(numbers) == 0 {
		return nil, wire.Malformed("a vector is missing or holds what is no number", nil)
	}
	return numbers, nil
}

// usageOf counts what is billed; nil where the answer doesn't say.
func usageOf(root gjson.Result) *provider.Usage {
	tokens, ok := wire.Tokens(root.Get("meta.billed_units.input_tokens"))
	if !ok {
		return nil
	}
	return &provider.Usage{Input: tokens}
}
