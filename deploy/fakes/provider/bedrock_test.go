package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"switchyard.dev/deploy/fakes/fault"
)

// shown returns an answer's body as text. Messages of an event stream are read by AWS's own decoder: the headers and the
// payload of each, and of a chunk what is in it.
func shown(t *testing.T, resp *httptest.ResponseRecorder) string {
	t.Helper()
	if resp.Header().Get("Content-Type") != eventStream {
		return resp.Body.String()
	}
	var out strings.Builder
	for rest := bytes.NewReader(resp.Body.Bytes()); ; {
		m, err := eventstream.NewDecoder().Decode(rest, nil)
		if errors.Is(err, io.EOF) {
			return out.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, header := range m.Headers {
			fmt.Fprintf(&out, "%s: %s\n", header.Name, header.Value)
		}
		var chunk struct{ Bytes []byte }
		if err := json.Unmarshal(m.Payload, &chunk); err != nil {
			t.Error(err)
		}
		fmt.Fprintf(&out, "%s\n%s\n\n", m.Payload, chunk.Bytes)
	}
}

// The fake refuses what the vendor refuses, so that a client with a fault doesn't pass.
func TestBedrockRefuses(t *testing.T) {
	const (
		claude = "/model/anthropic.claude-opus-4-7"
		hello  = `{"role":"user","content":[{"text":"hello"}]}`
		use    = `{"role":"assistant","content":[{"toolUse":{"toolUseId":"a","name":"f","input":{}}}]}`
	)
	converse := func(messages string) string { return `{"messages":[` + messages + `]}` }
	tests := []struct {
		name, path, body string
		status           int
		exception, want  string
	}{
		{"an unknown operation", claude + "/sing", `{}`, 404, "ResourceNotFoundException", ""},
		{"no JSON", claude + "/converse", `{`, 400, "ValidationException", "Malformed"},
		{"no messages", claude + "/converse", `{}`, 400, "ValidationException", "messages field is empty"},
		{"two turns of one side", claude + "/converse", converse(hello + "," + hello), 400, "ValidationException", "alternate"},
		{"a blank text", claude + "/converse", converse(`{"role":"user","content":[{"text":""}]}`), 400, "ValidationException", "blank"},
		{"a block that is empty", claude + "/converse", converse(`{"role":"user","content":[{}]}`), 400, "ValidationException", "content block"},
		{"an image of another type", claude + "/converse", converse(`{"role":"user","content":[{"image":{"format":"tiff","source":{"bytes":"aGk="}}}]}`), 400, "ValidationException", "content block"},
		{"a document without a name", claude + "/converse", converse(`{"role":"user","content":[{"document":{"format":"pdf","source":{"bytes":"aGk="}}}]}`), 400, "ValidationException", "content block"},
		{"calls without tools", claude + "/converse", converse(hello + "," + use), 400, "ValidationException", "toolConfig"},
		{"forged thinking", claude + "/converse", converse(hello + `,{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"a","signature":"b"}}}]}`), 400, "ValidationException", "signature"},
		{"a bound of nothing", claude + "/converse", `{"messages":[` + hello + `],"inferenceConfig":{"maxTokens":0}}`, 400, "ValidationException", "maxTokens"},
		{"a version of Anthropic's", claude + "/invoke", `{"anthropic_version":"2023-06-01"}`, 400, "ValidationException", "anthropic_version"},
		{"a model in the body", claude + "/invoke", `{"anthropic_version":"bedrock-2023-05-31","model":"m"}`, 400, "ValidationException", "model: Extra"},
		{"a stream in the body", claude + "/invoke", `{"anthropic_version":"bedrock-2023-05-31","stream":false}`, 400, "ValidationException", "stream: Extra"},
		{"a stream of vectors", "/model/amazon.titan-embed-text-v2%3A0/invoke-with-response-stream", `{"inputText":"a"}`, 400, "ValidationException", "streaming"},
		{"no text to embed", "/model/amazon.titan-embed-text-v2%3A0/invoke", `{}`, 400, "ValidationException", "inputText"},
		{"a model that is none", "/model/m/invoke", `{}`, 404, "ResourceNotFoundException", ""},
		{"nothing to count", claude + "/count-tokens", `{}`, 400, "ValidationException", "required"},
		{"a scripted throttling", claude + "/converse", `{"throttled":1}`, 429, "ThrottlingException", "Too many requests"},
	}
	srv := New(fault.Script{Rules: []fault.Rule{{Match: fault.Match{Body: "throttled"}, Action: fault.Action{Status: 429}}}})
	for _, tt := range tests {
		rec := do(t, srv, request{http.MethodPost, tt.path, tt.body, bearer})
		if got := rec.Header().Get(errorType); rec.Code != tt.status || !strings.HasPrefix(got, tt.exception+":") || !strings.Contains(rec.Body.String(), tt.want) {
			t.Errorf("%s: %d, %s, %s", tt.name, rec.Code, got, rec.Body)
		}
	}
	for authorization, status := range map[string]int{"": 403, "Basic YTpi": 403, "Bearer ": 403, "Bearer key": 400, "AWS4-HMAC-SHA256 Credential=a": 400} {
		rec := do(t, srv, request{http.MethodPost, claude + "/converse", `{}`, map[string]string{"Authorization": authorization}})
		if rec.Code != status {
			t.Errorf("%q: %d, want %d", authorization, rec.Code, status)
		}
	}
}

// A model's name is one segment of the path, whatever is in it.
func TestBedrockARNs(t *testing.T) {
	srv := New(fault.Script{})
	path := "/model/arn%3Aaws%3Abedrock%3Aeu-west-1%3A1%3Ainference-profile%2Feu.anthropic.claude-opus-4-7/converse"
	for prefix, want := range map[string]string{"": "You said: hello", "/hostile/usage_huge": "999999999999"} {
		rec := do(t, srv, request{http.MethodPost, prefix + path, `{"messages":[{"role":"user","content":[{"text":"hello"}]}]}`, bearer})
		if rec.Code != http.StatusOK || !strings.Contains(rec.Body.String(), want) {
			t.Errorf("%s: %d %s", prefix, rec.Code, rec.Body)
		}
	}
}
