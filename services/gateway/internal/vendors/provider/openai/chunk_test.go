package openai_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
	"switchyard.dev/services/platform/apierr"
)

// answered returns the answer to a chat whose vendor sends text.
func answered(t *testing.T, text string) (*provider.Answer, error) {
	t.Helper()
	return answering(t, "application/json", text).Chat(t.Context(), provider.Credential{}, &provider.Chat{Model: "m"})
}

// An answer with an error is an error, at whatever position and with whatever other members.
func TestErrorsAmongMembers(t *testing.T) {
	const choices = `"choices":[{"message":{"content":"a"}}]`
	const chat = `"object":"chat.completion"`
	for text, failed := range map[string]bool{
		`{"error":"x",` + choices + `}`:                   true,
		`{` + choices + `,"error":"x"}`:                   true,
		`{` + choices + `,"error":{},` + chat + `}`:       true,
		`{"error":"x","error":null,` + choices + `}`:      true,
		`{` + choices + `,"object":"error"}`:              true,
		`{"object":"error",` + chat + `,` + choices + `}`: true,
		`{` + choices + `,"error":null,` + chat + `}`:     false,
		`{"error":false,` + choices + `}`:                 false,
		`{"error":"",` + choices + `}`:                    false,
		`{"object":null,` + choices + `}`:                 false,
	} {
		t.Run(text, func(t *testing.T) {
			answer, err := answered(t, text)
			e, ok := errors.AsType[*provider.Error](err)
			if ok != failed {
				t.Errorf("error %v, want a failure %t", err, failed)
			}
			if ok && (e.Class != apierr.ClassServerError || answer != nil) {
				t.Errorf("class %s, answer %+v; want %s and none", e.Class, answer, apierr.ClassServerError)
			}
			events, err := providertest.Collect(opened(t, native("{}"), "data: "+text+"\n\ndata: [DONE]\n\n"))
			if (err != nil) != failed {
				t.Errorf("streamed: error %v, want a failure %t", err, failed)
			}
			if failed && events != nil && events.Text != "" {
				t.Errorf("streamed: text %q of a failure", events.Text)
			}
		})
	}
}

