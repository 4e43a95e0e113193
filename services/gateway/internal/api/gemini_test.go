package api_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/api"
)

// contents is the least body of Google's form.
const (
	models   = "/v1beta/models/"
	contents = `"contents":[{"role":"user","parts":[{"text":"hi"}]}]`
)

const geminiPolicy = `
default_model: sandbox/sandbox
providers:
  - {name: sandbox, dialect: sandbox, models: [sandbox, sandbox-reasoning]}
  - {name: first, dialect: openai, base_url: %[1]s, key_file: first.key, models: [ok, tools, cut, down]}
  - {name: second, dialect: anthropic, base_url: %[1]s, key_file: first.key, models: [spare]}
  - {name: google, dialect: gemini, base_url: %[1]s, key_file: first.key, models: [gemini-3-flash]}
`

// The same form over every dialect, whole and streamed, and one row each.
func TestGemini(t *testing.T) {
	b := setupWith(t, geminiPolicy)
	const sse = ":streamGenerateContent?alt=sse"
	for _, tt := range []struct {
		name, path, body string
		want             []string
	}{
		{"over the sandbox", "sandbox:generateContent", `{` + contents + `}`, []string{`"text":"sandbox: hi"`, `"finishReason":"STOP"`, `"modelVersion":"sandbox"`, `"promptTokenCount":1`}},
		{"over openai", "first/ok:generateContent", `{` + contents + `}`, []string{`"text":"hello <there> &"`, `"cachedContentTokenCount":4`, `"modelVersion":"first/ok"`}},
		{"over openai, escaped", "first%2Fok:generateContent", `{` + contents + `}`, []string{`"modelVersion":"first/ok"`}},
		{"over anthropic", "spare:generateContent", `{` + contents + `}`, []string{`"text":"from spare"`}},
		{"reasoning", "sandbox-reasoning:generateContent", `{"generationConfig":{"thinkingConfig":{"includeThoughts":true}},` + contents + `}`, []string{`"thought":true`, `The question has 2 bytes.`}},
		{"calls", "first/tools:generateContent", `{` + contents + `}`, []string{`"functionCall":{"id":"c1","name":"f","args":{"a":1}},"thoughtSignature":"`}},
		{"over the sandbox, streamed", "sandbox" + sse, `{` + contents + `}`, []string{`data: {"candidates":[{"content":{"parts":[{"text":"sandbox: "}]`, "\"usageMetadata\":{", "\r\n\r\n"}},
		{"over openai, streamed", "first/ok" + sse, `{` + contents + `}`, []string{`"text":"hello"`, `"candidatesTokenCount":2`}},
		{"over anthropic, streamed", "spare" + sse, `{` + contents + `}`, []string{`"text":"from spare"`}},
		{"calls, streamed", "first/tools" + sse, `{` + contents + `}`, []string{`"functionCall":{"id":"c1","name":"f","args":{"a":1}}`}},
		{"an array", "sandbox:streamGenerateContent", `{` + contents + `}`, []string{`[{"candidates":`, "]\n"}},
		{"one embedding", "sandbox:embedContent", `{"content":{"parts":[{"text":"hi"}]}}`, []string{`{"embedding":{"values":[`, `"usageMetadata":{"promptTokenCount":`}},
		{"embeddings", "sandbox:batchEmbedContents", `{"requests":[{"model":"models/sandbox","content":{"parts":[{"text":"hi"}]}},{"content":{"parts":[{"text":"ho"}]}}]}`, []string{`{"embeddings":[{"values":[`, `]},{"values":[`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := b.rows(t, "true")
			got := b.say(t, "POST", models+tt.path, tt.body)
			for _, want := range tt.want {
				if got.status != 200 || !strings.Contains(got.body, want) {
					t.Errorf("%d, want %s: %s", got.status, want, got.body)
				}
			}
			if n := b.rows(t, "true") - before; n != 1 {
				t.Errorf("%d rows, want 1", n)
			}
			kind := "application/json"
			if strings.HasSuffix(tt.path, sse) {
				kind = "text/event-stream"
			}
			if got.header.Get("X-Switchyard-Provider") == "" || got.header.Get("Content-Type") != kind {
				t.Errorf("provider %q, type %q", got.header.Get("X-Switchyard-Provider"), got.header.Get("Content-Type"))
			}
			if kind == "application/json" && !gjson.Valid(got.body) {
				t.Errorf("no JSON: %s", got.body)
			}
		})
	}
}

// generates makes the vendor answer in Google's form: one whole answer, or a stream.
func (b *bench) generates(key *string, chunks ...string) {
	b.vendor.mu.Lock()
	defer b.vendor.mu.Unlock()
	b.vendor.fails = func(w http.ResponseWriter, r *http.Request) {
		*key = r.URL.String() + " " + r.Header.Get("X-Goog-Api-Key")
		if len(chunks) == 1 {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, chunks[0])
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, chunk := range chunks {
			_, _ = fmt.Fprintf(w, "data: %s\r\n\r\n", chunk)
		}
	}
}

