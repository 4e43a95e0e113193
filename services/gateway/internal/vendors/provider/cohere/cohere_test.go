package cohere_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/cohere"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
	"switchyard.dev/services/platform/apierr"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func refusals() map[string]providertest.Refusal {
	row := func(status int, class apierr.Class) providertest.Refusal {
		return providertest.Refusal{Status: status, Want: provider.Error{Class: class}}
	}
	limited := row(429, apierr.ClassRateLimit)
	limited.Header, limited.Want.RetryAfter = http.Header{"Retry-After": {"3"}}, 3*time.Second
	key := row(401, apierr.ClassAuth)
	key.Want.Text = "invalid api token [redacted]"
	return map[string]providertest.Refusal{
		"invalid_key": key, "payment": row(402, apierr.ClassAuth), "forbidden": row(403, apierr.ClassAuth),
		"invalid_token": row(498, apierr.ClassAuth), "trial_month": row(429, apierr.ClassAuth),
		"rate_limit": limited, "trial_minute": row(429, apierr.ClassRateLimit),
		"cancelled": row(499, apierr.ClassTransient), "timeout": row(504, apierr.ClassTransient),
		"internal": row(500, apierr.ClassServerError), "unavailable": row(503, apierr.ClassServerError),
		"input_type": row(400, apierr.ClassPolicy), "not_found": row(404, apierr.ClassPolicy), "unprocessable": row(422, apierr.ClassPolicy),
		"too_many_tokens": row(400, apierr.ClassContextOverflow), "too_many_tokens_429": row(429, apierr.ClassRateLimit),
		"safety": row(400, apierr.ClassContentPolicy),
	}
}

func TestConformance(t *testing.T) {
	providertest.RunWhole(t, providertest.Whole[provider.Embedding, provider.Vectors]{
		New: func(baseURL string, transport http.RoundTripper) (providertest.Ask[provider.Embedding, provider.Vectors], error) {
			p, err := cohere.New(provider.Settings{Name: "cohere", BaseURL: baseURL, Transport: transport})
			return p.Embed, err
		},
		Dir: "embeddings",
		Cases: map[string]providertest.Case[provider.Embedding, provider.Vectors]{
			"plain": {
				Request: &provider.Embedding{Model: "embed-v4.0", Input: []string{"<a> & \"b\""}},
				Want:    &provider.Vectors{Vectors: [][]float32{{0.5, -0.25, 1e-3}}, Usage: &provider.Usage{Input: 4}},
			},
			"several": {
				Request: &provider.Embedding{Model: "embed-v4.0", Input: []string{"a", "b"}, Dimensions: 256},
				Want:    &provider.Vectors{Vectors: [][]float32{{1, 0}, {0, 1}}},
			},
		},
		Refusals: refusals(),
		Broken: map[string]string{
			"none": `{"embeddings":{"float":[]}}`, "nothing": `{}`, "another kind": `{"embeddings":{"int8":[[1]]}}`,
			"two of one": `{"embeddings":{"float":[[1],[2]]}}`, "empty": `{"embeddings":{"float":[[]]}}`, "null": `{"embeddings":{"float":[null]}}`,
			"texts": `{"embeddings":{"float":[["1"]]}}`, "a number": `{"embeddings":{"float":[1]}}`, "beyond": `{"embeddings":{"float":[[1e99]]}}`,
			"version 1": `{"embeddings":[[1]]}`,
		},
	})
}

func TestTokens(t *testing.T) {
	p, err := cohere.New(provider.Settings{Name: "cohere", BaseURL: "http://vendor.example", Transport: &vendor{}})
	if err != nil {
		t.Fatal(err)
	}
	providertest.RefusesTokens(t, p)
}

// vendor imitates Cohere: it accepts 96 texts in a call and answers each with its number, the first call last.
type vendor struct {
	mu    sync.Mutex
	calls []int
}

func (v *vendor) RoundTrip(r *http.Request) (*http.Response, error) {
	var body struct {
		Model string   `json:"model"`
		Texts []string `json:"texts"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return nil, err
	}
	v.mu.Lock()
	v.calls = append(v.calls, len(body.Texts))
	v.mu.Unlock()
	text := `{"embeddings":{"float":[[` + strings.Join(body.Texts, "],[") + `]]},"meta":{"billed_units":{"input_tokens":` + strconv.Itoa(len(body.Texts)) + `}}}`
	if body.Model == "uneven" {
		text = `{"embeddings":{"float":[[1,2],[3]]}}`
	}
	return &http.Response{StatusCode: http.StatusOK, Request: r, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text))}, nil
}

func TestManyTexts(t *testing.T) {
	v := new(vendor)
	p, err := cohere.New(provider.Settings{Name: "mine", BaseURL: "https://api.cohere.com/v2/", Transport: v})
	if err != nil {
		t.Fatal(err)
	}
	var input []string
	for i := range 200 {
		input = append(input, strconv.Itoa(i))
	}
	made, err := p.Embed(t.Context(), provider.Credential{}, &provider.Embedding{Model: "m", Input: input})
	if err != nil {
		t.Fatal(err)
	}
	if len(v.calls) != 3 || len(made.Vectors) != 200 {
		t.Errorf("calls of %v texts, %d vectors; want 3 calls and 200 vectors", v.calls, len(made.Vectors))
	}
	if made.Usage == nil || made.Usage.Input != 200 {
		t.Errorf("usage %+v, want 200 tokens of input", made.Usage)
	}
	for i, vector := range made.Vectors {
		if vector[0] != float32(i) {
			t.Errorf("vector %d is that of text %v", i, vector)
		}
	}
	if p.Name() != "mine" {
		t.Errorf("Name = %q", p.Name())
	}
}

func TestVectorsOfOneLength(t *testing.T) {
	p, err := cohere.New(provider.Settings{BaseURL: "https://api.cohere.com", Transport: new(vendor)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Embed(t.Context(), provider.Credential{}, &provider.Embedding{Model: "uneven", Input: []string{"1", "2"}}); err == nil || !strings.Contains(err.Error(), "differ in length") {
		t.Errorf("err = %v", err)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, base := range []string{"", "api.cohere.com", "ftp://x", "https://", ":"} {
		if _, err := cohere.New(provider.Settings{BaseURL: base}); err == nil {
			t.Errorf("%q is taken", base)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add(`{"embeddings":{"float":[[1,2],[3,4]]},"meta":{"billed_units":{"input_tokens":-1}}}`)
	f.Add(`{"embeddings":{"float":null}}`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := cohere.New(provider.Settings{BaseURL: "http://x", Transport: providertest.Canned(http.StatusOK, http.Header{}, text)})
		if err != nil {
			t.Fatal(err)
		}
		made, err := p.Embed(t.Context(), provider.Credential{}, &provider.Embedding{Input: []string{"a", "b"}})
		if err != nil {
			return
		}
		if len(made.Vectors) != 2 {
			t.Errorf("%d vectors, want 2", len(made.Vectors))
		}
		if made.Usage != nil && made.Usage.Input < 0 {
			t.Errorf("usage %+v is negative", made.Usage)
		}
	})
}
