//go:build e2e

package e2e_test

import (
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/deploy/dev/stack"
)

const (
	chatRoute = "/product/v1/ai/chat"
	chatPath  = "/v1/llm/chat"
)

// completion is a whole chat answer.
type completion struct {
	Content      string     `json:"content"`
	ToolCalls    []toolCall `json:"tool_calls"`
	FinishReason string     `json:"finish_reason"`
	Usage        *usage     `json:"usage"`
}

type toolCall struct {
	Index    int    `json:"index"` // in streams only
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type usage struct {
	PromptTokens      int     `json:"prompt_tokens"`
	CompletionTokens  int     `json:"completion_tokens"`
	ProviderUsed      string  `json:"provider_used"`
	CostCents         float64 `json:"cost_cents"`
	Estimated         bool    `json:"estimated"`
	RequestedProvider string  `json:"requested_provider"`
	RequestedGoal     string  `json:"requested_goal"`
	Substituted       bool    `json:"substituted"`
	CacheHit          bool    `json:"cache_hit"`
}

// say returns a conversation of one turn.
func say(text string) []object { return []object{{"role": "user", "content": text}} }

// ask returns a chat request with further fields.
func ask(model, text string, more ...object) object {
	return object{"model": model, "messages": say(text)}.with(more...)
}

var streamed = object{"stream": true}

func TestChatSandbox(t *testing.T) {
	t.Parallel()
	ai := use(t).customer(t, unique("org"), "ai", "read")

	whole := ai.post(t, chatRoute, ask("sandbox", "What is a switchyard?"))
	found := whole.fields(t, http.StatusOK, "content", "tool_calls", "usage")
	if found["tool_calls"] != nil {
		t.Errorf("tool_calls is %v, want null", found["tool_calls"])
	}
	used, _ := found["usage"].(map[string]any)
	for _, name := range []string{"prompt_tokens", "completion_tokens", "provider_used", "cost_cents", "estimated", "substituted", "cache_hit"} {
		if _, there := used[name]; !there {
			t.Errorf("usage lacks %s: %v", name, used)
		}
	}
	var c completion
	whole.into(t, http.StatusOK, &c)
	if c.Content == "" {
		t.Error("the answer has no content")
	}
	if c.Usage.ProviderUsed != "sandbox" || c.Usage.Substituted {
		t.Errorf("provider %q, substituted %t, want the sandbox as asked", c.Usage.ProviderUsed, c.Usage.Substituted)
	}
	if in, out := c.Usage.PromptTokens, c.Usage.CompletionTokens; in == 0 || out == 0 {
		t.Errorf("%d tokens asked and %d answered, want some of each", in, out)
	}
	for _, name := range []string{"X-Request-Id", "X-Switchyard-Provider", "X-Switchyard-Model", "X-Switchyard-Attempts", "X-Switchyard-Overhead-Ms"} {
		if whole.header.Get(name) == "" {
			t.Errorf("the answer lacks the header %s: %v", name, whole.header)
		}
	}

	stream := ai.stream(t, chatRoute, ask("sandbox", "What is a switchyard?", streamed)).read(t)
	if !stream.done || stream.deltas < 2 || stream.Content != c.Content {
		t.Errorf("streamed %d pieces, done %v: %q, want %q in several", stream.deltas, stream.done, stream.Content, c.Content)
	}
	if diff := cmp.Diff(c.Usage, stream.Usage); diff != "" {
		t.Errorf("usage (-whole +streamed):\n%s", diff)
	}
}

var stalling = addVendor(vendor{name: "stalling", dialect: "openai", model: "stalling"})

// The provider stops sending after some words. If a proxy on the way buffered them, the first one would not arrive.
func TestChatStreamArrivesUnbuffered(t *testing.T) {
	t.Parallel()
	h := use(t)
	h.script(t, stack.FakeProvider, rule{Match: stalling.match(), Action: object{"stall_after_chunks": 3}}) // role, "You", " said:"
	stream := h.customer(t, unique("org"), "ai", "read").stream(t, chatRoute, ask(stalling.model, "hello", streamed))
	var got string
	for got != "You said:" {
		e, ok := stream.next(t)
		if !ok {
			t.Fatalf("the stream ended after %q", got)
		}
		var piece chunk
		if err := json.Unmarshal([]byte(e.data), &piece); err != nil {
			t.Fatalf("event %s: %v", e.data, err)
		}
		got += piece.Content
	}
	stream.leave()
}

var dialects = []vendor{
	addVendor(vendor{name: "plain-openai", dialect: "openai", model: "plain-openai"}),
	addVendor(vendor{name: "plain-anthropic", dialect: "anthropic", model: "plain-anthropic"}),
	addVendor(vendor{name: "plain-gemini", dialect: "gemini", model: "plain-gemini"}),
	addVendor(vendor{name: "plain-bedrock", dialect: "bedrock", model: "plain-bedrock", upstream: "eu.anthropic.claude-plain-v1:0"}),
}

// dialectCase is a call of a vendor of one dialect, for a whole or a streamed answer.
type dialectCase struct {
	vendor

	title  string
	stream bool
	ai     client
}

// eachDialect returns all dialect cases for a customer.
func eachDialect(ai client) (all []dialectCase) {
	for _, v := range dialects {
		all = append(all, dialectCase{v, v.dialect, false, ai}, dialectCase{v, v.dialect + " streamed", true, ai})
	}
	return all
}

// complete makes the call and returns its answer, whole or streamed.
func (d dialectCase) complete(t *testing.T, body object) completion {
	t.Helper()
	if !d.stream {
		var c completion
		d.ai.post(t, chatRoute, body).into(t, http.StatusOK, &c)
		return c
	}
	all := d.ai.stream(t, chatRoute, body.with(streamed)).read(t)
	if !all.done || all.failed != nil {
		t.Fatalf("the stream ended with done %v, error %+v", all.done, all.failed)
	}
	return all.completion
}

func TestChatUsageAndCost(t *testing.T) {
	t.Parallel()
	h := use(t)
	for _, d := range eachDialect(h.customer(t, unique("org"), "ai", "read")) {
		t.Run(d.title, func(t *testing.T) {
			text := unique("count")
			h.script(t, stack.FakeProvider, rule{
				Match: object{"path": d.callPath(), "body": text}, Times: 1,
				Action: object{"answer": object{"text": "counted exactly", "usage": object{"input": 150, "cache_read": 50, "output": 50}}},
			})
			c := d.complete(t, ask(d.model, text, object{"optimization_goal": "cost"}))
			if c.Content != "counted exactly" || c.FinishReason != "stop" || len(c.ToolCalls) != 0 {
				t.Errorf("answer %+v", c)
			}
			// Cached tokens without a price of their own cost as much as others.
			if want := cents(200, 50); math.Abs(c.Usage.CostCents-want) > 1e-9 {
				t.Errorf("cost %v cents, want %v", c.Usage.CostCents, want)
			}
			want := &usage{
				PromptTokens: 200, CompletionTokens: 50, CostCents: c.Usage.CostCents,
				ProviderUsed: d.name, RequestedProvider: c.Usage.RequestedProvider, RequestedGoal: "cost",
			}
			if diff := cmp.Diff(want, c.Usage); diff != "" {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
			if r := c.Usage.RequestedProvider; r != "" && r != d.name {
				t.Errorf("requested_provider %q", r)
			}
		})
	}
}

func TestChatSendsTheVendorsKey(t *testing.T) {
	t.Parallel()
	h := use(t)
	for _, d := range eachDialect(h.customer(t, unique("org"), "ai", "read")) {
		t.Run(d.title, func(t *testing.T) {
			text := unique("key")
			if c := d.complete(t, ask(d.model, text)); c.Content != "You said: "+text {
				t.Errorf("answer %q", c.Content)
			}
			name, want := d.credential(d.key())
			for _, call := range h.vendorCalls(t, d.vendor) {
				if strings.Contains(call.Body, text) {
					if got := call.Headers.Get(name); got != want {
						t.Errorf("%s: %q, want %q", name, got, want)
					}
					return
				}
			}
			t.Error("the vendor has no call")
		})
	}
}

func TestChatTools(t *testing.T) {
	t.Parallel()
	h := use(t)
	weather := object{"tools": []object{{"type": "function", "function": object{
		"name": "weather", "description": "of a city",
		"parameters": object{"type": "object", "properties": object{"city": object{"type": "string"}}, "required": []string{"city"}},
	}}}}
	// The arguments must arrive unchanged, including the order of keys and large numbers.
	const arguments = `{"z":12345678901234567890,"city":"Bern & Basel","a":[1,2.50]}`
	for _, d := range eachDialect(h.customer(t, unique("org"), "ai", "read")) {
		t.Run(d.title, func(t *testing.T) {
			text := unique("weather")
			h.script(t, stack.FakeProvider, rule{
				Match: object{"path": d.callPath(), "body": text}, Times: 1,
				Action: object{"answer": object{"tool_calls": []object{{"name": "weather", "arguments": json.RawMessage(arguments)}}}},
			})
			c := d.complete(t, ask(d.model, text, weather))
			if len(c.ToolCalls) != 1 || c.FinishReason != "tool_calls" || c.Content != "" {
				t.Fatalf("answer %+v, want one tool call", c)
			}
			call := c.ToolCalls[0]
			if call.ID == "" || call.Function.Name != "weather" || call.Function.Arguments != arguments {
				t.Fatalf("tool call %+v, want weather of %s", call, arguments)
			}

			turn := object{"role": "assistant", "content": nil, "tool_calls": []object{{
				"id": call.ID, "type": "function", "function": object{"name": "weather", "arguments": call.Function.Arguments},
			}}}
			result := object{"role": "tool", "tool_call_id": call.ID, "content": "sunny"}
			after := d.complete(t, ask(d.model, text, weather, object{"messages": append(say(text), turn, result)}))
			if after.Content != "Tool said: sunny" || after.FinishReason != "stop" {
				t.Errorf("after the tool's result: %+v", after)
			}
		})
	}
}

func TestChatLocale(t *testing.T) {
	t.Parallel()
	h := use(t)
	v, text := dialects[0], unique("locale")
	h.service(stack.Gateway, unique("org")).post(t, chatPath, ask(v.model, text, object{"locale": "de"})).want(t, http.StatusOK)
	for _, call := range h.vendorCalls(t, v) {
		if strings.Contains(call.Body, text) {
			if !strings.Contains(call.Body, "Respond in de.") {
				t.Errorf("the vendor got no instruction: %s", call.Body)
			}
			return
		}
	}
	t.Error("the vendor has no call")
}

func TestChatRefuses(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization := unique("org")
	faces := map[string]func(body any) answer{
		"edge":    func(body any) answer { return h.customer(t, organization, "ai", "read").post(t, chatRoute, body) },
		"gateway": func(body any) answer { return h.service(stack.Gateway, organization).post(t, chatPath, body) },
	}
	tests := map[string]struct {
		body   any
		status int
		code   string
		text   string
	}{
		"an unknown field":           {ask("sandbox", "x", object{"colour": "red"}), 400, "invalid_request", "colour"},
		"an unknown field inside":    {object{"model": "sandbox", "messages": []object{{"role": "user", "content": "x", "mood": "good"}}}, 400, "invalid_request", "mood"},
		"a field in another case":    {ask("sandbox", "x", object{"STREAM": true}), 400, "invalid_request", "STREAM"},
		"a field given twice":        {`{"model":"sandbox","model":"sandbox","messages":[{"role":"user","content":"x"}]}`, 400, "invalid_request", "model"},
		"an unknown goal":            {ask("sandbox", "x", object{"optimization_goal": "beauty"}), 400, "invalid_request", "optimization_goal"},
		"an unknown model":           {ask("no-such-model", "x"), 404, "model_not_found", "no-such-model"},
		"an unknown provider":        {ask("sandbox", "x", object{"provider": "nobody"}), 400, "provider_unknown", "nobody"},
		"no messages":                {object{"model": "sandbox", "messages": []object{}}, 400, "invalid_request", "messages"},
		"an unknown role":            {object{"model": "sandbox", "messages": []object{{"role": "boss", "content": "x"}}}, 400, "invalid_request", "messages[0].role"},
		"two modes that differ":      {ask("sandbox", "x", object{"locale": "de", "language_mode": "auto", "locale_mode": "force"}), 400, "invalid_request", "mode"},
		"bad JSON":                   {`{"model": "sandbox", "messages": [`, 400, "invalid_request", ""},
		"no JSON object":             {`[1]`, 400, "invalid_request", ""},
		"an empty body":              {``, 400, "invalid_request", ""},
		"another organization's":     {ask("sandbox", "x", object{"organization_id": "org_other"}), 403, "organization_mismatch", "organization_id"},
		"a stream that can't begin":  {ask("no-such-model", "x", streamed), 404, "model_not_found", "no-such-model"},
		"a provider without its key": {ask(keyless.model, "x"), 503, "missing_keys", "no provider configured (missing keys)"},
	}
	for name, tt := range tests {
		for face, call := range faces {
			t.Run(name+" at the "+face, func(t *testing.T) {
				f := call(tt.body).refused(t, tt.status, tt.code, tt.text)
				if tt.code == "missing_keys" && (f.Reason != tt.text || *f.Retryable) {
					t.Errorf("reason %q, retryable %v", f.Reason, *f.Retryable)
				}
			})
		}
	}
}

// The caller chooses the request id, and may use it again.
func TestChatRequestIDTwice(t *testing.T) {
	t.Parallel()
	ai := use(t).customer(t, unique("org"), "ai", "read").with("X-Request-Id", unique("id"))
	for range 2 {
		ai.post(t, chatRoute, ask("sandbox", "hello")).want(t, http.StatusOK)
	}
}

var keyless = addVendor(vendor{name: "keyless", dialect: "openai", model: "keyless", keyless: true})
