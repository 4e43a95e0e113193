package api_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/proxy"
)

const (
	openAI    = "/product/v1/ai/openai/v1"
	anthropic = "/product/v1/ai/anthropic/v1"
	gemini    = "/product/v1/ai/gemini/v1beta"

	geminiStable = "/product/v1/ai/gemini/v1" // What version 3 of @google/genai calls.
)

// send makes a request with headers (name, value, …) and no key.
func (x *world) send(t *testing.T, method, path string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader("{}"))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	x.ServeHTTP(w, r)
	return w
}

// open makes a key and gives its text.
func (x *world) open(t *testing.T, product string, permission apikey.Permission) string {
	t.Helper()
	_, text := x.key(t, product, permission)
	return text
}

// Where the SDKs of other APIs call, what reaches the gateway, and what is billed.
func TestDialectRoutes(t *testing.T) {
	for _, tt := range []struct {
		method, path, target, dialect string
		counted                       []string
	}{
		{"POST", openAI + "/chat/completions", "http://gateway/v1/chat/completions", "openai", []string{"llm_requests"}},
		{"POST", openAI + "/embeddings", "http://gateway/v1/embeddings", "openai", []string{"llm_requests"}},
		{"POST", openAI + "/responses", "http://gateway/v1/responses", "openai", []string{"llm_requests"}},
		{"GET", openAI + "/responses/resp_1", "http://gateway/v1/responses/resp_1", "openai", nil},
		{"GET", openAI + "/responses/resp%2F1%3Fx", "http://gateway/v1/responses/resp%2F1%3Fx", "openai", nil},
		{"GET", openAI + "/responses/resp_1/input_items?order=asc&limit=3&key=x&organization_id=y", "http://gateway/v1/responses/resp_1/input_items?limit=3&order=asc", "openai", nil},
		{"DELETE", openAI + "/responses/resp_1", "http://gateway/v1/responses/resp_1", "openai", nil},
		{"POST", openAI + "/responses/resp_1/cancel", "http://gateway/v1/responses/resp_1/cancel", "openai", nil},
		{"GET", openAI + "/models", "http://gateway/v1/models", "openai", nil},
		{"GET", openAI + "/models/gpt-4o", "http://gateway/v1/models/by-id/gpt-4o", "openai", nil},
		{"GET", openAI + "/models/first/ok", "http://gateway/v1/models/by-id/first%2Fok", "openai", nil},
		{"GET", openAI + "/models/first%2Fok", "http://gateway/v1/models/by-id/first%2Fok", "openai", nil},
		{"GET", openAI + "/models/a%3Fb%25", "http://gateway/v1/models/by-id/a%3Fb%25", "openai", nil},
		{"GET", openAI + "/models/liveness", "http://gateway/v1/models/by-id/liveness", "openai", nil},
		{"POST", anthropic + "/messages", "http://gateway/v1/messages", "anthropic", []string{"llm_requests"}},
		{"POST", anthropic + "/messages?beta=true", "http://gateway/v1/messages", "anthropic", []string{"llm_requests"}},
		{"POST", anthropic + "/messages/count_tokens", "http://gateway/v1/messages/count_tokens", "anthropic", nil},
		{"GET", anthropic + "/models", "http://gateway/v1/models", "anthropic", nil},
		{"POST", gemini + "/models/m:generateContent", "http://gateway/v1beta/models/m:generateContent", "gemini", []string{"llm_requests"}},
		{"POST", gemini + "/models/a/b:8b:streamGenerateContent?alt=sse&key=x&y=z", "http://gateway/v1beta/models/a%2Fb:8b:streamGenerateContent?alt=sse", "gemini", []string{"llm_requests"}},
		{"POST", gemini + "/models/a%2Fb:embedContent", "http://gateway/v1beta/models/a%2Fb:embedContent", "gemini", []string{"llm_requests"}},
		{"POST", gemini + "/models/m:batchEmbedContents", "http://gateway/v1beta/models/m:batchEmbedContents", "gemini", []string{"llm_requests"}},
		{"POST", gemini + "/models/m:countTokens", "http://gateway/v1beta/models/m:countTokens", "gemini", nil},
		{"GET", gemini + "/models?pageSize=5", "http://gateway/v1beta/models", "gemini", nil},
		{"POST", geminiStable + "/models/a/b:streamGenerateContent?alt=sse", "http://gateway/v1beta/models/a%2Fb:streamGenerateContent?alt=sse", "gemini", []string{"llm_requests"}},
		{"POST", geminiStable + "/models/m:embedContent", "http://gateway/v1beta/models/m:embedContent", "gemini", []string{"llm_requests"}},
		{"GET", geminiStable + "/models", "http://gateway/v1beta/models", "gemini", nil},
		{"GET", geminiStable + "/models/m", "http://gateway/v1beta/models/m", "gemini", nil},
		{"GET", gemini + "/models/a/b:c", "http://gateway/v1beta/models/a%2Fb:c", "gemini", nil},
		{"POST", "/product/v1/ai/chat", "http://gateway/v1/llm/chat", "", []string{"llm_requests"}},
	} {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			x := newWorld(t)
			x.relay = func(w http.ResponseWriter, call proxy.Call) error {
				_, err := io.WriteString(w, "{}")
				call.Succeeded(true)
				return err
			}
			w := x.send(t, tt.method, tt.path, "Authorization", "Bearer "+x.open(t, "ai", apikey.Read))
			if w.Code != 200 || len(x.calls) != 1 {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			if got := x.calls[0]; got.Target.String() != tt.target || got.Dialect != tt.dialect {
				t.Errorf("went to %s in %q, want %s in %q", got.Target, got.Dialect, tt.target, tt.dialect)
			}
			if diff := cmp.Diff(tt.counted, x.counted); diff != "" {
				t.Errorf("counted (-want +got):\n%s", diff)
			}
		})
	}
}

