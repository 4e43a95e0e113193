package api_test

import (
	"net/http"
	"strings"
	"testing"
)

// A path of Azure's has the model and the key where Azure's SDK puts them; everything else is as on OpenAI's paths.
func TestAzurePaths(t *testing.T) {
	b := relayBench(t)
	const deployments = "/openai/deployments/"
	kind, file := form(t, "file")
	for name, c := range map[string]struct{ path, kind, body, want string }{
		"chat":               {deployments + "sandbox/chat/completions?api-version=2024-10-21", "", `{"messages":[{"role":"user","content":"hello"}]}`, `"content":"sandbox: hello"`},
		"the path's model":   {deployments + "sandbox/chat/completions?api-version=2024-10-21", "", `{"model":"ghost","messages":[{"role":"user","content":"hello"}]}`, `"model":"sandbox"`},
		"embeddings":         {deployments + "sandbox/embeddings?api-version=x", "", `{"input":"hello"}`, `"object":"list"`},
		"images":             {deployments + "sandbox/images/generations", "", `{"prompt":"a cat"}`, `"b64_json"`},
		"images with fields": {deployments + "painter/images/generations", "", `{"prompt":"a cat","background":"auto"}`, `"b64_json":"AAAA"`},
		"speech":             {deployments + "voice/audio/speech", "", `{"input":"hello","voice":"alloy"}`, "sound"},
		"a form":             {deployments + "ear/audio/transcriptions?api-version=x", kind, file, `"text":"hello"`},
		"responses":          {"/openai/responses?api-version=x", "", `{"model":"sandbox","input":"hello"}`, `"object":"response"`},
	} {
		t.Run(name, func(t *testing.T) {
			got := b.post(t, c.path, c.body, "Content-Type", c.kind, "Authorization", "", "Api-Key", "svc")
			if got.status != http.StatusOK || !strings.Contains(got.body, c.want) {
				t.Errorf("%d %.300s, want %q", got.status, got.body, c.want)
			}
		})
	}
	refused := b.post(t, deployments+"ghost/chat/completions", `{"messages":[{"role":"user","content":"hello"}]}`, "Authorization", "", "Api-Key", "svc")
	if refused.status != http.StatusNotFound || !strings.Contains(refused.body, `"type":"invalid_request_error"`) || refused.header.Get("Apim-Request-Id") == "" {
		t.Errorf("%d %s, want 404 in OpenAI's words with Azure's request id", refused.status, refused.body)
	}
	if denied := b.post(t, deployments+"sandbox/embeddings", `{"input":"hello"}`, "Authorization", "", "Api-Key", "wrong"); denied.status != http.StatusUnauthorized {
		t.Errorf("%d with a wrong key, want 401", denied.status)
	}
}
