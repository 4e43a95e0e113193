package api_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"switchyard.dev/services/platform/testkit"
)

const (
	completions  = "/v1/chat/completions"
	messagesPath = "/v1/messages"
	anthropicMsg = `"max_tokens":9,` + messages
)

// The same vendors behind both faces, whole and streamed: the output is in the face's form, and one row is billed each
// time.
func TestCompatibleChat(t *testing.T) {
	b := setup(t)
	for _, tt := range []struct {
		name, path, body string
		want             []string
	}{
		{"openai over openai", completions, `{"model":"first/ok",` + messages + `}`, []string{`"content":"hello <there> &"`, `"cached_tokens":4`}},
		{"openai over anthropic", completions, `{"model":"second/spare",` + messages + `}`, []string{`"object":"chat.completion"`, `"model":"second/spare"`, `"content":"from spare"`, `"total_tokens":6`}},
		{"openai over sandbox", completions, `{` + messages + `}`, []string{`"content":"sandbox: hi"`, `"model":"sandbox"`}},
		{"anthropic over anthropic", messagesPath, `{"model":"second/spare",` + anthropicMsg + `}`, []string{`"type":"message"`, `"text":"from spare"`}},
		{"anthropic over openai", messagesPath, `{"model":"first/ok",` + anthropicMsg + `}`, []string{`"type":"message"`, `"text":"hello <there> &"`, `"input_tokens":6`, `"cache_read_input_tokens":4`, `"stop_reason":"end_turn"`}},
		{"openai over openai, streamed", completions, `{"model":"first/ok","stream":true,` + messages + `}`, []string{`{"content":"hello"}`, "data: [DONE]\n\n"}},
		{"openai over anthropic, streamed", completions, `{"model":"second/spare","stream":true,"stream_options":{"include_usage":true},` + messages + `}`, []string{`"delta":{"role":"assistant","content":"from spare"}`, `"choices":[],"usage":{"prompt_tokens":4`, "data: [DONE]\n\n"}},
		{"anthropic over anthropic, streamed", messagesPath, `{"model":"second/spare","stream":true,` + anthropicMsg + `}`, []string{"from spare", `"type":"message_stop"`}},
		{"anthropic over openai, streamed", messagesPath, `{"model":"first/ok","stream":true,` + anthropicMsg + `}`, []string{"event: message_start", `"text_delta","text":"hello"`, `"input_tokens":10`, "event: message_stop"}},
		{"tools over openai, streamed", messagesPath, `{"model":"first/tools","stream":true,` + anthropicMsg + `}`, []string{`"content_block":{"type":"tool_use","id":"c1","name":"f","input":{}}`, `"partial_json":"{\"a\":"`, `"stop_reason":"tool_use"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := b.rows(t, "true")
			got := b.say(t, "POST", tt.path, tt.body)
			for _, want := range tt.want {
				if got.status != 200 || !strings.Contains(got.body, want) {
					t.Errorf("%d, want %s: %s", got.status, want, got.body)
				}
			}
			if strings.Contains(got.body, `"usage":{"prompt_tokens":10`) && strings.Contains(tt.body, `"stream":true`) {
				t.Errorf("usage that nobody asked for: %s", got.body)
			}
			for _, name := range []string{"X-Request-Id", "X-Switchyard-Provider", "X-Switchyard-Model", "X-Switchyard-Attempts"} {
				if got.header.Get(name) == "" {
					t.Errorf("no %s", name)
				}
			}
			if cost := got.header.Get("X-Switchyard-Cost-Cents"); (cost == "") != strings.Contains(tt.body, `"stream":true`) {
				t.Errorf("cost %q", cost)
			}
			if n := b.rows(t, "true") - before; n != 1 {
				t.Errorf("%d rows, want 1", n)
			}
		})
	}
}

// Before the first content a failure causes a failover, even after a 200 and lifecycle frames; after it, it is an error
// in the face's form.
func TestCompatibleFailover(t *testing.T) {
	b := setup(t)
	for _, tt := range []struct{ path, rest string }{{completions, messages}, {messagesPath, anthropicMsg}} {
		got := b.say(t, "POST", tt.path, `{"model":"first/late-error","stream":true,`+tt.rest+`}`)
		if got.status != 200 || !strings.Contains(got.body, "from spare") {
			t.Errorf("%s: %d %s, want the answer of the spare one", tt.path, got.status, got.body)
		}
		if strings.Contains(got.body, "overloaded") {
			t.Errorf("%s: the first provider's error is in %s", tt.path, got.body)
		}
		if provider := got.header.Get("X-Switchyard-Provider"); provider != "second" {
			t.Errorf("%s: served by %q, want second", tt.path, provider)
		}
		if n := strings.Count(got.body, "message_start"); tt.path == messagesPath && n != 2 { // The event's name and its type.
			t.Errorf("message_start is there %d times: %s", n, got.body)
		}
	}
	got := b.say(t, "POST", completions, `{"model":"first/cut","stream":true,`+messages+`}`)
	if !strings.Contains(got.body, `data: {"error":{"message":"first: `) || strings.Contains(got.body, "[DONE]") {
		t.Errorf("%s", got.body)
	}
	got = b.say(t, "POST", messagesPath, `{"model":"first/cut","stream":true,`+anthropicMsg+`}`)
	if !strings.Contains(got.body, "event: error\ndata: {\"type\":\"error\",") || strings.Contains(got.body, "message_stop") {
		t.Errorf("%s", got.body)
	}
}

func TestCompatibleErrors(t *testing.T) {
	b := setup(t)
	for _, tt := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
		want                     string
	}{
		{"no token", "POST", completions, "{}", []string{"Authorization", ""}, 401, `{"error":{"message":"`},
		{"no token", "POST", messagesPath, "{}", []string{"Authorization", ""}, 401, `{"type":"error","error":{"type":"authentication_error"`},
		{"the role support", "POST", messagesPath, "{}", []string{"Authorization", "", "X-Api-Key", "sup"}, 403, `"permission_error"`},
		{"the key of the other SDK", "POST", completions, "{}", []string{"Authorization", "", "X-Api-Key", "svc"}, 401, `"code":"invalid_api_key"`},
		{"another organization", "POST", completions, `{"switchyard":{"organization_id":"x"},` + messages + `}`, nil, 403, `"code":"organization_mismatch"`},
		{"no such model", "POST", completions, `{"model":"none",` + messages + `}`, nil, 404, `"code":"model_not_found"`},
		{"no such model", "POST", messagesPath, `{"model":"none",` + anthropicMsg + `}`, nil, 404, `"type":"not_found_error"`},
		{"a goal that is none", "POST", completions, `{` + messages + `}`, []string{"X-Switchyard-Goal", "fun"}, 400, `"param":"optimization_goal"`},
		{"two goals", "POST", completions, `{"switchyard":{"optimization_goal":"cost"},` + messages + `}`, []string{"X-Switchyard-Goal", "quality"}, 400, "X-Switchyard-Goal: differs"},
		{"an unknown field of ours", "POST", completions, `{"switchyard":{"gaol":"cost"},` + messages + `}`, nil, 400, `switchyard: unknown field \"gaol\"; known fields: organization_id, provider, optimization_goal, byok.provider, byok.mode, allow_substitution, `},
		{"a zero byte", "POST", completions, `{"metadata":{"k":"a\u0000"},` + messages + `}`, nil, 400, "metadata: must not hold a zero byte"},
		{"a zero byte of ours", "POST", completions, `{"switchyard":{"metadata":{"k":"\u0000"}},` + messages + `}`, nil, 400, "metadata: must not hold a zero byte"},
		{"substitution", "POST", completions, `{` + messages + `}`, []string{"X-Switchyard-Allow-Substitution", "maybe"}, 400, "must be true or false"},
		{"a field for nobody", "POST", completions, `{"model":"sandbox","n":2,` + messages + `}`, []string{"X-Switchyard-Allow-Substitution", "false"}, 400, `"param":"n"`},
		{"a field for nobody", "POST", messagesPath, `{"model":"sandbox","container":"c",` + anthropicMsg + `}`, []string{"X-Switchyard-Allow-Substitution", "false"}, 400, `container: only providers of the anthropic dialect can carry it: sandbox/sandbox (dialect)`},
		{"too long", "POST", completions, `{"model":"first/long",` + messages + `}`, nil, 400, `"code":"context_length_exceeded"`},
		{"too long", "POST", messagesPath, `{"model":"first/long",` + anthropicMsg + `}`, nil, 400, `prompt is too long`},
		{"another method", "GET", completions, "", nil, 405, `"type":"invalid_request_error"`},
		{"not served", "POST", messagesPath + "/nothing", "{}", nil, 404, `"type":"not_found_error"`},
		{"no such model", "GET", "/v1/models/none", "", []string{"X-Stainless-Lang", "go"}, 404, `"code":"model_not_found"`},
		{"no such model", "GET", "/v1/models/none", "", []string{"Anthropic-Version", "2023-06-01"}, 404, `"not_found_error"`},
		{"a token that is none", "POST", "/v1/embeddings", `{"model":"sandbox","input":[1,2.5],"encoding_format":"float"}`, []string{"X-Stainless-Lang", "go"}, 400, `"param":"input[1]"`},
		{"tokens of no model", "POST", "/v1/embeddings", `{"model":"default","input":[1,2],"encoding_format":"float"}`, []string{"X-Stainless-Lang", "go"}, 400, `"param":"model"`},
		{"a format that is none", "POST", "/v1/embeddings", `{"model":"sandbox","input":"x","encoding_format":"text"}`, []string{"X-Switchyard-Dialect", "openai"}, 400, `"param":"encoding_format"`},
	} {
		got := b.say(t, tt.method, tt.path, tt.body, tt.header...)
		if got.status != tt.status || !strings.Contains(got.body, tt.want) || got.header.Get("X-Should-Retry") != "false" {
			t.Errorf("%s %s: %d %s, want %d %s", tt.name, tt.path, got.status, got.body, tt.status, tt.want)
		}
		if strings.HasPrefix(tt.path, messagesPath) && got.header.Get("Request-Id") != "req-test" {
			t.Errorf("%s: no request-id", tt.path)
		}
	}
	busy := b.say(t, "POST", completions, `{"model":"first/busy",`+messages+`}`, "X-Switchyard-Allow-Substitution", "false")
	if busy.header.Get("Retry-After") == "" || busy.header.Get("X-Should-Retry") != "" {
		t.Errorf("busy: %d %v %s", busy.status, busy.header, busy.body)
	}
}

// A body in the caller's dialect reaches a vendor of that dialect unchanged; another vendor's answer lists the fields
// that were not used.
func TestCompatibleBodies(t *testing.T) {
	b := setup(t)
	b.say(t, "POST", completions, `{"model":"first/ok","brand_new":{"a":1.50},"switchyard":{"locale":"de"},`+messages+`}`)
	for _, want := range []string{`"brand_new":{"a":1.50}`, `"model":"ok"`, `Respond in de.`} {
		if got := b.vendor.last(); !strings.Contains(got, want) || strings.Contains(got, "switchyard") {
			t.Errorf("the vendor got %s, want %s", got, want)
		}
	}
	got := b.say(t, "POST", completions, `{"model":"sandbox","brand_new":1,"a b\r\nX-Evil: 1":2,`+messages+`}`)
	if got.status != 400 { // An escape in a name.
		t.Errorf("%d %s", got.status, got.body)
	}
	got = b.say(t, "POST", completions, `{"model":"sandbox","brand_new":1,"späß":2,`+messages+`}`)
	if ignored := got.header.Get("X-Switchyard-Ignored"); ignored != "brand_new, *" {
		t.Errorf("ignored %q", ignored)
	}
	if got := b.say(t, "POST", "/v1/messages?beta=true", `{`+anthropicMsg+`}`, "Authorization", "", "X-Api-Key", "svc"); got.status != 200 {
		t.Errorf("with the SDK's key and query: %d %s", got.status, got.body)
	}
}

func TestCompatibleModels(t *testing.T) {
	b := setup(t)
	for _, tt := range []struct {
		path   string
		header []string
		want   string
	}{
		{"/v1/models", nil, `{"object":"list","data":[{"id":"sandbox","object":"model","created":0,"owned_by":"sandbox"},`},
		{"/v1/models", []string{"Anthropic-Version", "2023-06-01"}, `{"data":[{"type":"model","id":"sandbox","display_name":"sandbox","created_at":"1970-01-01T00:00:00Z"},`},
		{"/v1/models/second/spare", nil, `{"id":"second/spare","object":"model","created":0,"owned_by":"second"}`},
		{"/v1/models/second%2Fspare", nil, `{"id":"second/spare","object":"model","created":0,"owned_by":"second"}`},
		{"/v1/models/by-id/spare", []string{"X-Switchyard-Dialect", "anthropic"}, `{"type":"model","id":"spare"`},
	} {
		if got := b.say(t, "GET", tt.path, "", tt.header...); got.status != 200 || !strings.HasPrefix(got.body, tt.want) {
			t.Errorf("%s: %d %s", tt.path, got.status, got.body)
		}
	}
}

// A caller who leaves a stream, on any face and at any stage, ends the upstream call at once and pays for what arrived:
// before the first content for the request.
func TestCallerLeavesAtEachStage(t *testing.T) {
	b := setup(t)
	for i, path := range []string{chatPath, completions, messagesPath} {
		more := map[string]string{messagesPath: `"max_tokens":9,`}[path]
		for stage, model := range map[string]string{"before the head": "silent", "in the text": "endless", "in a call": "endless-call"} {
			organization := fmt.Sprint("leaver-", i, "-", model)
			ctx, cancel := context.WithCancel(t.Context())
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, b.http.URL+path, strings.NewReader(`{"model":"first/`+model+`","stream":true,`+more+messages+`}`))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer svc")
			r.Header.Set("X-Organization-Id", organization)
			r.Header.Set("X-Request-Id", organization)
			go func() { // Leaves once the vendor waits and its content has arrived.
				<-b.vendor.reached
				if model == "silent" {
					cancel()
				}
			}()
			if resp, err := b.http.Client().Do(r); err == nil {
				_, _ = resp.Body.Read(make([]byte, 1))
				cancel()
				_ = resp.Body.Close()
			}
			<-b.vendor.left
			b.recorded(t, organization, 1)
			billed := b.rows(t, "outcome = 'cancelled' AND usage_state = 'estimated' AND (output_tokens > 0) = $2 AND input_tokens > 0 AND organization_id = $1", organization, model != "silent")
			if all := b.rows(t, "organization_id = $1", organization); billed != 1 || all != 1 {
				t.Errorf("%s, %s: %d rows, %d of them of a part", path, stage, all, billed)
			}
		}
	}
}

// The key of a vendor that echoes it is in no answer of the compatible faces.
func TestCompatibleKeyNeverLeaves(t *testing.T) {
	b := setup(t)
	var texts []string
	for _, model := range []string{"first/down", "first/cut"} {
		for _, stream := range []string{"true", "false"} {
			for _, path := range []string{completions, messagesPath} {
				got := b.say(t, "POST", path, `{"model":"`+model+`","stream":`+stream+`,"switchyard":{"allow_substitution":false},`+anthropicMsg+`}`)
				texts = append(texts, got.body, fmt.Sprint(got.header))
			}
		}
	}
	testkit.NoLeak(t, canary, append(texts, b.log.String())...)
	if !strings.Contains(strings.Join(texts, ""), "[redacted]") {
		t.Error("the vendor's echo is nowhere: the test proves nothing")
	}
}

// A point of the prompt cache reaches a provider that has such points in its own form; where another one serves, the answer
// names it.
func TestCachePointsAreCarried(t *testing.T) {
	b := setup(t)
	for _, c := range []struct{ path, body, field string }{
		{"/v1/chat/completions", `{"model":"%s","messages":[{"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]}]}`, "cache_control"},
		{"/v1/responses", `{"model":"%s","input":[{"role":"user","content":[{"type":"input_text","text":"hi","prompt_cache_breakpoint":{"mode":"explicit","ttl":"12h"}}]}]}`, "prompt_cache_breakpoint"},
	} {
		got := b.post(t, c.path, fmt.Sprintf(c.body, "spare"))
		if sent := b.vendor.last(); got.status != 200 || !strings.Contains(sent, `"cache_control":{"type":"ephemeral"`) || got.header.Get("X-Switchyard-Ignored") != "" {
			t.Errorf("%s: %d, sent %s, ignored %q; want the point at the vendor", c.path, got.status, sent, got.header.Get("X-Switchyard-Ignored"))
		}
		got = b.post(t, c.path, fmt.Sprintf(c.body, "sandbox"))
		if named := got.header.Get("X-Switchyard-Ignored"); got.status != 200 || named != c.field {
			t.Errorf("%s: %d, ignored %q over the sandbox, want %s", c.path, got.status, named, c.field)
		}
	}
}
