package openai_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/openai"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
	"switchyard.dev/services/platform/apierr"
)

// frameText returns a stream of chunks, each with the choices given.
func frameText(choices ...string) string {
	var text strings.Builder
	for _, choice := range choices {
		text.WriteString(`data: {"choices":[` + choice + "]}\n\n")
	}
	return text.String() + "data: [DONE]\n\n"
}

func opened(t *testing.T, chat *provider.Chat, text string) provider.Stream {
	t.Helper()
	stream, err := answering(t, "text/event-stream", text).StreamChat(t.Context(), provider.Credential{}, chat)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// Calls to which a server gives neither IDs nor numbers are distinguished by their names.
func TestCallsWithoutIDs(t *testing.T) {
	answer, err := providertest.Collect(opened(t, &provider.Chat{Model: "m"}, frameText(
		`{"delta":{"tool_calls":[{"function":{"name":"f","arguments":"{\"a\""}}]}}`,
		`{"delta":{"tool_calls":[{"function":{"arguments":":1}"}}]}}`,
		`{"delta":{"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}`,
	)))
	if err != nil {
		t.Fatal(err)
	}
	want := []provider.ToolCall{{Index: 0, Name: "f", Arguments: `{"a":1}`}, {Index: 1, Name: "f", Arguments: "{}"}}
	if diff := cmp.Diff(want, answer.ToolCalls, cmpopts.IgnoreFields(provider.ToolCall{}, "ID")); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if a, b := answer.ToolCalls[0].ID, answer.ToolCalls[1].ID; a == "" || b == "" || a == b {
		t.Errorf("ids %q and %q", a, b)
	}
}

// Each choice numbers its own calls.
func TestCallsOfSeveralChoices(t *testing.T) {
	const begin = `,"delta":{"tool_calls":[{"index":0,"id":"`
	answer, err := providertest.Collect(opened(t, native(`{"n":2}`), frameText(
		`{"index":0`+begin+`a","function":{"name":"f","arguments":"{"}}]}}`,
		`{"index":1`+begin+`b","function":{"name":"g","arguments":"["}}]}}`,
		`{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]}}`,
		`{"index":1,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"]"}}]}}`,
	)))
	want := []provider.ToolCall{{Index: 0, ID: "a", Name: "f", Arguments: "{}"}, {Index: 1, ID: "b", Name: "g", Arguments: "[]"}}
	if diff := cmp.Diff(want, answer.ToolCalls); diff != "" || err != nil {
		t.Errorf("err %v, calls (-want +got):\n%s", err, diff)
	}
}

// An event stays valid when the next one is read.
func TestEventsLast(t *testing.T) {
	var choices []string
	for range 40 {
		choices = append(choices,
			`{"delta":{"content":"plain","tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"x"}},{"index":1,"id":"b","function":{"name":"g","arguments":"y"},"extra_content":{"google":1}}]}}`,
			`{"delta":{"content":"OTHER","tool_calls":[{"index":1,"id":"z","function":{"name":"Z","arguments":"Z"}}]}}`)
	}
	stream := opened(t, &provider.Chat{Model: "m"}, frameText(choices...))
	defer stream.Close()
	first, err := stream.Next()
	if err != nil {
		t.Fatal(err)
	}
	want := []provider.ToolCall{
		{Index: 0, ID: "a", Name: "f", Arguments: "x"}, {Index: 1, ID: "b", Name: "g", Arguments: "y", Extra: []byte(`{"google":1}`)},
	}
	for err == nil {
		_, err = stream.Next()
	}
	if diff := cmp.Diff(want, first.ToolCalls); !errors.Is(err, io.EOF) || diff != "" || first.Text != "plain" {
		t.Errorf("err %v, text %q, calls (-want +got):\n%s", err, first.Text, diff)
	}
}

// A last chunk that holds more than usage is relayed, whether usage was requested or not.
func TestUsageBesideContentIsRelayed(t *testing.T) {
	const last = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`
	frames, answer, err := providertest.Frames(opened(t, native("{}"), "data: "+last+"\n\ndata: [DONE]\n\n"))
	if err != nil || len(frames) != 1 || frames[0].Data != last {
		t.Fatalf("frames %+v, %v, want %s alone", frames, err, last)
	}
	if answer.Usage == nil {
		t.Error("no usage is reported")
	}
}

// A total that is larger than its parts explain is not billed as output.
func TestUnexplainedTotal(t *testing.T) {
	p := answering(t, "application/json", `{"choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":10,"completion_tokens":20,
		"total_tokens":90,"completion_tokens_details":{"reasoning_tokens":5}}}`)
	answer, err := p.Chat(t.Context(), provider.Credential{}, &provider.Chat{Model: "m"})
	if diff := cmp.Diff(&provider.Usage{Input: 10, Output: 15, Reasoning: 5}, answer.Usage); err != nil || diff != "" {
		t.Errorf("err %v, usage (-want +got):\n%s", err, diff)
	}
}

// The code counts before the text of the message.
func TestCodeBeforeText(t *testing.T) {
	p := refusing(t, http.StatusBadRequest, `{"error":{"code":"string_above_max_length",
		"message":"The string is too long; this has nothing to do with the model's maximum context length"}}`)
	_, err := p.Chat(t.Context(), provider.Credential{}, &provider.Chat{Model: "m"})
	if e, ok := errors.AsType[*provider.Error](err); !ok || e.Class != apierr.ClassPolicy {
		t.Errorf("err = %v, want class policy", err)
	}
}

// A known code decides by itself, whatever the text is.
func TestCodeAlone(t *testing.T) {
	for code, tt := range map[string]struct {
		status int
		want   apierr.Class
	}{
		"context_length_exceeded": {400, apierr.ClassContextOverflow}, "exceed_context_size_error": {400, apierr.ClassContextOverflow},
		"string_above_max_length": {400, apierr.ClassPolicy}, "unsupported_parameter": {400, apierr.ClassPolicy},
		"content_policy_violation": {400, apierr.ClassContentPolicy}, "moderation_blocked": {400, apierr.ClassContentPolicy},
		"content_filter": {400, apierr.ClassContentPolicy}, "ResponsibleAIPolicyViolation": {400, apierr.ClassContentPolicy},
		"insufficient_quota": {429, apierr.ClassAuth}, "billing_hard_limit_reached": {429, apierr.ClassAuth},
		"billing_not_active": {429, apierr.ClassAuth}, "access_terminated": {400, apierr.ClassAuth},
		"invalid_api_key": {400, apierr.ClassAuth}, "account_deactivated": {400, apierr.ClassAuth},
		"rate_limit_exceeded": {503, apierr.ClassRateLimit}, "slow_down": {503, apierr.ClassRateLimit}, "too_many_requests": {400, apierr.ClassRateLimit},
	} {
		p := refusing(t, tt.status, `{"error":{"code":"`+code+`","message":"Sorry."}}`)
		_, err := p.Chat(t.Context(), provider.Credential{}, &provider.Chat{Model: "m"})
		if e, ok := errors.AsType[*provider.Error](err); !ok || e.Class != tt.want || e.Code != code {
			t.Errorf("%s: %v, want class %s", code, err, tt.want)
		}
	}
}

// Compile-time checks of the interfaces.
var (
	_ provider.ChatProvider = (*openai.Provider)(nil)
	_ provider.Embedder     = (*openai.Provider)(nil)
	_ provider.ImageMaker   = (*openai.Provider)(nil)
)