// A vendor of the dialect gets the body as it came, and its answer is relayed.
func TestGeminiRelayed(t *testing.T) {
	b := setupWith(t, geminiPolicy)
	var asked string
	b.generates(&asked, `{"candidates":[{"content":{"parts":[{"text":"found","thoughtSignature":"QUJD"}],"role":"model"},"finishReason":"STOP","groundingMetadata":{"a": 1}}],"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":2},"modelVersion":"gemini-3-flash-001"}`)
	body := `{"tools":[{"googleSearch":{}}],"safetySettings":[{"threshold":"OFF"}],"x_new":{"n":1.50},` + contents + `}`
	got := b.say(t, "POST", models+"gemini-3-flash:generateContent?key=svc&$alt=json", body, "Authorization", "")
	for _, want := range []string{`"modelVersion":"gemini-3-flash"`, `"groundingMetadata":{"a": 1}`, `"thoughtSignature":"QUJD"`} {
		if got.status != 200 || !strings.Contains(got.body, want) {
			t.Errorf("%d, want %s: %s", got.status, want, got.body)
		}
	}
	if ignored := got.header.Get("X-Switchyard-Ignored"); ignored != "" {
		t.Errorf("ignored %q, want nothing", ignored)
	}
	if sent := b.vendor.last(); sent != body {
		t.Errorf("the vendor got %s", sent)
	}
	if want := "/v1beta/models/gemini-3-flash:generateContent " + canary; asked != want {
		t.Errorf("the vendor was asked %s, want %s", asked, want)
	}
	b.generates(&asked, `{"candidates":[{"content":{"parts":[{"text":"fo"}]}}],"modelVersion":"x","y":1}`,
		`{"candidates":[{"content":{"parts":[{"text":"und"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":2},"modelVersion":"x"}`)
	got = b.say(t, "POST", models+"gemini-3-flash:streamGenerateContent?alt=sse", `{`+contents+`}`, "X-Goog-Api-Key", "svc", "Authorization", "")
	want := "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"fo\"}]}}],\"modelVersion\":\"gemini-3-flash\",\"y\":1}\r\n\r\n"
	if got.status != 200 || !strings.HasPrefix(got.body, want) || !strings.HasSuffix(got.body, "\"modelVersion\":\"gemini-3-flash\"}\r\n\r\n") {
		t.Errorf("%d %q, want %q and more", got.status, got.body, want)
	}
}

// What others don't have is named; what changes the answer is refused.
func TestGeminiElsewhere(t *testing.T) {
	b := setupWith(t, geminiPolicy)
	got := b.say(t, "POST", models+"first/ok:generateContent", `{"safetySettings":[{"category":"X"}],"tools":[{"googleSearch":{}}],"generationConfig":{"topK":3},`+contents+`}`)
	if want := "generationConfig.topK, tools.googleSearch, safetySettings"; got.status != 200 || got.header.Get("X-Switchyard-Ignored") != want {
		t.Errorf("%d, ignored %q, want %q", got.status, got.header.Get("X-Switchyard-Ignored"), want)
	}
	got = b.say(t, "POST", models+"sandbox:embedContent", `{"taskType":"RETRIEVAL_QUERY","content":{"parts":[{"text":"hi"}]}}`)
	if got.status != 200 || got.header.Get("X-Switchyard-Ignored") != "taskType" {
		t.Errorf("%d, ignored %q, want taskType", got.status, got.header.Get("X-Switchyard-Ignored"))
	}
	for _, tt := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
		want                     string
	}{
		{"several candidates", "POST", "first/ok:generateContent", `{"switchyard":{"allow_substitution":false},"generationConfig":{"candidateCount":2},` + contents + `}`, nil, 400, "generationConfig.candidateCount"},
		{"a field", "POST", "first/ok:generateContent", `{"contents":1}`, nil, 400, `"fieldViolations":[{"field":"contents"`},
		{"no key", "POST", "first/ok:generateContent", `{` + contents + `}`, []string{"Authorization", ""}, 401, `"status":"UNAUTHENTICATED"`},
		{"another key", "POST", "first/ok:generateContent?key=secret-key", `{` + contents + `}`, []string{"Authorization", ""}, 401, `"status":"UNAUTHENTICATED"`},
		{"another method", "POST", "first/ok:predict", `{}`, nil, 405, `"error":{"code":405`},
		{"no such model", "GET", "nothing", ``, nil, 404, `"status":"NOT_FOUND"`},
		{"no such model to ask", "POST", "no-such-model:generateContent", `{` + contents + `}`, nil, 404, `"status":"NOT_FOUND"`},
		{"another form", "POST", "sandbox:streamGenerateContent?alt=media", `{` + contents + `}`, nil, 400, `alt: must be sse or json`},
		{"a batch of one", "POST", "sandbox:embedContent", `{"requests":[{"content":{"parts":[{"text":"hi"}]}}]}`, nil, 400, `requests: belongs to batchEmbedContents`},
		{"in a stream", "POST", "first/cut:streamGenerateContent?alt=sse", `{"switchyard":{"allow_substitution":false},` + contents + `}`, nil, 200, "\r\n\r\ndata: {\"error\":{\"code\":50"},
		{"in an array", "POST", "first/cut:streamGenerateContent", `{"switchyard":{"allow_substitution":false},` + contents + `}`, nil, 200, ",\r\n{\"error\":{\"code\":50"},
		{"a count", "POST", "sandbox:countTokens", `{"generateContentRequest":{"model":"models/sandbox",` + contents + `}}`, nil, 200, `{"totalTokens":1}`},
		{"a model", "GET", "first/ok", ``, nil, 200, `{"name":"models/first/ok"`},
		{"models", "GET", "", ``, nil, 200, `{"models":[{"name":"models/`},
	} {
		path := strings.TrimSuffix(models+tt.path, "/")
		got := b.say(t, tt.method, path, tt.body, tt.header...)
		if got.status != tt.status || !strings.Contains(got.body, tt.want) || strings.Contains(got.body, "secret-key") {
			t.Errorf("%s: %d %s, want %d with %s", tt.name, got.status, got.body, tt.status, tt.want)
		}
	}
}

