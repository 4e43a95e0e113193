package responses

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

var varying = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`_sw[0-9a-f]{32}`), "_0"},
	{regexp.MustCompile(`"(created|completed)_at":\d+`), `"${1}_at":0`},
}

func fixed(text string) string {
	for _, v := range varying {
		text = v.pattern.ReplaceAllString(text, v.with)
	}
	return text
}

// exchange returns a request with a tool of each kind.
func exchange(t *testing.T) *Exchange {
	t.Helper()
	_, x, err := Read([]byte(`{"input":"hi","instructions":"be kind","tools":[{"type":"function","name":"f"},{"type":"custom","name":"patch"},
		{"type":"namespace","name":"crm","tools":[{"type":"function","name":"find"}]},{"type":"tool_search","execution":"client"}]}`), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	x.SetKeep(func(json.RawMessage) bool { return true })
	x.echo.Tools = json.RawMessage("[]") // Their repetition has a test of its own.
	return x
}

var report = ledger.Report{Prompt: 10, Completion: 5, Usage: provider.Usage{Input: 3, CacheRead: 4, CacheWrite: 2, CacheWriteLong: 1, Output: 3, Reasoning: 2}}

func write(s dialect.Stream, events []provider.Event, finish provider.FinishReason) string {
	var out strings.Builder
	for _, e := range events {
		out.Write(s.Event(e))
	}
	out.Write(s.End(finish, report))
	return fixed(out.String())
}

// Every item is added, grows, is done and stands in the terminal event, whatever the order of what a vendor sends.
func TestStreamAnew(t *testing.T) {
	for name, c := range map[string]struct {
		events []provider.Event
		finish provider.FinishReason
	}{
		"text":      {[]provider.Event{{Text: "Hel"}, {Text: "lo \"<é\n"}}, provider.FinishStop},
		"empty":     {nil, provider.FinishStop},
		"cut":       {[]provider.Event{{Text: "Hel"}}, provider.FinishLength},
		"filtered":  {[]provider.Event{{Text: "No."}}, provider.FinishContentFilter},
		"reasoning": {[]provider.Event{{Reasoning: "Hm"}, {Reasoning: "m."}, {Text: "Yes"}, {Reasoning: "Or"}, {Text: "No"}}, provider.FinishStop},
		"calls": {[]provider.Event{
			{Reasoning: "Two."},
			{ToolCalls: []provider.ToolCall{{Index: 0, ID: "c1", Name: "f", Extra: []byte(`{"g":1}`)}}},
			{ToolCalls: []provider.ToolCall{{Index: 0, Arguments: `{"a":`}}},
			{ToolCalls: []provider.ToolCall{{Index: 1, ID: "c2", Name: "crm__find", Arguments: `{"b"`, Extra: []byte(`{"g":2}`)}}},
			{ToolCalls: []provider.ToolCall{{Index: 0, Arguments: `1}`}, {Index: 1, Arguments: `:2}`}}},
			{Text: "late"},
		}, provider.FinishToolCalls},
		"other_tools": {[]provider.Event{
			{Text: "I edit."},
			{ToolCalls: []provider.ToolCall{{Index: 0, ID: "c1", Name: "patch", Arguments: `{"inp`}}},
			{ToolCalls: []provider.ToolCall{{Index: 0, Arguments: `ut":"a\nb"}`}}},
			{ToolCalls: []provider.ToolCall{{Index: 1, ID: "c2", Name: "tool_search", Arguments: `{"q":1}`}}},
			{ToolCalls: []provider.ToolCall{{Index: 2, ID: "c3", Name: "unknown", Arguments: `{`}}},
			{ToolCalls: []provider.ToolCall{{Index: 2, Extra: []byte(`{"late":1}`)}}},
		}, provider.FinishToolCalls},
	} {
		t.Run(name, func(t *testing.T) {
			s := exchange(t).Stream(dialect.Reply{Model: "m"})
			golden(t, name+".sse", write(s, c.events, c.finish))
		})
	}
}

// The events have the numbers 0, 1, 2 …, name the response by one id, and each item by one.
func TestStreamIsConsistent(t *testing.T) {
	s := exchange(t).Stream(dialect.Reply{Model: "m"})
	var out strings.Builder
	for _, e := range []provider.Event{{Reasoning: "a"}, {Text: "b"}, {ToolCalls: []provider.ToolCall{{ID: "c", Name: "f", Arguments: "{}"}}}, {Text: "d"}} {
		out.Write(s.Event(e))
	}
	out.Write(s.End(provider.FinishToolCalls, report))
	responses, items := make(map[string]bool), make(map[int]string)
	for i, frame := range strings.Split(strings.TrimSuffix(out.String(), "\n\n"), "\n\n") {
		_, data, _ := strings.Cut(frame, "\ndata: ")
		var e struct {
			Type     string              `json:"type"`
			Sequence int                 `json:"sequence_number"`
			Response struct{ ID string } `json:"response"`
			Index    int                 `json:"output_index"`
			ItemID   string              `json:"item_id"`
			Item     struct{ ID string } `json:"item"`
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatalf("event %d: %v in %s", i, err, data)
		}
		if e.Sequence != i || !strings.HasPrefix(frame, "event: "+e.Type+"\n") {
			t.Errorf("event %d has the number %d: %s", i, e.Sequence, frame)
		}
		if e.Response.ID != "" {
			responses[e.Response.ID] = true
			continue
		}
		id := e.ItemID + e.Item.ID
		if known := items[e.Index]; known != "" && known != id {
			t.Errorf("event %d names item %d %s, and before %s", i, e.Index, id, known)
		}
		items[e.Index] = id
	}
	if len(responses) != 1 || len(items) != 4 {
		t.Errorf("%d ids of the response and %d items, want 1 and 4", len(responses), len(items))
	}
}

// A vendor's own events pass, with the response as the gateway keeps it; the last one waits.
func TestStreamRelayed(t *testing.T) {
	x := exchange(t)
	s := x.Stream(dialect.Reply{Model: "m"})
	frame := func(name, data string) provider.Event {
		return provider.Event{Native: []byte(data), NativeType: name}
	}
	var out strings.Builder
	for _, e := range []provider.Event{
		frame("response.created", `{"type":"response.created","sequence_number":0,"response":{"id":"resp_9","store":false,"model":"x-1","output":[]}}`),
		frame("response.output_text.delta", `{"type":"response.output_text.delta","sequence_number":1,"delta":"a","obfuscation":"zz"}`),
		frame("", `{"type":"response.web_search_call.searching","sequence_number":2}`),
		frame("response.completed", `{"type":"response.completed","sequence_number":3,"response":{"id":"resp_9","previous_response_id":null,"store":false,"model":"x-1","output":[{"id":"msg_1"}],"usage":null}}`),
	} {
		out.Write(s.Event(e))
	}
	if strings.Contains(out.String(), "response.completed") {
		t.Error("the terminal event did not wait for the record")
	}
	out.Write(s.End(provider.FinishStop, report))
	golden(t, "relayed.sse", fixed(out.String()))
}

// A failure is told in the two events that clients know, after what came before it.
func TestStreamFails(t *testing.T) {
	limited := apierr.New(apierr.KindRateLimited, "rate_limited", "slow down.")
	limited.RetryAfter = 1500 * time.Millisecond
	for name, err := range map[string]*apierr.Error{"fails_limited": limited, "fails_invalid": apierr.From(apierr.Invalid("input[0]", "is bad"))} {
		s := exchange(t).Stream(dialect.Reply{Model: "m"})
		out := string(s.Event(provider.Event{Text: "a"}))
		out += string(s.Fail(err, "req_1"))
		golden(t, name+".sse", fixed(out))
	}
}

func TestAnswer(t *testing.T) {
	for name, c := range map[string]inference.Completion{
		"text":     {Text: "hello", FinishReason: provider.FinishStop},
		"empty":    {FinishReason: provider.FinishStop},
		"cut":      {Text: "hel", FinishReason: provider.FinishLength},
		"filtered": {FinishReason: provider.FinishContentFilter},
		"all": {
			Text: "hello", Reasoning: "Hm.", FinishReason: provider.FinishToolCalls, ToolCalls: []provider.ToolCall{
				{ID: "c1", Name: "f", Arguments: "{}", Extra: []byte(`{"g":1}`)},
				{ID: "c2", Name: "patch", Arguments: `{"input":"x"}`},
				{ID: "c3", Name: "crm__find", Arguments: "{}"},
				{ID: "c4", Name: "tool_search", Arguments: `{"q":1}`},
				{ID: "c5", Name: "patch", Arguments: "plain"},
			},
		},
		"relayed": {Native: json.RawMessage(`{"id":"resp_9","object":"response","model":"x-1","store":false,"output":[{"id":"msg_1"}]}`)},
	} {
		t.Run(name, func(t *testing.T) {
			c.Report = report
			got, err := exchange(t).Answer(dialect.Reply{Model: "m"}, &c)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name+".json", fixed(string(got))+"\n")
		})
	}
}
