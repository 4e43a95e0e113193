package vertex

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/jsoncheck"
)

// maxTexts is the largest number of texts in one call. A call may have 20,000 tokens, and a text counts 2,048 at most.
const maxTexts = 8

// oneText is the model that takes one text in a call.
const oneText = "gemini-embedding-001"

// prediction is a call of the method predict.
type prediction struct {
	Instances  []instance  `json:"instances"`
	Parameters *parameters `json:"parameters,omitempty"`
}

type instance struct {
	Content string `json:"content"`
}

type parameters struct {
	Dimensions int `json:"outputDimensionality,omitempty"`
}

// contentRequest is a call of the method embedContent.
type contentRequest struct {
	Content content     `json:"content"`
	Config  *parameters `json:"embedContentConfig,omitempty"`
}

type content struct {
	Parts []part `json:"parts"`
}

type part struct {
	Text string `json:"text"`
}

// embedsContent reports whether a model has the method embedContent in place of predict: the newer ones, and those of other
// publishers.
func embedsContent(model string) bool {
	return strings.Contains(model, "gemini") && model != oneText || strings.Contains(model, "maas")
}

// Embed returns one vector for each input, in order. More inputs than a model accepts at a time take several calls.
func (p *Provider) Embed(ctx context.Context, credential provider.Credential, request *provider.Embedding) (*provider.Vectors, error) {
	if err := request.TextsOnly(); err != nil {
		return nil, err
	}
	texts := maxTexts
	if request.Model == oneText || embedsContent(request.Model) {
		texts = 1
	}
	caller := p.caller.With(credential)
	return provider.EmbedBatches(ctx, request.Input, texts, func(ctx context.Context, texts []string) (*provider.Vectors, error) {
		method, body := embedding(request, texts)
		at := p.publisher.JoinPath("models", url.PathEscape(request.Model)+":"+method)
		response, err := caller.Post(ctx, at, http.Header{}, body) //nolint:bodyclose // vectorsOf closes it.
		if err != nil {
			return nil, err
		}
		return vectorsOf(ctx, caller, response, len(texts))
	})
}

// embedding returns the method and the body of a call.
func embedding(request *provider.Embedding, texts []string) (method string, body any) {
	var asked *parameters
	if request.Dimensions > 0 {
		asked = &parameters{request.Dimensions}
	}
	if embedsContent(request.Model) {
		return "embedContent", contentRequest{content{[]part{{texts[0]}}}, asked}
	}
	call := prediction{Parameters: asked}
	for _, text := range texts {
		call.Instances = append(call.Instances, instance{text})
	}
	return "predict", call
}

// vectorsOf reads the vectors of one call, which must be as many as its texts.
func vectorsOf(ctx context.Context, caller *wire.Caller, response *http.Response, texts int) (*provider.Vectors, error) {
	text, err := wire.Read(ctx, response)
	if err != nil {
		return nil, err
	}
	if !jsoncheck.Valid(text) {
		return nil, wire.Malformed("the answer is not JSON", nil)
	}
	root := wire.ParseView(text)
	if root.Get("error").Exists() {
		return nil, caller.Refused(response.StatusCode, text)
	}
	made := &provider.Vectors{}
	reported, tokens := true, int64(0)
	take := func(one, count gjson.Result) bool {
		var vector []float32
		vector, err = wire.Vector(one)
		made.Vectors = append(made.Vectors, vector)
		n, ok := wire.Tokens(count)
		reported, tokens = reported && ok && n > 0, tokens+n // No text is empty.
		return err == nil && len(made.Vectors) <= texts
	}
	if one := root.Get("embedding.values"); one.Exists() {
		take(one, root.Get("usageMetadata.promptTokenCount"))
	}
	root.Get("predictions").ForEach(func(_, one gjson.Result) bool {
		return take(one.Get("embeddings.values"), one.Get("embeddings.statistics.token_count"))
	})
	switch {
	case err != nil:
		return nil, err
	case len(made.Vectors) != texts:
		return nil, wire.Malformed("the answer holds another number of vectors than of texts", nil)
	case reported:
		made.Usage = &provider.Usage{Input: tokens}
	}
	return made, nil
}
