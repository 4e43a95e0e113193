package anthropic

import (
	"encoding/json"
	"math/rand/v2"
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

var varying = regexp.MustCompile(`"id":"msg_[0-9a-f]{32}"`)

func write(s dialect.Stream, events []provider.Event, finish provider.FinishReason, report ledger.Report) string {
	var out strings.Builder
	for _, e := range events {
		out.Write(s.Event(e))
	}
	out.Write(s.End(finish, report))
	return varying.ReplaceAllString(out.String(), `"id":"msg_0"`)
}

var report = ledger.Report{Prompt: 10, Completion: 5, Usage: provider.Usage{Input: 3, CacheRead: 4, CacheWrite: 2, CacheWriteLong: 1, Output: 3, Reasoning: 2}}

const usageText = `"usage":{"input_tokens":3,"cache_creation_input_tokens":3,"cache_read_input_tokens":4,"cache_creation":{"ephemeral_5m_input_tokens":2,"ephemeral_1h_input_tokens":1},"output_tokens":5}`

// Blocks are numbered 0, 1, …, each is closed before the next one opens, and deltas of an earlier one are not lost.
func TestStreamAnew(t *testing.T) {
	s := Dialect{}.Stream(dialect.Reply{Model: "m"})
	got := write(s, []provider.Event{
		{Text: "I "},
		{Text: "call"},
		{ToolCalls: []provider.ToolCall{{Index: 0, ID: "c1", Name: "f", Extra: []byte(`{"g":1}`)}}},
		{ToolCalls: []provider.ToolCall{{Index: 0, Arguments: `{"a":`}}},
		{ToolCalls: []provider.ToolCall{{Index: 1, ID: "c2", Name: "g", Arguments: `{"b"`}}},
		{ToolCalls: []provider.ToolCall{{Index: 0, Arguments: `1}`}, {Index: 1, Arguments: `:2}`}}},
		{Text: "late"},
	}, provider.FinishToolCalls, report)
	event := func(name, rest string) string {
		return "event: " + name + "\ndata: {\"type\":\"" + name + `"` + rest + "}\n\n"
	}
	want := event("message_start", `,"message":{"id":"msg_0","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0},"output_tokens":0}}`) +
		event("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`) +
		event("content_block_delta", `,"index":0,"delta":{"type":"text_delta","text":"I "}`) +
		event("content_block_delta", `,"index":0,"delta":{"type":"text_delta","text":"call"}`) +
		event("content_block_stop", `,"index":0`) +
		event("content_block_start", `,"index":1,"content_block":{"type":"tool_use","id":"c1","name":"f","input":{},"extra_content":{"g":1}}`) +
		event("content_block_delta", `,"index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}`) +
		event("content_block_delta", `,"index":1,"delta":{"type":"input_json_delta","partial_json":"1}"}`) +
		event("content_block_stop", `,"index":1`) +
		event("content_block_start", `,"index":2,"content_block":{"type":"text","text":""}`) +
		event("content_block_delta", `,"index":2,"delta":{"type":"text_delta","text":"late"}`) +
		event("content_block_stop", `,"index":2`) +
		event("content_block_start", `,"index":3,"content_block":{"type":"tool_use","id":"c2","name":"g","input":{}}`) +
		event("content_block_delta", `,"index":3,"delta":{"type":"input_json_delta","partial_json":"{\"b\":2}"}`) +
		event("content_block_stop", `,"index":3`) +
		event("message_delta", `,"delta":{"stop_reason":"tool_use","stop_sequence":null},`+usageText) + event("message_stop", "")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEmptyStream(t *testing.T) {
	got := write(Dialect{}.Stream(dialect.Reply{Model: "m"}), nil, provider.FinishContentFilter, report)
	for _, want := range []string{"event: message_start", `"stop_reason":"refusal"`} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
	if strings.Contains(got, "content_block") {
		t.Errorf("a block is in %s", got)
	}
	if !strings.HasSuffix(got, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n") {
		t.Errorf("message_stop does not end %s", got)
	}
}

// reassemble parses a stream as SDKs do: a delta belongs to the block that began last.
func reassemble(t *testing.T, stream string) (text string, calls []provider.ToolCall) {
	t.Helper()
	open, next := false, 0
	for event := range strings.SplitSeq(strings.TrimSuffix(stream, "\n\n"), "\n\n") {
		_, data, _ := strings.Cut(event, "\ndata: ")
		var e struct {
			Type         string
			Index        int
			ContentBlock struct{ Type, ID, Name string } `json:"content_block"`
			Delta        struct {
				Text        string
				PartialJSON string `json:"partial_json"`
			}
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatalf("%v: %s", err, event)
		}
		switch e.Type {
		case "content_block_start":
			if open || e.Index != next {
				t.Fatalf("block %d opens, open %v, next %d", e.Index, open, next)
			}
			open = true
			if e.ContentBlock.Type == "tool_use" {
				calls = append(calls, provider.ToolCall{ID: e.ContentBlock.ID, Name: e.ContentBlock.Name})
			}
		case "content_block_delta":
			if !open || e.Index != next {
				t.Fatalf("a delta of block %d, open %v, at %d", e.Index, open, next)
			}
			text += e.Delta.Text
			if e.Delta.PartialJSON != "" {
				calls[len(calls)-1].Arguments += e.Delta.PartialJSON
			}
		case "content_block_stop":
			open = false
			next++
		}
	}
	if open {
		t.Error("a block is left open")
	}
	return text, calls
}

// In whatever order the pieces arrive, the reassembled stream equals the answer.
func TestStreamIsTheAnswer(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 4))
		calls := make([]provider.ToolCall, r.IntN(4))
		var events []provider.Event
		text := ""
		begun := 0
		for range r.IntN(30) {
			piece := string(rune('a' + r.IntN(26)))
			switch i := r.IntN(len(calls) + 1); {
			case i == len(calls):
				text += piece
				events = append(events, provider.Event{Text: piece})
			case i > begun: // A call begins after the one before it.
			default:
				d := provider.ToolCall{Index: i, Arguments: piece}
				if i == begun {
					begun++
					d.ID, d.Name = "c"+piece, "f"+piece
					calls[i].ID, calls[i].Name = d.ID, d.Name
				}
				calls[i].Arguments += piece
				events = append(events, provider.Event{ToolCalls: []provider.ToolCall{d}})
			}
		}
		gotText, gotCalls := reassemble(t, write(Dialect{}.Stream(dialect.Reply{}), events, "stop", report))
		if diff := cmp.Diff(calls[:begun], gotCalls); gotText != text || (diff != "" && begun > 0) {
			t.Fatalf("seed %d: text %q, want %q; calls (-want +got):\n%s", seed, gotText, text, diff)
		}
	}
}

