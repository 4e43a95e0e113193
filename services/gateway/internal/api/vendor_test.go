package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/openai"
)

// brittle is a provider whose adapter has a bug: it panics at the model "panic", with the key in the panic value, as a
// dumped request would have it.
type brittle struct{ *openai.Provider }

func (b brittle) Chat(ctx context.Context, c provider.Credential, m *provider.Chat) (*provider.Answer, error) {
	if m.Model == "panic" {
		panic("the adapter's bug with " + c.Key.Reveal())
	}
	return b.Provider.Chat(ctx, c, m)
}

func (b brittle) StreamChat(ctx context.Context, c provider.Credential, m *provider.Chat) (provider.Stream, error) {
	if m.Model == "panic" {
		panic("the adapter's bug with " + c.Key.Reveal())
	}
	return b.Provider.StreamChat(ctx, c, m)
}

// vendor is a fake of both dialects; the model selects its behavior.
type vendor struct {
	*httptest.Server

	mu       sync.Mutex
	requests []string
	keys     []string      // what each request was authenticated with
	reached  chan struct{} // "endless", "endless-call" or "silent" has sent everything
	left     chan struct{} // and its caller left
	// fails handles every request instead; nil for none.
	fails http.HandlerFunc
}

func newVendor(tb testing.TB) *vendor {
	tb.Helper()
	v := &vendor{reached: make(chan struct{}, 64), left: make(chan struct{}, 1)}
	v.Server = httptest.NewServer(http.HandlerFunc(v.serve))
	tb.Cleanup(v.Close)
	return v
}

func (v *vendor) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var request struct {
		Model  string `json:"model"`
		Stream bool   `json:"stream"`
	}
	_ = json.Unmarshal(body, &request)
	w.Header().Set("X-Request-Id", vendorID(request.Model))
	v.mu.Lock()
	v.requests = append(v.requests, string(body))
	v.keys = append(v.keys, r.Header.Get("Authorization")+r.Header.Get("X-Api-Key"))
	fails := v.fails
	v.mu.Unlock()
	if fails != nil {
		r.Body = io.NopCloser(bytes.NewReader(body))
		fails(w, r)
		return
	}
	if media(w, r, body) {
		return
	}
	say := func(status int, text string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
	stream := func(chunks ...string) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, chunk := range chunks {
			_, _ = io.WriteString(w, "data: "+chunk+"\n\n")
			_ = http.NewResponseController(w).Flush()
		}
	}
	const hello = `{"choices":[{"delta":{"content":"hello"}}]}`
	const finish = `{"choices":[{"delta":{},"finish_reason":"stop"}]}`
	switch model := request.Model; {
	case model == "spare" && request.Stream:
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"type":"message_start","message":{"usage":{"input_tokens":4,"output_tokens":1}}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"from spare"}}

data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}

data: {"type":"message_stop"}

`)
	case model == "spare":
		say(200, `{"type":"message","content":[{"type":"text","text":"from spare"}],"stop_reason":"end_turn","usage":{"input_tokens":4,"output_tokens":2}}`)
	case model == "down":
		say(500, `{"error":{"message":"down; you sent `+r.Header.Get("Authorization")+`","type":"server_error"}}`)
	case model == "long":
		say(400, `{"error":{"message":"too long","type":"invalid_request_error","code":"context_length_exceeded"}}`)
	case model == "busy":
		w.Header().Set("Retry-After", "9")
		say(429, `{"error":{"message":"slow down","type":"rate_limit_error"}}`)
	case model == "late-error":
		stream(`{"choices":[{"delta":{"role":"assistant"}}]}`, `{"error":{"message":"overloaded","type":"server_error"}}`)
	case model == "cut":
		stream(hello, `{"error":{"message":"gave up on `+r.Header.Get("Authorization")+`","type":"server_error"}}`)
	case model == "endless", model == "endless-call", model == "silent":
		switch model {
		case "endless":
			stream(hello)
		case "endless-call":
			stream(`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":""}}]}}]}`,
				`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}}]}}]}`)
		}
		v.reached <- struct{}{}
		<-r.Context().Done()
		v.left <- struct{}{}
	case model == "tools" && request.Stream:
		stream(`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":""}}]}}]}`,
			`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}}]}}]}`,
			`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}}]}`,
			`{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`, `{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2}}`, "[DONE]")
	case model == "tools":
		say(200, `{"choices":[{"message":{"content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"},"extra_content":{"google":{"thought_signature":"s"}}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":10,"completion_tokens":2}}`)
	case request.Stream:
		stream(hello, `{"choices":[{"delta":{"content":" <there> &"}}]}`, finish,
			`{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2}}`, "[DONE]")
	default:
		say(200, `{"choices":[{"message":{"content":"hello <there> &"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}`)
	}
}

// vendorID returns the vendor's id of a request for a model.
func vendorID(model string) string { return "vendor-" + model }

func (v *vendor) last() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.requests) == 0 {
		return ""
	}
	return v.requests[len(v.requests)-1]
}

// fail makes the vendor answer every request like this from now on.
func (v *vendor) fail(status int, header http.Header, body string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.fails = func(w http.ResponseWriter, _ *http.Request) {
		maps.Copy(w.Header(), header)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func (v *vendor) count() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.requests)
}
