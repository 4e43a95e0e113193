package openai_test

import (
	"encoding/base64"
	"errors"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/openai"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
	"switchyard.dev/services/platform/apierr"
)

// common are refusals that every operation may get.
func common() map[string]providertest.Refusal {
	all, some := refusals(), make(map[string]providertest.Refusal)
	for _, name := range []string{"invalid_key", "rate_limit", "insufficient_quota", "html_502", "mistral_detail", "image_moderation", "dalle_azure", "error_200"} {
		some[name] = all[name]
	}
	return some
}

func TestEmbeddings(t *testing.T) {
	usage := &provider.Usage{Input: 5}
	const model = "text-embedding-3-small"
	providertest.RunWhole(t, providertest.Whole[provider.Embedding, provider.Vectors]{
		New: func(baseURL string, transport http.RoundTripper) (providertest.Ask[provider.Embedding, provider.Vectors], error) {
			p, err := openai.New(provider.Settings{Name: "openai", BaseURL: baseURL, Transport: transport})
			return p.Embed, err
		},
		Dir: "embeddings",
		Cases: map[string]providertest.Case[provider.Embedding, provider.Vectors]{
			"plain": {
				Request: &provider.Embedding{Model: model, Input: []string{"<a> & \"b\""}},
				Want:    &provider.Vectors{Vectors: [][]float32{{0.5, -0.25, 1}}, Usage: usage, Model: model},
			},
			"several": {
				Request: &provider.Embedding{Model: model, Input: []string{"a", "b", "c"}, Dimensions: 2},
				Want:    &provider.Vectors{Vectors: [][]float32{{1, 0}, {2, 0}, {3, 0}}, Usage: usage, Model: model},
			},
			"tokens": {
				Request: &provider.Embedding{Model: model, Tokens: [][]int32{{100257, 0, 2147483647}, {7}}, Dimensions: 2},
				Want:    &provider.Vectors{Vectors: [][]float32{{1, 0}, {2, 0}}, Usage: &provider.Usage{Input: 4}, Model: model},
			},
			"numbers": {
				Request: &provider.Embedding{Model: "nomic-embed-text", Input: []string{"a", "b"}},
				Want:    &provider.Vectors{Vectors: [][]float32{{0.5, 1e-3, -2}, {0, 1, 2}}, Model: "nomic-embed-text"},
			},
		},
		Refusals: common(),
		Broken:   brokenVectors(),
	})
}

func brokenVectors() map[string]string {
	nan := base64.StdEncoding.EncodeToString([]byte{0, 0, 0xc0, 0x7f})
	return map[string]string{
		"no vector": `{"data":[]}`, "no data": `{}`, "data is null": `{"data":null}`,
		"two":                `{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1]}]}`,
		"one twice":          `{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}`,
		"a negative index":   `{"data":[{"index":-1,"embedding":[1]}]}`,
		"empty":              `{"data":[{"embedding":[]}]}`,
		"empty base64":       `{"data":[{"embedding":""}]}`,
		"null":               `{"data":[{"embedding":null}]}`,
		"not base64":         `{"data":[{"embedding":"%%%%"}]}`,
		"not floats":         `{"data":[{"embedding":"AAAA"}]}`,
		"texts":              `{"data":[{"embedding":["1"]}]}`,
		"no number":          `{"data":[{"embedding":"` + nan + `"}]}`,
		"beyond any number":  `{"data":[{"embedding":[1e99]}]}`,
		"an object in place": `{"data":{"embedding":[1]}}`,
	}
}

func TestVectorsOfOneLength(t *testing.T) {
	p := answering(t, "application/json", `{"data":[{"embedding":[1,2]},{"embedding":[1]}]}`)
	_, err := p.Embed(t.Context(), provider.Credential{}, &provider.Embedding{Model: "m", Input: []string{"a", "b"}})
	if e, ok := errors.AsType[*provider.Error](err); !ok || e.Class != apierr.ClassServerError {
		t.Errorf("err = %v", err)
	}
}