// A provider's own events are forwarded unchanged except for the model's name; the last one waits until the answer is
// recorded.
func TestRelay(t *testing.T) {
	s := Dialect{}.Stream(dialect.Reply{Model: "mine"})
	var got string
	for _, e := range [][2]string{
		{"message_start", `{"type":"message_start","message":{"id":"x","model":"up-1","usage":{"input_tokens":5}}}`},
		{"content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}`},
		{"", `{"type": "ping"}`},
		{"brand_new", `{"type":"brand_new","message":{"model":"up-1"}}`},
		{"message_delta", `{"type":"message_delta","usage":{"output_tokens":2}}`},
		{"message_stop", `{"type":"message_stop"}`},
	} {
		got += string(s.Event(provider.Event{NativeType: e[0], Native: []byte(e[1])}))
	}
	want := "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"x\",\"model\":\"mine\",\"usage\":{\"input_tokens\":5}}}\n\n" +
		"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\"}}\n\n" +
		"event: ping\ndata: {\"type\": \"ping\"}\n\nevent: brand_new\ndata: {\"type\":\"brand_new\",\"message\":{\"model\":\"up-1\"}}\n\n" +
		"event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":2}}\n\n"
	if got != want {
		t.Errorf("before the record:\n%s\nwant\n%s", got, want)
	}
	if got, want := string(s.End("stop", report)), "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"; got != want {
		t.Errorf("after the record: %s", got)
	}
}