// All forms of a choice.
func TestChoices(t *testing.T) {
	const stop, filtered = provider.FinishStop, provider.FinishContentFilter
	for name, tt := range map[string]struct {
		choices string
		want    provider.Answer
	}{
		"no error":                  {`{"message":{"content":"a"},"error":null,"finish_reason":"stop"}`, provider.Answer{Text: "a", FinishReason: stop}},
		"one finishes":              {`{"message":{"content":"a"},"finish_reason":"stop"},{"message":{"content":"b"},"finish_reason":null}`, provider.Answer{Text: "ab", FinishReason: stop}},
		"one is refused":            {`{"message":{"refusal":"no"}},{"message":{"content":"b","refusal":null},"finish_reason":"stop"}`, provider.Answer{Text: "nob", FinishReason: filtered}},
		"reasoning by one name":     {`{"message":{"reasoning":"r"}}`, provider.Answer{Reasoning: "r"}},
		"… by the other":            {`{"message":{"reasoning_content":"r"}}`, provider.Answer{Reasoning: "r"}},
		"… by both":                 {`{"message":{"reasoning_content":"r","reasoning":"r"}}`, provider.Answer{Reasoning: "r"}},
		"parts":                     {`{"message":{"content":[{"text":"a"},{"thinking":[{"text":"r"},{"text":"s"}]},{"text":"b"}]}}`, provider.Answer{Text: "ab", Reasoning: "rs"}},
		"a content of another kind": {`{"message":{"content":{"text":"a"}}}`, provider.Answer{}},
		"no state of a call": {
			`{"message":{"tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"},"extra_content":null}]}}`,
			provider.Answer{ToolCalls: []provider.ToolCall{{ID: "1", Name: "f", Arguments: "{}"}}},
		},
		"not Unicode": {"{\"message\":{\"content\":\"a\xff\"}}", provider.Answer{Text: "a\ufffd"}},
	} {
		t.Run(name, func(t *testing.T) {
			answer, err := answered(t, `{"choices":[`+tt.choices+`]}`)
			if diff := cmp.Diff(&tt.want, answer); err != nil || diff != "" {
				t.Errorf("err %v, answer (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestBrokenOff(t *testing.T) {
	for _, reason := range []string{"error", "Abort", "network_error", "insufficient_system_resource"} {
		_, err := answered(t, `{"choices":[{"message":{"content":"a"},"finish_reason":"`+reason+`"}]}`)
		e, ok := errors.AsType[*provider.Error](err)
		if !ok || e.Class != apierr.ClassServerError || !strings.HasSuffix(e.Text, reason) {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

// Of several members of one name, which no vendor should send, the first counts.
func TestModels(t *testing.T) {
	for members, want := range map[string]string{
		`"model":"a"`: "a", `"model":"a","model":"b"`: "a", `"model":null,"model":"b"`: "", "\"model\":\"\\u00fc\xff\"": "ü\ufffd", `"id":"x"`: "",
	} {
		answer, err := answered(t, `{`+members+`,"choices":[{}]}`)
		if err != nil || answer.Model != want {
			t.Errorf("%s: %+v, %v, want %q", members, answer, err, want)
		}
	}
}

// Calls without an ID get one each; the others keep theirs.
func TestCallsOfAWholeAnswer(t *testing.T) {
	answer, err := answered(t, `{"choices":[{"message":{"tool_calls":[{"function":{"name":"f"}},{"id":"mine"},{"function":{"name":"g"}}]}}]}`)
	if err != nil || len(answer.ToolCalls) != 3 {
		t.Fatalf("%+v, %v", answer, err)
	}
	a, b, c := answer.ToolCalls[0], answer.ToolCalls[1], answer.ToolCalls[2]
	if !strings.HasPrefix(a.ID, "call_") || !strings.HasPrefix(c.ID, "call_") || a.ID == c.ID {
		t.Errorf("made the IDs %q and %q, want two that begin with call_", a.ID, c.ID)
	}
	if b.ID != "mine" {
		t.Errorf("the second ID is %q, want mine", b.ID)
	}
	if b.Index != 1 || c.Index != 2 {
		t.Errorf("indexes %d and %d, want 1 and 2", b.Index, c.Index)
	}
}

// A choice's number applies to its calls, even if it follows them, and to no other's.
func TestNumbersBehindCalls(t *testing.T) {
	const begin = `{"delta":{"tool_calls":[{"index":0,"id":"`
	answer, err := providertest.Collect(opened(t, native(`{"n":2}`), frameText(
		begin+`a","function":{"name":"f","arguments":"{"}}]},"index":0,"index":7},`+
			begin+`b","function":{"name":"g","arguments":"["}}]},"index":1}`,
		`{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"]"}}]},"index":1},`+
			`{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]},"index":0}`,
	)))
	want := []provider.ToolCall{{Index: 0, ID: "a", Name: "f", Arguments: "{}"}, {Index: 1, ID: "b", Name: "g", Arguments: "[]"}}
	if diff := cmp.Diff(want, answer.ToolCalls); diff != "" || err != nil {
		t.Errorf("err %v, calls (-want +got):\n%s", err, diff)
	}
}

// An index that is not a number is ignored: the name begins a new call.
func TestIndexThatIsNone(t *testing.T) {
	answer, err := providertest.Collect(opened(t, native(`{}`), frameText(
		`{"delta":{"tool_calls":[{"index":null,"function":{"name":"f","arguments":"1"}}]}}`,
		`{"delta":{"tool_calls":[{"index":"0","function":{"name":"g","arguments":"2"}}]}}`,
	)))
	if err != nil || len(answer.ToolCalls) != 2 || answer.ToolCalls[1].Name != "g" {
		t.Errorf("%+v, %v", answer, err)
	}
}