// A server that reports only the total has reported the input, even beside a zero.
func TestEmbeddingsTotal(t *testing.T) {
	for usage, want := range map[string]*provider.Usage{
		`{"total_tokens":7}`: {Input: 7}, `{"prompt_tokens":0,"total_tokens":7}`: {Input: 7},
		`{"prompt_tokens":0,"total_tokens":0}`: {}, `{"prompt_tokens":5,"total_tokens":7}`: {Input: 5}, `{}`: nil, `null`: nil,
	} {
		p := answering(t, "application/json", `{"data":[{"embedding":[1]}],"usage":`+usage+`}`)
		made, err := p.Embed(t.Context(), provider.Credential{}, &provider.Embedding{Model: "m", Input: []string{"a"}})
		if err != nil || !reflect.DeepEqual(made.Usage, want) {
			t.Errorf("%s: %+v, %v, want %+v", usage, made.Usage, err, want)
		}
	}
}

// More texts than the vendor accepts are not sent.
func TestTooManyInputs(t *testing.T) {
	p := answering(t, "application/json", `{}`)
	for _, request := range []provider.Embedding{
		{Model: "m", Input: slices.Repeat([]string{"a"}, 2049)}, {Model: "m", Tokens: slices.Repeat([][]int32{{1}}, 2049)},
	} {
		_, err := p.Embed(t.Context(), provider.Credential{}, &request)
		if e, ok := errors.AsType[*provider.Error](err); !ok || !e.Unsupported || !strings.HasPrefix(e.Text, "input: ") {
			t.Errorf("err = %v, want unsupported", err)
		}
	}
}

func TestImages(t *testing.T) {
	png := base64.StdEncoding.EncodeToString(append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, 60)...))
	jpeg := provider.Image{Base64: base64.StdEncoding.EncodeToString(append([]byte("\xff\xd8\xff\xe0"), make([]byte, 20)...)), MediaType: "image/jpeg"}
	type images = providertest.Case[provider.ImageRequest, provider.Images]
	providertest.RunWhole(t, providertest.Whole[provider.ImageRequest, provider.Images]{
		New: func(baseURL string, transport http.RoundTripper) (providertest.Ask[provider.ImageRequest, provider.Images], error) {
			p, err := openai.New(provider.Settings{Name: "openai", BaseURL: baseURL, Transport: transport})
			return p.MakeImages, err
		},
		Dir: "images",
		Cases: map[string]images{
			"plain": {
				Request: &provider.ImageRequest{Model: "gpt-image-1", Prompt: "A <cat>", Count: 1, Size: "1024x1024", Quality: "high", Format: "png", Delivery: "b64_json"},
				Want: &provider.Images{
					Images: []provider.Image{{Base64: png, MediaType: "image/png"}},
					Usage:  &provider.Usage{Input: 10, ImageInput: 40, ImageOutput: 4150, Images: 1},
				},
			},
			"text_out": {
				Request: &provider.ImageRequest{Model: "gpt-image-1.5", Prompt: "A cat", Count: 2, Format: "jpeg"},
				Want:    &provider.Images{Images: []provider.Image{jpeg, jpeg}, Usage: &provider.Usage{Input: 50, Output: 150, ImageOutput: 4000, Images: 2}},
			},
			"dalle_url": {
				Request: &provider.ImageRequest{Model: "dall-e-3", Prompt: "A cat", Count: 1, Delivery: "url", Format: "png"},
				Want: &provider.Images{
					Images: []provider.Image{{URL: "https://files.example/a.png?se=1&sig=2", RevisedPrompt: "A calm cat."}},
					Usage:  &provider.Usage{Images: 1},
				},
			},
			"dalle_bytes": {
				Request: &provider.ImageRequest{Model: "dall-e-3", Prompt: "A cat", Count: 1, Delivery: "b64_json"},
				Want: &provider.Images{
					Images: []provider.Image{{Base64: png, MediaType: "image/png", RevisedPrompt: "A calm cat."}},
					Usage:  &provider.Usage{Images: 1},
				},
			},
			"other": {
				Request: &provider.ImageRequest{Model: "grok-2-image", Prompt: "A cat", Count: 2, Delivery: "b64_json"},
				Want: &provider.Images{
					Images: []provider.Image{{Base64: "Pz8/Pw==", MediaType: "application/octet-stream"}, {URL: "https://files.example/b"}},
					Usage:  &provider.Usage{Images: 2}, Model: "grok-2-image",
				},
			},
		},
		Refusals: common(),
		Broken: map[string]string{
			"none": `{"data":[]}`, "no data": `{}`, "empty": `{"data":[{}]}`, "null": `{"data":null}`,
			"two of one": `{"data":[{"url":"https://a"},{"url":"https://b"}]}`,
		},
	})
}

