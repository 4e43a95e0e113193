package bedrock_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/bedrock"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
	"switchyard.dev/services/platform/apierr"
)

const (
	titan  = "amazon.titan-embed-text-v2:0"
	cohere = "cohere.embed-multilingual-v3"
)

func newEmbed(baseURL string, transport http.RoundTripper) (providertest.Ask[provider.Embedding, provider.Vectors], error) {
	p, err := bedrock.New(provider.Settings{Name: "bedrock", BaseURL: baseURL, Transport: transport})
	return p.Embed, err
}

func TestEmbedConformance(t *testing.T) {
	wanted := refusals()
	maps.DeleteFunc(wanted, func(name string, _ providertest.Refusal) bool { return name == "content_filter" })
	providertest.RunWhole(t, providertest.Whole[provider.Embedding, provider.Vectors]{
		New: newEmbed, Dir: "embeddings",
		Cases: map[string]providertest.Case[provider.Embedding, provider.Vectors]{
			"plain": {
				Request: &provider.Embedding{Model: titan, Input: []string{"<a> & \"b\""}},
				Want:    &provider.Vectors{Vectors: [][]float32{{0.5, -0.25, 1e-3}}, Usage: &provider.Usage{Input: 4}},
			},
			"dimensions": {
				Request: &provider.Embedding{Model: titan, Input: []string{"a"}, Dimensions: 256},
				Want:    &provider.Vectors{Vectors: [][]float32{{1, 0}}},
			},
			"titan_v1": {
				Request: &provider.Embedding{Model: "amazon.titan-embed-text-v1", Input: []string{"a"}},
				Want:    &provider.Vectors{Vectors: [][]float32{{1, 0}}, Usage: &provider.Usage{Input: 1}},
			},
			"cohere": {
				Request: &provider.Embedding{Model: cohere, Input: []string{"a", "b"}},
				Want:    &provider.Vectors{Vectors: [][]float32{{1, 0}, {0, 1}}},
			},
			"cohere_list": {
				Request: &provider.Embedding{Model: "cohere.embed-english-v3", Input: []string{"a"}},
				Want:    &provider.Vectors{Vectors: [][]float32{{1, 0}}},
			},
			"cohere_v4": {
				Request: &provider.Embedding{Model: "us.cohere.embed-v4:0", Input: []string{"a"}, Dimensions: 256},
				Want:    &provider.Vectors{Vectors: [][]float32{{1, 0}}},
			},
		},
		Refusals: wanted,
		Broken: map[string]string{
			"no vector": `{"inputTextTokenCount":1}`, "not numbers": `{"embedding":["a"]}`, "null": `{"embedding":[null]}`,
			"beyond 32 bits": `{"embedding":[1e300]}`, "empty": `{"embedding":[]}`, "an object": `{"embedding":{"a":1}}`, "not an object": "5",
		},
	})
}

// embed asks a vendor that answers each call with a text made of the texts in it.
func embed(t *testing.T, header http.Header, r *provider.Embedding, answer func(texts []string) string) (*provider.Vectors, error) {
	t.Helper()
	p, err := bedrock.New(provider.Settings{BaseURL: "http://vendor.example", Transport: providertest.Transport(func(q *http.Request) (*http.Response, error) {
		var body struct {
			InputText string
			Texts     []string
		}
		text, _ := io.ReadAll(q.Body)
		err := json.Unmarshal(text, &body)
		if body.Texts == nil {
			body.Texts = []string{body.InputText}
		}
		return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(strings.NewReader(answer(body.Texts)))}, err
	})})
	if err != nil {
		t.Fatal(err)
	}
	return p.Embed(t.Context(), provider.Credential{}, r)
}

// Titan takes one text a call, and Cohere 96; the vectors are in the order of the texts.
func TestEmbedsInBatches(t *testing.T) {
	texts := make([]string, 100)
	for i := range texts {
		texts[i] = fmt.Sprint(i)
	}
	made, err := embed(t, nil, &provider.Embedding{Model: titan, Input: texts}, func(texts []string) string {
		return `{"embedding":[` + texts[0] + `],"inputTextTokenCount":2}`
	})
	check := func(tokens int64) {
		t.Helper()
		if err != nil || len(made.Vectors) != len(texts) || made.Usage == nil || made.Usage.Input != tokens {
			t.Fatalf("%+v, %v", made, err)
		}
		for i, vector := range made.Vectors {
			if vector[0] != float32(i) {
				t.Errorf("vector %d is that of text %v", i, vector[0])
			}
		}
	}
	check(200)
	made, err = embed(t, http.Header{"X-Amzn-Bedrock-Input-Token-Count": {"7"}}, &provider.Embedding{Model: cohere, Input: texts}, func(texts []string) string {
		if len(texts) > 96 {
			t.Errorf("%d texts in one call", len(texts))
		}
		return `{"embeddings":{"float":[[` + strings.Join(texts, "],[") + `]]}}`
	})
	check(14)
}

func TestEmbedRefuses(t *testing.T) {
	one := func(string) *provider.Embedding { return &provider.Embedding{Input: []string{"a"}} }
	for field, models := range map[string][]string{
		"model":      {llama, "amazon.titan-embed-image-v1", "", "arn:aws:bedrock:eu-west-1:1:application-inference-profile/a1"},
		"dimensions": {"amazon.titan-embed-text-v1", cohere},
	} {
		for _, model := range models {
			r := one(model)
			if r.Model = model; field == "dimensions" {
				r.Dimensions = 256
			}
			_, err := embed(t, nil, r, func([]string) string { t.Error("sent"); return "" })
			if e := providertest.ErrorOf(t, err); !e.Unsupported || !strings.HasPrefix(e.Text, field+": ") {
				t.Errorf("%s: %v", model, e)
			}
		}
	}
	p, err := bedrock.New(provider.Settings{BaseURL: "http://vendor.example"})
	if err != nil {
		t.Fatal(err)
	}
	providertest.RefusesTokens(t, p)
	for _, answers := range [][]string{{`[1]`, `[1,2]`}, {`[1]`}, {`[1]`, `[2]`, `[3]`}} {
		_, err := embed(t, nil, &provider.Embedding{Model: cohere, Input: []string{"a", "b"}}, func([]string) string {
			return `{"embeddings":[` + strings.Join(slices.Clone(answers), ",") + `]}`
		})
		if e := providertest.ErrorOf(t, err); e.Class != apierr.ClassServerError {
			t.Errorf("%v: %v", answers, e)
		}
	}
}
