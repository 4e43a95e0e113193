package vertex_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
	"switchyard.dev/services/gateway/internal/vendors/provider/vertex"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Compile-time checks of the interfaces.
var (
	_ provider.ImageFetcher = (*vertex.Provider)(nil)
	_ provider.TokenCounter = (*vertex.Provider)(nil)
	_ provider.Embedder     = (*vertex.Provider)(nil)
	_ provider.ImageMaker   = (*vertex.Provider)(nil)
)

const (
	host    = "https://europe-west1-aiplatform.googleapis.com"
	project = "/v1/projects/acme/locations/europe-west1"
)

// vendor records requests, and gives the same answer to each.
type vendor struct {
	status       int
	kind, answer string

	mu     sync.Mutex
	url    string
	header http.Header
	bodies []string
}

func (v *vendor) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.url, v.header, v.bodies = r.URL.String(), r.Header, append(v.bodies, string(body))
	status, kind := v.status, v.kind
	if status == 0 {
		status, kind = http.StatusOK, "application/json"
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(v.answer)), Request: r}, err
}

func (v *vendor) last() string { return v.bodies[len(v.bodies)-1] }

func at(t *testing.T, base string, over *vendor) *vertex.Provider {
	t.Helper()
	p, err := vertex.New(provider.Settings{Name: "vertex", BaseURL: base, Transport: over})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func hi(model string) *provider.Chat {
	return &provider.Chat{Model: model, MaxTokens: 5, Messages: []provider.Message{{Role: provider.RoleUser, Content: []provider.Part{{Text: "hi"}}}}}
}

// Each publisher's models are called at their own URLs and in their own dialect, with an access token or a key.
func TestCalls(t *testing.T) {
	token := provider.Credential{Key: secret.New("ya29.token"), Bearer: true}
	for _, tt := range []struct {
		base, model   string
		credential    provider.Credential
		whole, stream string
		header, value string
		body          string
	}{
		{
			host + project, "gemini-2.5-flash", token,
			host + project + "/publishers/google/models/gemini-2.5-flash:generateContent",
			host + project + "/publishers/google/models/gemini-2.5-flash:streamGenerateContent?alt=sse",
			"Authorization", "Bearer ya29.token", `{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"generationConfig":{"maxOutputTokens":5}}`,
		},
		{
			host + project + "/", "claude-opus-4-5@20251101", token,
			host + project + "/publishers/anthropic/models/claude-opus-4-5@20251101:rawPredict",
			host + project + "/publishers/anthropic/models/claude-opus-4-5@20251101:streamRawPredict",
			"Authorization", "Bearer ya29.token", `{"anthropic_version":"vertex-2023-10-16","max_tokens":5,"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}`,
		},
		{
			host + project, "meta/llama-4-scout-17b-16e-instruct-maas", token,
			host + project + "/endpoints/openapi/chat/completions", host + project + "/endpoints/openapi/chat/completions",
			"Authorization", "Bearer ya29.token", `{"model":"meta/llama-4-scout-17b-16e-instruct-maas","messages":[{"role":"user","content":"hi"}],"max_tokens":5}`,
		},
		{
			"https://aiplatform.googleapis.com/v1", "gemini-2.5-flash",
			provider.Credential{Key: secret.New("key")},
			"https://aiplatform.googleapis.com/v1/publishers/google/models/gemini-2.5-flash:generateContent",
			"https://aiplatform.googleapis.com/v1/publishers/google/models/gemini-2.5-flash:streamGenerateContent?alt=sse",
			"X-Goog-Api-Key", "key", `{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"generationConfig":{"maxOutputTokens":5}}`,
		},
		{
			host + project, "../../x?key=1#a", token,
			host + project + "/endpoints/openapi/chat/completions", host + project + "/endpoints/openapi/chat/completions",
			"Authorization", "Bearer ya29.token", `{"model":"../../x?key=1#a","messages":[{"role":"user","content":"hi"}],"max_tokens":5}`,
		},
		{
			host + project, "claude-../../x?a#b", token,
			host + project + "/publishers/anthropic/models/claude-..%2F..%2Fx%3Fa%23b:rawPredict",
			host + project + "/publishers/anthropic/models/claude-..%2F..%2Fx%3Fa%23b:streamRawPredict",
			"Authorization", "Bearer ya29.token", `{"anthropic_version":"vertex-2023-10-16","max_tokens":5,"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}`,
		},
	} {
		over := &vendor{answer: `{}`}
		p := at(t, tt.base, over)
		_, _ = p.Chat(t.Context(), tt.credential, hi(tt.model))
		if over.url != tt.whole || over.header.Get(tt.header) != tt.value || over.header.Get("Anthropic-Version") != "" {
			t.Errorf("%s: sent to %s with %v, want %s with %s: %s", tt.model, over.url, over.header, tt.whole, tt.header, tt.value)
		}
		if diff := cmp.Diff(tt.body, over.last()); diff != "" {
			t.Errorf("%s: body (-want +got):\n%s", tt.model, diff)
		}
		_, _ = p.StreamChat(t.Context(), tt.credential, hi(tt.model))
		if over.url != tt.stream {
			t.Errorf("%s: stream sent to %s, want %s", tt.model, over.url, tt.stream)
		}
	}
}

// Bodies in the dialect of the model's publisher are relayed byte for byte, but for what the host wants elsewhere.
func TestNative(t *testing.T) {
	for _, tt := range []struct{ model, dialect, body, whole, stream string }{
		{
			"claude-opus-4-6", "anthropic", `{"model":"mine","anthropic_version":"x","max_tokens":5,"messages":[],"top_k":4.0e1}`,
			`{"anthropic_version":"vertex-2023-10-16","stream":false,"max_tokens":5,"messages":[],"top_k":4.0e1}`,
			`{"anthropic_version":"vertex-2023-10-16","stream":true,"max_tokens":5,"messages":[],"top_k":4.0e1}`,
		},
		{"gemini-2.5-flash", "gemini", `{"model":"mine","contents":[],"labels":{"a":"b"}}`, `{"contents":[],"labels":{"a":"b"}}`, `{"contents":[],"labels":{"a":"b"}}`},
	} {
		over := &vendor{answer: `{}`}
		p := at(t, host+project, over)
		chat := &provider.Chat{Model: tt.model, Native: &provider.Native{
			Dialect: tt.dialect, Body: []byte(tt.body), Headers: map[string]string{"anthropic-beta": "b", "anthropic-version": "2023-06-01"},
		}}
		_, _ = p.Chat(t.Context(), provider.Credential{}, chat)
		if diff := cmp.Diff(tt.whole, over.last()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.model, diff)
		}
		if beta := over.header.Get("Anthropic-Beta"); over.header.Get("Anthropic-Version") != "" || (beta == "b") != (tt.dialect == "anthropic") {
			t.Errorf("%s: headers %v", tt.model, over.header)
		}
		_, _ = p.StreamChat(t.Context(), provider.Credential{}, chat)
		if diff := cmp.Diff(tt.stream, over.last()); diff != "" {
			t.Errorf("%s, streamed (-want +got):\n%s", tt.model, diff)
		}
	}
}

