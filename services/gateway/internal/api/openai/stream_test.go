package openai

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// varying matches an answer's id and time.
var varying = regexp.MustCompile(`"id":"chatcmpl-[0-9a-f]{32}"|"created":\d+`)

func constant(text []byte) string {
	return varying.ReplaceAllStringFunc(string(text), func(s string) string { name, _, _ := strings.Cut(s, ":"); return name + ":0" })
}

func write(s dialect.Stream, events []provider.Event, finish provider.FinishReason, report ledger.Report) string {
	var out strings.Builder
	for _, e := range events {
		out.Write(s.Event(e))
	}
	out.Write(s.End(finish, report))
	return constant([]byte(out.String()))
}

var report = ledger.Report{Prompt: 10, Completion: 5, Usage: provider.Usage{Input: 6, CacheRead: 4, Output: 3, Reasoning: 2}}

const usageText = `"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":4,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":2,"audio_tokens":0}}`

func TestStreamAnew(t *testing.T) {
	const head = `data: {"id":0,"object":"chat.completion.chunk","created":0,"model":"m","choices":[`
	chunk := func(delta, finish string) string {
		return head + `{"index":0,"delta":` + delta + `,"logprobs":null,"finish_reason":` + finish + `}]}` + "\n\n"
	}
	for name, tt := range map[string]struct {
		events []provider.Event
		finish provider.FinishReason
		usage  bool
		want   string
	}{
		"text": {
			[]provider.Event{{Text: "a <"}, {Text: "b"}},
			provider.FinishStop, false,
			chunk(`{"role":"assistant","content":"a <"}`, "null") + chunk(`{"content":"b"}`, "null") + chunk("{}", `"stop"`) + "data: [DONE]\n\n",
		},
		"nothing": {
			nil, provider.FinishContentFilter, true,
			chunk(`{"role":"assistant","content":""}`, "null") + chunk("{}", `"content_filter"`) + head + "]," + usageText + "}\n\ndata: [DONE]\n\n",
		},
		"parallel calls": {
			[]provider.Event{
				{ToolCalls: []provider.ToolCall{{Index: 0, ID: "c1", Name: "f", Extra: []byte(`{"g":1}`)}}},
				{ToolCalls: []provider.ToolCall{{Index: 1, ID: "c2", Name: "g", Arguments: "{}"}, {Index: 0, Arguments: "{}"}}},
			},
			provider.FinishToolCalls, false,
			chunk(`{"role":"assistant","tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":""},"extra_content":{"g":1}}]}`, "null") +
				chunk(`{"tool_calls":[{"index":1,"id":"c2","type":"function","function":{"name":"g","arguments":"{}"}},{"index":0,"function":{"arguments":"{}"}}]}`, "null") +
				chunk("{}", `"tool_calls"`) + "data: [DONE]\n\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := write(Dialect{}.Stream(dialect.Reply{Model: "m", IncludeUsage: tt.usage}), tt.events, tt.finish, report)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A provider's own chunks are forwarded unchanged except for the model's name; the usage chunk goes only to callers
// that requested it.
func TestRelay(t *testing.T) {
	frames := []string{
		`{"id":"x","object":"chat.completion.chunk","created":1,"model":"up-1","service_tier":"t","choices":[{"index":0,"delta":{"role":"assistant"}}],"obfuscation":"z"}`,
		`{"id":"x","model": "up-1","choices":[{"index":0,"delta":{"content":"a \"model\":\"up-1\" <é","reasoning_content":"r"}}]}`,
		`{"id":"x","model":"up-1","choices":[{"index":1,"delta":{"content":"b"},"logprobs":{"content":[]}}]}`,
		`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"model":"up-1"}`,
		`{"id":"x","choices":[],"prompt_filter_results":[]}`,
	}
	const usage = `{"id":"x","model":"up-1","choices":[],"usage":{"prompt_tokens":9}}`
	var events []provider.Event
	want := ""
	for _, frame := range frames {
		events = append(events, provider.Event{Native: []byte(frame), Text: "x"})
		want += "data: " + frame + "\n\n"
	}
	for _, place := range []string{`"model":"up-1"`, `"model": "up-1"`} {
		want = strings.ReplaceAll(want, place, strings.Replace(place, "up-1", "mine", 1))
	}
	events = append(events, provider.Event{Native: []byte(usage), Usage: &provider.Usage{Input: 9}}, provider.Event{Native: []byte("[DONE]")})
	if got := write(Dialect{}.Stream(dialect.Reply{Model: "mine"}), events, "stop", report); got != constant([]byte(want))+"data: [DONE]\n\n" {
		t.Errorf("without usage: %s\nwant %s", got, want)
	}
	want += "data: " + strings.Replace(usage, "up-1", "mine", 1) + "\n\n"
	if got := write(Dialect{}.Stream(dialect.Reply{Model: "mine", IncludeUsage: true}), events, "stop", report); got != constant([]byte(want))+"data: [DONE]\n\n" {
		t.Errorf("with usage: %s\nwant %s", got, want)
	}
	// A server that reports none: the gateway's own count is used.
	got := write(Dialect{}.Stream(dialect.Reply{Model: "mine", IncludeUsage: true}), events[:1], "stop", report)
	if !strings.Contains(got, usageText) || strings.Count(got, `"id":"x"`) != 2 || strings.Count(got, "[DONE]") != 1 {
		t.Errorf("no report: %s", got)
	}
}

func TestFail(t *testing.T) {
	s := Dialect{}.Stream(dialect.Reply{Model: "m"})
	s.Event(provider.Event{Text: "a"})
	got := string(s.Fail(apierr.New(apierr.KindUpstream, "stream_interrupted", "broke off"), "r"))
	want := `data: {"error":{"message":"broke off","type":"server_error","param":null,"code":"stream_interrupted","error_class":"server_error","retryable":true,"request_id":"r"}}` + "\n\n"
	if got != want {
		t.Errorf("%s", got)
	}
}

func TestAnswer(t *testing.T) {
	for name, tt := range map[string]struct {
		completion inference.Completion
		want       string
	}{
		"text": {
			inference.Completion{Text: "a <b>", FinishReason: "stop", Report: report},
			`{"id":0,"object":"chat.completion","created":0,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"a <b>","refusal":null},"logprobs":null,"finish_reason":"stop"}],` + usageText + `}`,
		},
		"calls": {
			inference.Completion{ToolCalls: []provider.ToolCall{{ID: "c", Name: "f", Arguments: "{}"}}, FinishReason: "tool_calls", Report: report},
			`{"id":0,"object":"chat.completion","created":0,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},"logprobs":null,"finish_reason":"tool_calls"}],` + usageText + `}`,
		},
		"the provider's own": {
			inference.Completion{Native: []byte(`{"id":"x","model":"up","choices":[{"message":{"content":"\"model\":\"up\""}}],"x_new":[1.50]}`)},
			`{"id":"x","model":"m","choices":[{"message":{"content":"\"model\":\"up\""}}],"x_new":[1.50]}`,
		},
		"the provider's own, nameless": {inference.Completion{Native: []byte(`{"choices":[]}`)}, `{"choices":[]}`},
	} {
		got, err := Dialect{}.Answer(dialect.Reply{Model: "m"}, &tt.completion)
		if err != nil || constant(got) != tt.want {
			t.Errorf("%s: %v\n got %s\nwant %s", name, err, constant(got), tt.want)
		}
	}
}

func BenchmarkRelay(b *testing.B) {
	event := provider.Event{Text: "word", Native: []byte(`{"id":"chatcmpl-DdmO9pD3xa9XTPNJ32zg2hcA","object":"chat.completion.chunk","created":1735000000,"model":"gpt-4o-mini-2024-07-18","service_tier":"default","system_fingerprint":"fp_1234567890","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}],"usage":null}`)}
	s := Dialect{}.Stream(dialect.Reply{Model: "gpt-4o-mini"})
	b.ReportAllocs()
	for b.Loop() {
		s.Event(event)
	}
}
