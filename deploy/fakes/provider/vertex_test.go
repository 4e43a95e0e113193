package provider

import (
	"net/http"
	"strings"
	"testing"

	"switchyard.dev/deploy/fakes/fault"
)

// Vertex AI answers for each publisher in its own form, and refuses what the real one refuses.
func TestVertex(t *testing.T) {
	const (
		base   = "/v1/projects/acme/locations/global"
		gemini = base + "/publishers/google/models/gemini-2.5-flash"
		claude = base + "/publishers/anthropic/models/claude-opus-4-6"
		hi     = `"messages":[{"role":"user","content":"hello"}],"max_tokens":5`
	)
	srv := New(fault.Script{})
	for _, tt := range []struct {
		name, path, body string
		header           map[string]string
		status           int
		want             string
	}{
		{"Gemini", gemini + ":generateContent", `{"contents":[{"role":"user","parts":[{"text":"hello"}]}]}`, bearer, 200, `You said: hello`},
		{"Gemini, streamed", gemini + ":streamGenerateContent?alt=sse", `{"contents":[{"role":"user","parts":[{"text":"hello"}]}]}`, bearer, 200, `"finishReason":"STOP"`},
		{"without a token", gemini + ":generateContent", `{}`, goog, 401, `invalid authentication`},
		{"Claude", claude + ":rawPredict", `{"anthropic_version":"vertex-2023-10-16",` + hi + `}`, bearer, 200, `"model":"claude-opus-4-6"`},
		{"Claude, streamed", claude + ":streamRawPredict", `{"anthropic_version":"vertex-2023-10-16","stream":true,` + hi + `}`, bearer, 200, `event: message_stop`},
		{"without a version", claude + ":rawPredict", `{` + hi + `}`, bearer, 400, `anthropic_version`},
		{"with a model", claude + ":rawPredict", `{"anthropic_version":"vertex-2023-10-16","model":"m",` + hi + `}`, bearer, 400, `model: Extra inputs`},
		{"streamed by the other method", claude + ":rawPredict", `{"anthropic_version":"vertex-2023-10-16","stream":true,` + hi + `}`, bearer, 400, `does not agree`},
		{"counted", base + "/publishers/anthropic/models/count-tokens:rawPredict", `{"anthropic_version":"vertex-2023-10-16","model":"claude-opus-4-6",` + hi + `}`, bearer, 200, `{"input_tokens":`},
		{"another publisher", base + "/publishers/meta/models/m:rawPredict", `{}`, bearer, 404, `not found`},
		{"another publisher's model", base + "/endpoints/openapi/chat/completions", `{"model":"meta/llama","messages":[{"role":"user","content":"hello"}]}`, bearer, 200, `You said: hello`},
		{"embeddings", base + "/publishers/google/models/text-embedding-005:predict", `{"instances":[{"content":"a"},{"content":"b"}],"parameters":{"outputDimensionality":2}}`, bearer, 200, `"token_count":1`},
		{"too many texts", base + "/publishers/google/models/gemini-embedding-001:predict", `{"instances":[{"content":"a"},{"content":"b"}]}`, bearer, 400, `one instance`},
	} {
		answer := do(t, srv, request{http.MethodPost, tt.path, tt.body, tt.header})
		if answer.Code != tt.status || !strings.Contains(answer.Body.String(), tt.want) {
			t.Errorf("%s: %d %s, want %d with %s", tt.name, answer.Code, answer.Body, tt.status, tt.want)
		}
	}
}