func TestFail(t *testing.T) {
	got := string(Dialect{}.Stream(dialect.Reply{}).Fail(apierr.New(apierr.KindUpstream, "stream_interrupted", "broke off"), "r"))
	want := "event: error\n" + `data: {"type":"error","error":{"type":"api_error","message":"broke off","code":"stream_interrupted","error_class":"server_error","retryable":true,"request_id":"r"},"request_id":"r"}` + "\n\n"
	if got != want {
		t.Errorf("%s", got)
	}
}

func TestAnswer(t *testing.T) {
	const head = `{"id":"msg_0","type":"message","role":"assistant","model":"m","content":`
	for name, tt := range map[string]struct {
		completion inference.Completion
		want       string
	}{
		"text":    {inference.Completion{Text: "<b>", FinishReason: "length", Report: report}, head + `[{"type":"text","text":"<b>"}],"stop_reason":"max_tokens","stop_sequence":null,` + usageText + `}`},
		"nothing": {inference.Completion{FinishReason: "stop", Report: report}, head + `[],"stop_reason":"end_turn","stop_sequence":null,` + usageText + `}`},
		"calls": {
			inference.Completion{ToolCalls: []provider.ToolCall{{ID: "a", Name: "f", Arguments: `{"x": 1}`}, {ID: "b", Name: "g"}, {ID: "c", Name: "h", Arguments: `{"cut`}}, FinishReason: "tool_calls", Report: report},
			head + `[{"type":"tool_use","id":"a","name":"f","input":{"x":1}},{"type":"tool_use","id":"b","name":"g","input":{}},{"type":"tool_use","id":"c","name":"h","input":{"raw_arguments":"{\"cut"}}],"stop_reason":"tool_use","stop_sequence":null,` + usageText + `}`,
		},
		"the provider's own": {inference.Completion{Native: []byte(`{"id":"x","model":"up","content":[{"type":"new"}]}`)}, `{"id":"x","model":"m","content":[{"type":"new"}]}`},
	} {
		got, err := Dialect{}.Answer(dialect.Reply{Model: "m"}, &tt.completion)
		if text := varying.ReplaceAllString(string(got), `"id":"msg_0"`); err != nil || text != tt.want {
			t.Errorf("%s: %v\n got %s\nwant %s", name, err, text, tt.want)
		}
	}
}

// Thinking of another vendor is a block before the text, signed as the gateway's.
func TestStreamOfThinking(t *testing.T) {
	got := write(Dialect{}.Stream(dialect.Reply{Model: "m"}), []provider.Event{{Reasoning: "H"}, {Reasoning: "m"}, {Text: "Yes"}}, provider.FinishStop, report)
	at := 0
	for _, want := range []string{
		`"content_block":{"type":"thinking","thinking":"","signature":""}`, `"delta":{"type":"thinking_delta","thinking":"H"}`, `"thinking":"m"`,
		`"delta":{"type":"signature_delta","signature":"switchyard"}`, `"type":"content_block_stop","index":0`,
		`"index":1,"content_block":{"type":"text","text":""}`, `"text":"Yes"`, `"type":"content_block_stop","index":1`,
	} {
		next := strings.Index(got[at:], want)
		if next < 0 {
			t.Fatalf("%s is not behind %s", want, got[:at])
		}
		at += next
	}
	whole, err := Dialect{}.Answer(dialect.Reply{Model: "m"}, &inference.Completion{Reasoning: "Hm", Text: "Yes"})
	if want := `"content":[{"type":"thinking","thinking":"Hm","signature":"switchyard"},{"type":"text","text":"Yes"}]`; err != nil || !strings.Contains(string(whole), want) {
		t.Errorf("%s, %v, want %s", whole, err, want)
	}
}