// Claude streams as at Anthropic.
func TestStream(t *testing.T) {
	over := &vendor{status: http.StatusOK, kind: "text/event-stream", answer: `event: message_start
data: {"type":"message_start","message":{"usage":{"input_tokens":3,"output_tokens":1}}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hello"}}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}

event: message_stop
data: {"type":"message_stop"}

`}
	stream, err := at(t, host+project, over).StreamChat(t.Context(), provider.Credential{}, hi("claude-opus-4-6"))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	var text strings.Builder
	var usage *provider.Usage
	for {
		event, err := stream.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString(event.Text)
		if event.Usage != nil {
			usage = event.Usage
		}
	}
	if text.String() != "hello" || usage == nil || usage.Input != 3 || usage.Output != 2 {
		t.Errorf("text %q, usage %+v", text.String(), usage)
	}
}

// Claude's tokens are counted at a path of their own, with the model in the body.
func TestCountTokens(t *testing.T) {
	over := &vendor{answer: `{"input_tokens":7}`}
	p := at(t, host+project, over)
	chat := &provider.Chat{Model: "claude-opus-4-6", Native: &provider.Native{Dialect: "anthropic", Body: []byte(`{"model":"mine","messages":[],"max_tokens":5}`)}}
	n, err := p.CountTokens(t.Context(), provider.Credential{}, chat)
	if err != nil || n != 7 || over.url != host+project+"/publishers/anthropic/models/count-tokens:rawPredict" || over.last() != `{"model":"claude-opus-4-6","anthropic_version":"vertex-2023-10-16","messages":[]}` {
		t.Errorf("%d, %v; %s to %s", n, err, over.last(), over.url)
	}
	chat.Model = "gemini-2.5-flash"
	if _, err := p.CountTokens(t.Context(), provider.Credential{}, chat); !providertest.ErrorOf(t, err).Unsupported {
		t.Errorf("Gemini: %v, want unsupported", err)
	}
}