// What the edge refuses itself is in the words of the SDK that called; where it
// puts the key is good there and nowhere else.
func TestDialectErrors(t *testing.T) {
	x := newWorld(t)
	key, other := x.open(t, "ai", apikey.Read), x.open(t, "notifications", apikey.Write)
	for _, tt := range []struct {
		name, method, path string
		header             []string
		status             int
		want               string
	}{
		{"no key", "POST", openAI + "/chat/completions", nil, 401, `{"error":{"message":"`},
		{"no key", "POST", anthropic + "/messages", nil, 401, `{"type":"error","error":{"type":"authentication_error"`},
		{"another product", "POST", openAI + "/chat/completions", []string{"Authorization", "Bearer " + other}, 403, `"type":"permission_error"`},
		{"another product", "POST", anthropic + "/messages", []string{"X-Api-Key", other}, 403, `{"type":"error","error":{"type":"permission_error"`},
		{"no such path", "POST", openAI + "/nothing", []string{"Authorization", "Bearer " + key}, 404, `{"error":{"message":"`},
		{"a path that leads elsewhere", "GET", openAI + "/responses/%2e%2e", []string{"Authorization", "Bearer " + key}, 404, `{"error":{"message":"`},
		{"a path that leads elsewhere", "GET", openAI + "/responses/x%2F..%2Fy", []string{"Authorization", "Bearer " + key}, 404, `{"error":{"message":"`},
		{"no key", "POST", gemini + "/models/m:generateContent", nil, 401, `{"error":{"code":401,"message":`},
		{"the key of Google's SDK", "POST", gemini + "/models/m:generateContent", []string{"X-Goog-Api-Key", key}, 200, `hello`},
		{"the key in the URL", "POST", gemini + "/models/m:generateContent?key=" + key, nil, 200, `hello`},
		{"the key in the URL elsewhere", "POST", openAI + "/chat/completions?key=" + key, nil, 401, `invalid_api_key`},
		{"another product", "POST", gemini + "/models/m:generateContent", []string{"X-Goog-Api-Key", other}, 403, `"status":"PERMISSION_DENIED"`},
		{"no verb", "POST", gemini + "/models/m", []string{"X-Goog-Api-Key", key}, 404, `"status":"NOT_FOUND"`},
		{"another verb", "POST", gemini + "/models/m:predict", []string{"X-Goog-Api-Key", key}, 404, `"status":"NOT_FOUND"`},
		{"no such path", "POST", anthropic + "/messages/nothing", []string{"X-Api-Key", key}, 404, `{"type":"error","error":{"type":"not_found_error"`},
		{"another method", "GET", openAI + "/chat/completions", []string{"Authorization", "Bearer " + key}, 405, `"type":"invalid_request_error"`},
		{"the key of the other SDK", "POST", openAI + "/chat/completions", []string{"X-Api-Key", key}, 401, `"code":"invalid_api_key"`},
		{"the key of an SDK", "POST", "/product/v1/ai/chat", []string{"X-Api-Key", key}, 401, `{"error":"invalid_key"`},
		{"the key of an SDK", "POST", anthropic + "/messages", []string{"X-Api-Key", key}, 200, `hello`},
		{"the key beside a token", "POST", anthropic + "/messages", []string{"X-Api-Key", key, "Authorization", "Bearer none"}, 401, `authentication_error`},
	} {
		w := x.send(t, tt.method, tt.path, tt.header...)
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) {
			t.Errorf("%s: %s %s: %d %s, want %d %s", tt.name, tt.method, tt.path, w.Code, w.Body, tt.status, tt.want)
		}
		if id := w.Header().Get("Request-Id"); strings.HasPrefix(tt.path, anthropic) && (id == "" || id != w.Header().Get("X-Request-Id")) {
			t.Errorf("%s: request-id %q", tt.path, id)
		}
	}
}

