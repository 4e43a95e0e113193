package gemini

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// ids matches the ids that the gateway makes.
var ids = regexp.MustCompile(`"responseId":"[0-9a-f]{32}"`)

func withoutIDs(text []byte) string { return ids.ReplaceAllString(string(text), `"responseId":"id"`) }

var counted = ledger.Report{Usage: provider.Usage{Input: 3, CacheRead: 4, Output: 5, Reasoning: 6}, Prompt: 7, Completion: 11}

func TestAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		writer     writer
		completion inference.Completion
	}{
		"text":     {writer{}, inference.Completion{Text: "hello <b>", Reasoning: "hm", FinishReason: provider.FinishStop, Report: counted}},
		"thoughts": {writer{thoughts: true}, inference.Completion{Text: "hello", Reasoning: "hm", FinishReason: provider.FinishLength, Report: counted}},
		"calls": {writer{}, inference.Completion{FinishReason: provider.FinishToolCalls, Report: counted, ToolCalls: []provider.ToolCall{
			{ID: "a", Name: "f", Arguments: `{"b": 1}`, Extra: json.RawMessage(`{"google":{"thought_signature":"QUJD"}}`)},
			{ID: "b", Name: "g", Extra: json.RawMessage(`{"anthropic":{}}`)},
			{ID: "c", Name: "h", Arguments: `{"cut`},
		}}},
		"filtered": {writer{}, inference.Completion{FinishReason: provider.FinishContentFilter, Report: counted}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.writer.Answer(dialect.Reply{Model: "m"}, &c.completion)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name+".answer.json", withoutIDs(got)+"\n")
		})
	}
	got, err := writer{}.Answer(dialect.Reply{Model: "m"}, &inference.Completion{Native: []byte(`{"x": 1, "modelVersion": "theirs"}`)})
	if want := `{"x": 1, "modelVersion": "m"}`; err != nil || string(got) != want {
		t.Errorf("a vendor's own answer: %s, %v, want %s", got, err, want)
	}
}

// streamed returns everything that a stream writes.
func streamed(w writer, events []provider.Event, fail error) string {
	s := w.Stream(dialect.Reply{Model: "m"})
	var out strings.Builder
	for _, e := range events {
		out.Write(s.Event(e))
	}
	if fail != nil {
		out.Write(s.Fail(apierr.From(fail), "req-1"))
	} else {
		out.Write(s.End(provider.FinishToolCalls, counted))
	}
	return withoutIDs([]byte(out.String()))
}

func native(text string) provider.Event { return provider.Event{Native: []byte(text)} }

func TestStream(t *testing.T) {
	own := []provider.Event{
		{Reasoning: "hm"},
		{Text: "I "},
		{ToolCalls: []provider.ToolCall{{Index: 2, ID: "a", Name: "f", Arguments: `{"x"`}}},
		{Text: "call"},
		{ToolCalls: []provider.ToolCall{{Index: 4, ID: "b", Name: "g"}}},
		{ToolCalls: []provider.ToolCall{{Index: 2, Arguments: `:1}`}}},
		{Usage: &provider.Usage{}},
	}
	theirs := []provider.Event{
		native(`{"candidates":[{"content":{"parts":[{"text":"a"}]}}],"modelVersion":"x"}`),
		{Usage: &provider.Usage{}},
		native(`{"candidates":[{"content":{"parts":[{"text":"b"}]},"finishReason":"STOP"}],"modelVersion":"x"}`),
		native("{\n \"candidates\":[{\"finishReason\":\"STOP\"}],\n \"modelVersion\":\"x\", \"usageMetadata\":{}}"),
	}
	limited := apierr.New(apierr.KindRateLimited, apierr.ReasonRateLimited, "slow down")
	limited.RetryAfter = 1200 * time.Millisecond
	for name, c := range map[string]struct {
		writer writer
		events []provider.Event
		fail   error
	}{
		"stream": {writer{}, own, nil}, "thoughts": {writer{thoughts: true}, own, nil}, "array": {writer{array: true}, own, nil}, "empty": {writer{}, nil, nil},
		"relayed": {writer{}, theirs, nil}, "relayed_array": {writer{array: true}, theirs, nil}, "relayed_nothing": {writer{array: true}, []provider.Event{native("{}")}, nil},
		"fails": {writer{}, own[:2], limited}, "fails_array": {writer{array: true}, own[:2], limited}, "fails_first": {writer{array: true}, nil, errors.New("secret")},
		"fails_relayed": {writer{}, theirs[:3], limited},
	} {
		t.Run(name, func(t *testing.T) {
			got := streamed(c.writer, c.events, c.fail)
			if strings.Contains(got, "secret") {
				t.Errorf("the cause is shown: %s", got)
			}
			golden(t, name+".stream", got)
			checkFrames(t, c.writer, got)
		})
	}
}