// DialectOf recognizes Google's dialect by the paths of its face, by the dialect that the edge names, and on shared
// paths by the headers of Google's SDKs.
func TestGeminiDialect(t *testing.T) {
	for _, tt := range []struct {
		method, path, header, want string
	}{
		{"GET", "/v1beta/models", "", "gemini"},
		{"POST", "/v1beta/models/a:generateContent", "", "gemini"},
		{"GET", "/v1beta/modelsx", "", ""},
		{"POST", "/v1/models/a:generateContent", "", "gemini"},
		{"POST", "/v1/models/a%2Fb:countTokens", "", "gemini"},
		{"POST", "/v1/models/registry/m/deprecate", "", ""},
		{"GET", "/v1/models/a", "X-Goog-Api-Key", "gemini"},
		{"GET", "/v1/models", "X-Goog-Api-Client", "gemini"},
		{"GET", "/v1/models", "", ""},
		{"GET", "/v1/models/catalog", "", ""},
	} {
		r, err := http.NewRequestWithContext(t.Context(), tt.method, tt.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if tt.header != "" {
			r.Header.Set(tt.header, "x")
		}
		if got := api.DialectOf(r).Name; got != tt.want {
			t.Errorf("%s %s with header %q is %q, want %q", tt.method, tt.path, tt.header, got, tt.want)
		}
	}
}

// Version 3 of @google/genai calls /v1 where its earlier versions call /v1beta.
func TestGeminiStablePaths(t *testing.T) {
	b := setupWith(t, geminiPolicy)
	for _, tt := range []struct{ method, name, body, want string }{
		{"POST", "/sandbox:generateContent", `{` + contents + `}`, `"finishReason":"STOP"`},
		{"POST", "/sandbox:streamGenerateContent?alt=sse", `{` + contents + `}`, `"finishReason":"STOP"`},
		{"POST", "/sandbox:countTokens", `{` + contents + `}`, `{"totalTokens":`},
		{"POST", "/sandbox:embedContent", `{"content":{"parts":[{"text":"hi"}]}}`, `"values":[`},
		{"POST", "/sandbox:batchEmbedContents", `{"requests":[{"content":{"parts":[{"text":"hi"}]}}]}`, `"values":[`},
		{"GET", "", "", `{"models":[{"name":"models/`},
		{"GET", "/first/ok", "", `{"name":"models/first/ok"`},
	} {
		got := b.say(t, tt.method, "/v1/models"+tt.name, tt.body, "X-Goog-Api-Client", "google-genai-sdk/3.3.0")
		if got.status != http.StatusOK || !strings.Contains(got.body, tt.want) {
			t.Errorf("%s /v1/models%s: %d %s, want 200 with %s", tt.method, tt.name, got.status, got.body, tt.want)
		}
	}
	missing := b.say(t, "POST", "/v1/models/no-such-model:generateContent", `{`+contents+`}`)
	if missing.status != http.StatusNotFound || !strings.Contains(missing.body, `"status":"NOT_FOUND"`) {
		t.Errorf("a model that is not there: %d %s, want 404 in Google's form", missing.status, missing.body)
	}
}