// Errors of Claude come in Google's form or in Anthropic's.
func TestClaudesErrors(t *testing.T) {
	for body, want := range map[string]provider.Error{
		`{"error":{"code":429,"message":"Quota exceeded","status":"RESOURCE_EXHAUSTED"}}`:                                {Class: apierr.ClassRateLimit, Code: "RESOURCE_EXHAUSTED", Text: "Quota exceeded"},
		`[{"error":{"code":403,"message":"denied","status":"PERMISSION_DENIED"}}]`:                                       {Class: apierr.ClassAuth, Code: "PERMISSION_DENIED", Text: "denied"},
		`{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8 maximum"}}`: {Class: apierr.ClassContextOverflow, Code: "invalid_request_error", Text: "prompt is too long: 9 tokens > 8 maximum"},
	} {
		status := map[apierr.Class]int{
			apierr.ClassRateLimit: http.StatusTooManyRequests, apierr.ClassAuth: http.StatusForbidden, apierr.ClassContextOverflow: http.StatusBadRequest,
		}[want.Class]
		over := &vendor{status: status, kind: "application/json", answer: body}
		_, err := at(t, host+project, over).Chat(t.Context(), provider.Credential{}, hi("claude-opus-4-6"))
		if got := providertest.ErrorOf(t, err); got.Class != want.Class || got.Code != want.Code || got.Text != want.Text {
			t.Errorf("%s: %v, want %v", body, got, &want)
		}
	}
}

// Texts are embedded by the method of their model, as many at a time as it takes.
func TestEmbed(t *testing.T) {
	input := make([]string, 10)
	for i := range input {
		input[i] = fmt.Sprint(i)
	}
	for _, tt := range []struct {
		model, method, answer, first string
		inputs, calls                int
		tokens                       int64
	}{
		{
			"text-embedding-005", "predict", `{"predictions":[` + strings.Repeat(`{"embeddings":{"values":[1,2],"statistics":{"token_count":3}}},`, 7) + `{"embeddings":{"values":[1,2],"statistics":{"token_count":3}}}]}`,
			`{"instances":[{"content":"0"},{"content":"1"},{"content":"2"},{"content":"3"},{"content":"4"},{"content":"5"},{"content":"6"},{"content":"7"}],"parameters":{"outputDimensionality":2}}`,
			8, 1, 24,
		},
		{"gemini-embedding-001", "predict", `{"predictions":[{"embeddings":{"values":[1,2],"statistics":{"token_count":3}}}]}`, `{"instances":[{"content":"0"}],"parameters":{"outputDimensionality":2}}`, 2, 2, 6},
		{"gemini-embedding-2", "embedContent", `{"embedding":{"values":[1,2]},"usageMetadata":{"promptTokenCount":4}}`, `{"content":{"parts":[{"text":"0"}]},"embedContentConfig":{"outputDimensionality":2}}`, 3, 3, 12},
		{"gemini-embedding-2", "embedContent", `{"embedding":{"values":[1,2]}}`, `{"content":{"parts":[{"text":"0"}]},"embedContentConfig":{"outputDimensionality":2}}`, 1, 1, 0},
	} {
		over := &vendor{answer: tt.answer}
		made, err := at(t, host+project, over).Embed(t.Context(), provider.Credential{}, &provider.Embedding{Model: tt.model, Input: input[:tt.inputs], Dimensions: 2})
		if err != nil || len(made.Vectors) != tt.inputs || len(over.bodies) != tt.calls || over.url != host+project+"/publishers/google/models/"+tt.model+":"+tt.method {
			t.Errorf("%s: %+v, %v after %d calls to %s", tt.model, made, err, len(over.bodies), over.url)
			continue
		}
		if !strings.Contains(strings.Join(over.bodies, "\n"), tt.first) {
			t.Errorf("%s: sent %s, want %s", tt.model, over.bodies, tt.first)
		}
		if got := made.Usage; (got == nil) != (tt.tokens == 0) || got != nil && got.Input != tt.tokens {
			t.Errorf("%s: usage %+v, want %d tokens", tt.model, got, tt.tokens)
		}
	}
	for _, answer := range []string{`{}`, `{"predictions":[]}`, `{"predictions":[{"embeddings":{"values":["1"]}}]}`, `{"predictions":[{"embeddings":{"values":[1]}},{"embeddings":{"values":[1]}}]}`, `nothing`, `{"error":{"code":500,"message":"x"}}`} {
		if _, err := at(t, host+project, &vendor{answer: answer}).Embed(t.Context(), provider.Credential{}, &provider.Embedding{Model: "gemini-embedding-001", Input: []string{"a"}}); err == nil {
			t.Errorf("%s: no error", answer)
		}
	}
	providertest.RefusesTokens(t, at(t, host+project, &vendor{}))
}

func TestNewRefuses(t *testing.T) {
	for _, base := range []string{"", "/v1", host, host + "/v1/projects/acme", host + "/v1/projects/acme/locations", host + project + "/publishers/google", host + project + "?key=k"} {
		if _, err := vertex.New(provider.Settings{BaseURL: base}); err == nil {
			t.Errorf("%q is taken", base)
		}
	}
}