// checkFrames reads a stream as Google's SDKs do: each event is "data:" and JSON on one line, or the whole is an array.
func checkFrames(t *testing.T, w writer, text string) {
	t.Helper()
	if w.array {
		if !json.Valid([]byte(text)) || text[0] != '[' {
			t.Errorf("no array: %s", text)
		}
		return
	}
	events := strings.Split(text, "\r\n\r\n")
	for _, event := range events[:len(events)-1] {
		data, ok := strings.CutPrefix(event, "data: ")
		if !ok || strings.Contains(event, "\n") || !json.Valid([]byte(data)) {
			t.Errorf("no event: %q", event)
		}
	}
	if events[len(events)-1] != "" {
		t.Errorf("the stream ends with %q", events[len(events)-1])
	}
}

// The end of a relayed answer waits for its record.
func TestLastChunkWaits(t *testing.T) {
	s := writer{}.Stream(dialect.Reply{Model: "m"})
	if got := s.Event(native(`{"candidates":[{"finishReason":"STOP"}]}`)); len(got) > 0 {
		t.Errorf("%s was written before the record", got)
	}
	if got := string(s.End(provider.FinishStop, ledger.Report{})); !strings.Contains(got, "STOP") {
		t.Errorf("the end is %q", got)
	}
	for array, want := range map[bool]string{true: "\n", false: "\r\n\r\n"} {
		if got := string(writer{array: array}.Stream(dialect.Reply{}).Ping()); got != want {
			t.Errorf("a ping is %q, want %q", got, want)
		}
	}
}

func TestErrors(t *testing.T) {
	for name, e := range map[string]*apierr.Error{
		"invalid": apierr.Invalid("generationConfig.maxOutputTokens", "must be a number"), "unauthenticated": apierr.New(apierr.KindUnauthenticated, apierr.ReasonUnauthenticated, "no key"),
		"unavailable": apierr.Unavailable("away", errors.New("secret")),
	} {
		body, err := json.MarshalIndent(ErrorBody(e, "req-1"), "", "  ")
		if err != nil || strings.Contains(string(body), "secret") {
			t.Errorf("%s: %s, %v", name, body, err)
		}
		golden(t, name+".error.json", string(body)+"\n")
	}
	for kind, want := range map[apierr.Kind]string{
		apierr.KindNotFound: "NOT_FOUND", apierr.KindForbidden: "PERMISSION_DENIED", apierr.KindConflict: "ABORTED", apierr.KindRateLimited: "RESOURCE_EXHAUSTED",
		apierr.KindCanceled: "CANCELLED", apierr.KindTimeout: "DEADLINE_EXCEEDED", apierr.KindInternal: "INTERNAL", apierr.KindUpstream: "UNAVAILABLE", apierr.KindTooLarge: "INVALID_ARGUMENT",
	} {
		if got := statusName(kind.HTTPStatus()); got != want {
			t.Errorf("kind %d is %s, want %s", kind, got, want)
		}
	}
}

func TestModels(t *testing.T) {
	got, err := json.MarshalIndent(Dialect{}.Models([]provider.Target{{Provider: "p", Model: "a/b"}}), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "models.json", string(got)+"\n")
	if empty, _ := json.Marshal(Dialect{}.Models(nil)); string(empty) != `{"models":[]}` {
		t.Errorf("no models are %s", empty)
	}
}