// An option that a family of models doesn't support is an error, not dropped.
func TestImagesUnsupported(t *testing.T) {
	p := answering(t, "application/json", `{}`)
	for field, d := range map[string]provider.ImageRequest{
		"response_format: ": {Model: "gpt-image-1", Count: 1, Delivery: "url"},
		"output_format: ":   {Model: "dall-e-3", Count: 1, Format: "webp"},
	} {
		_, err := p.MakeImages(t.Context(), provider.Credential{}, &d)
		if e, ok := errors.AsType[*provider.Error](err); !ok || !e.Unsupported || !strings.HasPrefix(e.Text, field) {
			t.Errorf("err = %v, want %sunsupported", err, field)
		}
	}
}

// The wait in the text is read if no header has one, and is bounded.
func TestWaitsInTexts(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"Please try again in 1.5s.":          1500 * time.Millisecond,
		"Please try again in 28ms.":          28 * time.Millisecond,
		"Please try again in 1m2s. Visit":    62 * time.Second,
		"Please try again in 7h12m0s.":       5 * time.Minute,
		"Please retry after 6 seconds.":      6 * time.Second,
		"Try again in 1 second":              time.Second,
		"retry after 999999 seconds":         5 * time.Minute,
		"try again in a while":               0,
		"try again in 99999999999999999h":    0,
		"try again in " + "1h1h1h" + "later": 5 * time.Minute,
	} {
		p := refusing(t, http.StatusTooManyRequests, marshal(object{"error": object{"message": text}}))
		_, err := p.Chat(t.Context(), provider.Credential{}, &provider.Chat{Model: "m"})
		if e, ok := errors.AsType[*provider.Error](err); !ok || e.RetryAfter != want {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
}

// Impossible numbers of tokens don't reach the ledger.
func TestAbsurdUsage(t *testing.T) {
	for _, usage := range []string{
		`{"prompt_tokens":-5,"completion_tokens":-1}`, `{"prompt_tokens":1e308,"completion_tokens":1,"total_tokens":-1e308}`,
		`{"prompt_tokens":5,"prompt_tokens_details":{"cached_tokens":9,"audio_tokens":9,"image_tokens":9,"cache_write_tokens":-9}}`,
		`{"prompt_tokens":"5","completion_tokens":2.9,"total_tokens":900}`,
	} {
		p := answering(t, "application/json", `{"choices":[{"message":{"content":"a"}}],"usage":`+usage+`}`)
		answer, err := p.Chat(t.Context(), provider.Credential{}, &provider.Chat{Model: "m"})
		if err != nil {
			t.Fatal(err)
		}
		u := answer.Usage
		if lowest := min(u.Input, u.CacheRead, u.CacheWrite, u.AudioInput, u.ImageInput, u.Output, u.Reasoning, u.AudioOutput); lowest < 0 || u.Prompt()+u.Completion() > math.MaxInt64/2 {
			t.Errorf("%s: %+v", usage, u)
		}
	}
}

// Bytes of an unknown format have the format that the vendor names.
func TestFormatOfUnknownBytes(t *testing.T) {
	for members, want := range map[string]string{
		`"output_format":"webp",`: "image/webp", `"output_format":"tiff",`: "application/octet-stream", ``: "application/octet-stream",
	} {
		p := answering(t, "application/json", `{`+members+`"data":[{"b64_json":"AAAA"}]}`)
		made, err := p.MakeImages(t.Context(), provider.Credential{}, &provider.ImageRequest{Model: "m", Prompt: "p", Count: 1})
		if err != nil || made.Images[0].MediaType != want {
			t.Errorf("%s: %+v, %v, want %s", members, made, err, want)
		}
	}
}