// A path that is not in its clean form is nowhere: no redirect, no guess.
func TestUncleanPaths(t *testing.T) {
	x := newWorld(t)
	key := "Bearer " + x.open(t, "ai", apikey.Read)
	for _, path := range []string{
		"//product/v1/ai/chat", "/product//v1/ai/chat", "/product/v1/ai/../ai/chat", "/product/v1/./ai/chat", "/product/v1/ai/chat/",
		"/product/v1/ai/chat/..", "/product/v1/ai/%2e%2e/ai/chat", openAI + "/models/..", openAI + "/models/%2e%2e%2fcatalog",
		openAI + "/models/a/../../../admin", openAI + "/models/..%2f..%2fadmin", "/product/v1/_meta/../_meta/catalog",
	} {
		w := x.send(t, "POST", path, "Authorization", key)
		if w.Code != 404 || w.Header().Get("Location") != "" || !strings.Contains(w.Body.String(), `"not_found"`) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if len(x.calls) > 0 {
		t.Errorf("%d of them reached a service: %v", len(x.calls), x.calls[0].Target)
	}
}

// HEAD asks for what GET would say; the customers' routes don't know.
func TestHead(t *testing.T) {
	x := newWorld(t)
	key := "Bearer " + x.open(t, "ai", apikey.Read)
	for path, allow := range map[string]string{"/product/v1/ai/chat": "POST", openAI + "/models": "GET", anthropic + "/messages": "POST"} {
		w := x.send(t, "HEAD", path, "Authorization", key)
		if w.Code != 405 || w.Header().Get("Allow") != allow || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d, Allow %q, %s", path, w.Code, w.Header().Get("Allow"), w.Header().Get("Content-Type"))
		}
	}
	if w := x.send(t, "HEAD", "/product/v1/_meta/catalog"); w.Code != 200 {
		t.Errorf("catalog: %d", w.Code)
	}
	if len(x.calls) > 0 {
		t.Error("HEAD reached a service")
	}
}
