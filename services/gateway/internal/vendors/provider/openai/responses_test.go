package openai_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/s2"
	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/openai"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit/growth"
)

// responding is a server with the Responses API.
var responding = provider.Settings{Name: "openai", BaseURL: "http://vendor.example/v1", Responses: new(true)}

func ofResponses(body string) *provider.Chat {
	return &provider.Chat{Model: "ours", Native: &provider.Native{Dialect: openai.ResponsesName, Body: json.RawMessage(body)}}
}

func TestResponsesBodies(t *testing.T) {
	const head = `{"model":"ours","store":false`
	for name, c := range map[string]struct {
		stream     bool
		body, want string
	}{
		"as it came":              {false, `{"model":"theirs","input":"hi","x":{"n":1.50}}`, head + `,"input":"hi","x":{"n":1.50}}`},
		"streamed":                {true, `{"input":"hi","stream":false,"stream_options":{"include_obfuscation":false}}`, head + `,"input":"hi","stream_options":{"include_obfuscation":false},"stream":true}`},
		"state is the gateway's":  {false, `{"store":true,"background":true,"previous_response_id":"resp_1","input":"hi"}`, head + `,"input":"hi"}`},
		"in other letters":        {false, `{"Store":true,"\u006dodel":"dear","STREAM":true}`, head + `}`},
		"ids of the gateway":      {false, `{"input":[{"id":"msg_sw0123","type":"message","role":"user","content":"a_sw"},{"id":"msg_1","role":"user","content":"b"}]}`, head + `,"input":[{"type":"message","role":"user","content":"a_sw"},{"id":"msg_1","role":"user","content":"b"}]}`},
		"its own reasoning":       {false, `{"input":[{"type":"reasoning","summary":[],"encrypted_content":"` + sealedAt("openai") + `"}]}`, head + `,"input":[{"type":"reasoning","summary":[],"encrypted_content":"gAAA"}]}`},
		"another host's":          {false, `{"input":[{"type":"reasoning","summary":[],"encrypted_content":"` + sealedAt("azure") + `"},{"role":"user","content":"a"}]}`, head + `,"input":[{"role":"user","content":"a"}]}`},
		"reasoning of other ones": {false, `{"input":[{"type":"reasoning","summary":[],"encrypted_content":"swy1.e30"},{"type":"reasoning","summary":[],"encrypted_content":"gAAA"}]}`, head + `,"input":[{"type":"reasoning","summary":[],"encrypted_content":"gAAA"}]}`},
		"reasoning by its id":     {false, `{"input":[{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":null},{"type":"reasoning","id":"rs_2","summary":[],"content":[{"type":"reasoning_text","text":"So."}]}]}`, head + `,"input":[{"type":"reasoning","id":"rs_2","summary":[],"content":[{"type":"reasoning_text","text":"So."}]}]}`},
		"its own compaction":      {false, `{"input":[{"type":"compaction","id":"cmp_1","encrypted_content":"` + sealedAt("openai") + `"}]}`, head + `,"input":[{"type":"compaction","id":"cmp_1","encrypted_content":"gAAA"}]}`},
		"another's compaction":    {false, `{"input":[{"type":"compaction","encrypted_content":"` + sealedAt("azure") + "." + compressed(`[{"id":"msg_sw1","role":"user","content":"a"},{"type":"reasoning","summary":[],"encrypted_content":"`+sealedAt("azure")+`"}]`) + `"},{"role":"user","content":"b"}]}`, head + `,"input":[{"role":"user","content":"a"},{"role":"user","content":"b"}]}`},
		"a text like an id":       {false, `{"input":"msg_sw0123 swy1."}`, head + `,"input":"msg_sw0123 swy1."}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := sending(t, responding, ofResponses(c.body), c.stream)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("sent (-want +got):\n%s", diff)
			}
		})
	}
	alone := `{"input":[{"type":"compaction","encrypted_content":"` + sealedAt("azure") + `"}]}`
	nested := `{"input":[{"type":"compaction","encrypted_content":"` + sealedAt("azure") + "." + compressed(`[{"type":"compaction","encrypted_content":"`+sealedAt("azure")+`"}]`) + `"}]}`
	for _, body := range []string{"", "[]", "{", `"a"`, "null", alone, nested} {
		got, err := sending(t, responding, ofResponses(body), true)
		if e := apierr.ClassPolicy; got != "" || classOf(err) != e {
			t.Errorf("%q: %v, sent %q, want a policy error and nothing sent", body, err, got)
		}
	}
}

// The vendor stores nothing, so a model that reasons must give its reasoning away, encrypted, or the next turn can't go on
// from it. Models that don't reason refuse to.
func TestReasoningIsAskedForEncrypted(t *testing.T) {
	const encrypted = `"reasoning.encrypted_content"`
	config := provider.Settings{Name: "openai", BaseURL: "https://api.openai.com/v1"}
	for name, c := range map[string]struct{ model, body, want string }{
		"not asked for":         {"gpt-5-mini", `{"input":"hi"}`, `{"model":"gpt-5-mini","store":false,"input":"hi","include":[` + encrypted + `]}`},
		"asked for":             {"o3", `{"include":[` + encrypted + `],"input":"hi"}`, `{"model":"o3","store":false,"include":[` + encrypted + `],"input":"hi"}`},
		"other things":          {"o3", `{"include":["web_search_call.results"]}`, `{"model":"o3","store":false,"include":[` + encrypted + `,"web_search_call.results"]}`},
		"nothing":               {"o3", `{"include":null}`, `{"model":"o3","store":false,"include":[` + encrypted + `]}`},
		"a model that does not": {"gpt-4o", `{"include":[],"input":"hi"}`, `{"model":"gpt-4o","store":false,"include":[],"input":"hi"}`},
	} {
		chat := ofResponses(c.body)
		chat.Model = c.model
		if got, _ := sending(t, config, chat, false); got != c.want {
			t.Errorf("%s: sent %s, want %s", name, got, c.want)
		}
	}
	chat := ofResponses(`{}`)
	chat.Model = "gpt-oss-120b"
	if got, _ := sending(t, responding, chat, false); strings.Contains(got, "include") {
		t.Errorf("another server was sent %s", got)
	}
}

// sealedAt returns encrypted reasoning that a provider made with the credential of these tests.
func sealedAt(name string) string {
	text, _ := json.Marshal(map[string]openai.Sealed{"sealed": {Provider: name, Account: providertest.Credential().Fingerprint, Content: "gAAA"}})
	return openai.OwnState + base64.RawURLEncoding.EncodeToString(text)
}

// compressed returns items as they travel with a compaction.
func compressed(items string) string {
	return base64.RawURLEncoding.EncodeToString(s2.Encode(nil, []byte(items)))
}

// A vendor's compaction leaves with the items that it stands for, earlier ones among them, unless they are too many.
func TestCompactionIsSealed(t *testing.T) {
	const answer = `{"object":"response.compaction","output":[{"type":"compaction","encrypted_content":"gAAA"}],"usage":{"input_tokens":9,"output_tokens":4}}`
	earlier := `{"type":"compaction","encrypted_content":"` + sealedAt("azure") + "." + compressed(`[{"role":"user","content":"a"}]`) + `"}`
	for input, want := range map[string]string{
		earlier + `,{"role":"user","content":"b"}`:                                  `[{"role":"user","content":"a"},{"role":"user","content":"b"}]`,
		`{"role":"user","content":"` + strings.Repeat("a", openai.MaxBehind) + `"}`: "",
	} {
		chat := ofResponses(`{"input":[` + input + `]}`)
		chat.Native.Dialect = openai.CompactionName
		whole, err := respondingWith(t, "application/json", answer).Chat(t.Context(), providertest.Credential(), chat)
		if err != nil || whole.Usage.Input != 9 || whole.Usage.Output != 4 {
			t.Fatalf("%+v, %v, want 9 and 4 tokens", whole, err)
		}
		sealed, ok := openai.OpenSealed(gjson.GetBytes(whole.Native, "output.0.encrypted_content").Str)
		items, has := sealed.Behind()
		if !ok || sealed.Content != "gAAA" || has != (want != "") || string(items) != want {
			t.Errorf("opened %t, %q, behind it %t %.200s; want %.200s", ok, sealed.Content, has, items, want)
		}
	}
}

// Encrypted reasoning leaves with the place where it was made, in each event and in a whole answer.
func TestReasoningIsSealed(t *testing.T) {
	const item = `{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAA"}`
	sealed := strings.Replace(item, "gAAA", sealedAt("openai"), 1)
	whole, err := respondingWith(t, "application/json", `{"status":"completed","output":[`+item+`,{"type":"message","content":[]}]}`).Chat(t.Context(), providertest.Credential(), ofResponses(`{}`))
	if want := `{"status":"completed","output":[` + sealed + `,{"type":"message","content":[]}]}`; err != nil || string(whole.Native) != want {
		t.Errorf("%+v, %v, want %s", whole, err, want)
	}
	stream, err := respondingWith(t, "text/event-stream", sseOf(`{"type":"response.output_item.done","output_index":0,"item":`+item+`}`,
		`{"type":"response.completed","response":{"status":"completed","output":[`+item+`]}}`)).StreamChat(t.Context(), providertest.Credential(), ofResponses(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	frames, _, err := providertest.Frames(stream)
	if err != nil || len(frames) != 2 || !strings.Contains(frames[0].Data, sealed) || !strings.Contains(frames[1].Data, sealed) {
		t.Errorf("%q, %v, want %s in both", frames, err, sealed)
	}
	if opened, ok := openai.OpenSealed(sealedAt("x")); !ok || opened.Provider != "x" || opened.Content != "gAAA" {
		t.Errorf("opened %+v, %t", opened, ok)
	}
	for _, other := range []string{"", "gAAA", "swy1.!", "swy1.e30"} {
		if opened, ok := openai.OpenSealed(other); ok {
			t.Errorf("%q: %+v", other, opened)
		}
	}
}

func classOf(err error) apierr.Class {
	if e, ok := err.(*provider.Error); ok { //nolint:errorlint // Adapters return it unwrapped.
		return e.Class
	}
	return ""
}

// Servers that are known to have the API, and those that are said to, take its requests as they came; others get the
// chat.
func TestWhoTakesResponses(t *testing.T) {
	for name, c := range map[string]struct {
		settings provider.Settings
		form     string
		want     bool
	}{
		"OpenAI":              {provider.Settings{BaseURL: "https://api.openai.com/v1"}, "responses", true},
		"OpenAI, switched":    {provider.Settings{BaseURL: "https://api.openai.com/v1", Responses: new(false)}, "responses", false},
		"Azure":               {provider.Settings{BaseURL: "https://x.openai.azure.com/openai/v1"}, "responses", true},
		"Azure's deployments": {provider.Settings{BaseURL: "https://x.openai.azure.com", APIVersion: "2024-10-21"}, "responses", false},
		"a server":            {provider.Settings{BaseURL: "http://127.0.0.1:8000"}, "responses", false},
		"a server that does":  {provider.Settings{BaseURL: "http://127.0.0.1:8000", Responses: new(true)}, "responses", true},
		"its own dialect":     {provider.Settings{BaseURL: "http://127.0.0.1:8000"}, "openai", true},
		"another dialect":     {provider.Settings{BaseURL: "https://api.openai.com/v1"}, "anthropic", false},
		"no address":          {provider.Settings{}, "responses", false},
	} {
		if got := slices.Contains(openai.Dialect().FormsOf(c.settings)("gpt-5"), c.form); got != c.want {
			t.Errorf("%s takes %s: %t, want %t", name, c.form, got, c.want)
		}
	}
	chat := ofResponses(`{"input":"of the form"}`)
	chat.Messages = []provider.Message{{Role: provider.RoleUser, Content: []provider.Part{{Text: "hi"}}}}
	if got, _ := sending(t, anyServer, chat, false); !strings.Contains(got, `"messages":[{"role":"user","content":"hi"}]`) || strings.Contains(got, "of the form") {
		t.Errorf("sent %s, want the chat", got)
	}
}

const wholeResponse = `{"id":"resp_1","object":"response","status":"completed","error":null,"model":"m-1","output":[
	{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"Hm."}],"content":[{"type":"reasoning_text","text":"So."}]},
	{"type":"web_search_call","id":"ws_1","action":{"type":"search","query":"q"}},
	{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"Hello"},{"type":"output_text","text":" there"}]},
	{"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{\"a\":1}"},
	{"type":"custom_tool_call","id":"ctc_1","call_id":"c2","name":"patch","input":"x"}],
	"usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":4,"cache_write_tokens":1},"output_tokens":7,"output_tokens_details":{"reasoning_tokens":2},"total_tokens":17}}`

func TestResponse(t *testing.T) {
	p := respondingWith(t, "application/json", wholeResponse)
	got, err := p.Chat(t.Context(), provider.Credential{}, ofResponses(`{"input":"hi"}`))
	if err != nil {
		t.Fatal(err)
	}
	want := &provider.Answer{
		Text: "Hello there", Reasoning: "Hm.So.", Other: `{"type":"search","query":"q"}patchx`, FinishReason: provider.FinishToolCalls, Model: "m-1",
		ToolCalls: []provider.ToolCall{{ID: "c1", Name: "f", Arguments: `{"a":1}`}},
		Usage:     &provider.Usage{Input: 5, CacheRead: 4, CacheWrite: 1, Output: 5, Reasoning: 2},
		Native:    json.RawMessage(wholeResponse),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func respondingWith(tb testing.TB, kind, text string) *openai.Provider {
	tb.Helper()
	config := responding
	config.Transport = providertest.Canned(http.StatusOK, http.Header{"Content-Type": {kind}}, text)
	p, err := openai.New(config)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func TestResponseEnds(t *testing.T) {
	for text, want := range map[string]struct {
		finish provider.FinishReason
		class  apierr.Class
	}{
		`{"status":"completed","output":[]}`:                                                                 {finish: provider.FinishStop},
		`{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[]}`:            {finish: provider.FinishLength},
		`{"status":"incomplete","incomplete_details":{"reason":"content_filter"},"output":[]}`:               {finish: provider.FinishContentFilter},
		`{"status":"completed","output":[{"type":"message","content":[{"type":"refusal","refusal":"no"}]}]}`: {finish: provider.FinishContentFilter},
		`{"status":"failed","error":{"code":"rate_limit_exceeded","message":"slow"},"output":[]}`:            {class: apierr.ClassRateLimit},
		`{"status":"failed","error":{"code":"context_length_exceeded","message":"long"},"output":[]}`:        {class: apierr.ClassContextOverflow},
		`{"status":"failed","error":null,"output":[]}`:                                                       {class: apierr.ClassServerError},
		`{"status":"queued","output":[]}`:                                                                    {class: apierr.ClassServerError},
		`{"status":"completed"}`:                                                                             {class: apierr.ClassServerError},
		`{"error":{"message":"bad","type":"server_error"}}`:                                                  {class: apierr.ClassServerError},
		`[]`: {class: apierr.ClassServerError},
		`{`:  {class: apierr.ClassServerError},
	} {
		answer, err := respondingWith(t, "application/json", text).Chat(t.Context(), provider.Credential{}, ofResponses(`{}`))
		if classOf(err) != want.class || err == nil && answer.FinishReason != want.finish {
			t.Errorf("%s: %+v, %v, want %+v", text, answer, err, want)
		}
	}
}

// sseOf writes events as the vendor does.
func sseOf(data ...string) string {
	var out strings.Builder
	for _, one := range data {
		var e struct{ Type string }
		_ = json.Unmarshal([]byte(one), &e)
		out.WriteString("event: " + e.Type + "\ndata: " + one + "\n\n")
	}
	return out.String()
}

var streamedResponse = []string{
	`{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","status":"in_progress","output":[]}}`,
	`{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[]}}`,
	`{"type":"response.reasoning_summary_text.delta","output_index":0,"delta":"Hm."}`,
	`{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1"}}`,
	`{"type":"response.output_item.added","output_index":1,"item":{"type":"message","id":"msg_1"}}`,
	`{"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":"Hel"}`,
	`{"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":"lo"}`,
	`{"type":"response.output_item.done","output_index":1,"item":{"type":"message","id":"msg_1"}}`,
	`{"type":"response.output_item.added","output_index":2,"item":{"type":"function_call","call_id":"c1","name":"f","arguments":""}}`,
	`{"type":"response.output_item.added","output_index":3,"item":{"type":"function_call","call_id":"c2","name":"g","arguments":""}}`,
	`{"type":"response.function_call_arguments.delta","output_index":2,"delta":"{\"a\":"}`,
	`{"type":"response.function_call_arguments.delta","output_index":2,"delta":"1}"}`,
	`{"type":"response.output_item.done","output_index":2,"item":{"type":"function_call","call_id":"c1","name":"f","arguments":"{\"a\":1}"}}`,
	`{"type":"response.output_item.done","output_index":3,"item":{"type":"function_call","call_id":"c2","name":"g","arguments":"{}"}}`,
	`{"type":"response.custom_tool_call_input.delta","output_index":4,"delta":"x"}`,
	`{"type":"response.output_item.done","output_index":4,"item":{"type":"custom_tool_call","call_id":"c3","name":"patch","input":"x"}}`,
	`{"type":"response.completed","response":{"status":"completed","output":[{"type":"reasoning"},{"type":"message"},{"type":"function_call","call_id":"c1","name":"f","arguments":"{\"a\":1}"},{"type":"function_call","call_id":"c2","name":"g","arguments":"{}"},{"type":"custom_tool_call","name":"patch"}],"usage":{"input_tokens":3,"output_tokens":9,"output_tokens_details":{"reasoning_tokens":1}}}}`,
}

// A stream means the same as the whole answer, and every event is relayed byte for byte.
func TestResponseStream(t *testing.T) {
	p := respondingWith(t, "text/event-stream", sseOf(streamedResponse...))
	stream, err := p.StreamChat(t.Context(), provider.Credential{}, ofResponses(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	frames, answer, err := providertest.Frames(stream)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, frame := range frames {
		got = append(got, frame.Data)
	}
	if diff := cmp.Diff(streamedResponse, got); diff != "" {
		t.Errorf("frames (-want +got):\n%s", diff)
	}
	want := &provider.Answer{
		Text: "Hello", Reasoning: "Hm.", Other: "xpatch", FinishReason: provider.FinishToolCalls,
		ToolCalls: []provider.ToolCall{{Index: 0, ID: "c1", Name: "f", Arguments: `{"a":1}`}, {Index: 1, ID: "c2", Name: "g", Arguments: "{}"}},
		Usage:     &provider.Usage{Input: 3, Output: 8, Reasoning: 1},
	}
	if diff := cmp.Diff(want.ToolCalls, answer.ToolCalls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if answer.Text != want.Text || answer.Reasoning != want.Reasoning || answer.FinishReason != want.FinishReason {
		t.Errorf("%+v, want %+v", answer, want)
	}
	if diff := cmp.Diff(want.Usage, answer.Usage); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}

func TestResponseStreamFails(t *testing.T) {
	const created = `{"type":"response.created","response":{}}`
	calls := []string{created}
	for i := range provider.MaxToolCalls + 1 {
		calls = append(calls, fmt.Sprintf(`{"type":"response.output_item.added","output_index":%d,"item":{"type":"function_call","call_id":"c%d","name":"f"}}`, i, i))
	}
	begun := []string{created, `{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"c","name":"f"}}`, `{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{}"}`}
	again := func(kind string, item string) []string {
		if kind == "response.completed" {
			return append(slices.Clone(begun), `{"type":"response.completed","response":{"output":[`+item+`]}}`)
		}
		return append(slices.Clone(begun), `{"type":"`+kind+`","output_index":0,"item":`+item+`}`)
	}
	for name, c := range map[string]struct {
		events []string
		class  apierr.Class
	}{
		"cut off":              {[]string{created}, apierr.ClassTransient},
		"no event":             {nil, apierr.ClassTransient},
		"failed":               {[]string{created, `{"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"slow"}}}`}, apierr.ClassRateLimit},
		"a flat error":         {[]string{created, `{"type":"error","code":"context_length_exceeded","message":"too long"}`}, apierr.ClassContextOverflow},
		"a nested error":       {[]string{created, `{"type":"error","error":{"code":"rate_limit_exceeded","message":"slow"}}`}, apierr.ClassRateLimit},
		"no JSON":              {[]string{created, `{`}, apierr.ClassServerError},
		"too many calls":       {calls, apierr.ClassServerError},
		"other arguments":      {again("response.output_item.done", `{"type":"function_call","call_id":"c","name":"f","arguments":"{ }"}`), apierr.ClassServerError},
		"another name":         {again("response.output_item.done", `{"type":"function_call","call_id":"c","name":"g","arguments":"{}"}`), apierr.ClassServerError},
		"another call":         {again("response.output_item.added", `{"type":"function_call","call_id":"d","name":"f"}`), apierr.ClassServerError},
		"other at the end":     {again("response.completed", `{"type":"function_call","call_id":"c","name":"f","arguments":"{\"x\":1}"}`), apierr.ClassServerError},
		"another content type": {nil, apierr.ClassServerError},
	} {
		kind := "text/event-stream"
		if name == "another content type" {
			kind = "application/json"
		}
		stream, err := respondingWith(t, kind, sseOf(c.events...)).StreamChat(t.Context(), provider.Credential{}, ofResponses(`{}`))
		if err == nil {
			_, _, err = providertest.Frames(stream)
		}
		if classOf(err) != c.class {
			t.Errorf("%s: %v, want %s", name, err, c.class)
		}
	}
}

// Any bytes as a stream end with a typed error or io.EOF.
func FuzzResponseStream(f *testing.F) {
	f.Add(sseOf(streamedResponse...))
	f.Add(sseOf(`{"type":"response.output_item.done","output_index":-1,"item":{"type":"function_call"}}`, `{"type":"response.incomplete","response":{"output":[{"type":"function_call"}]}}`))
	f.Add("event: error\ndata: {\"error\":\"x\"}\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		stream, err := respondingWith(t, "text/event-stream", text).StreamChat(context.Background(), provider.Credential{}, ofResponses(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = stream.Next()
		}
		if err != io.EOF { //nolint:errorlint // The end of a stream is io.EOF itself.
			typed(t, err)
		}
		_ = stream.Close()
	})
}

func TestResponseStreamGrowsLinearly(t *testing.T) {
	frame := func(data string) string { return "data: " + data + "\n\n" }
	inputs := []growth.Input{
		growth.Repeat("deltas of text", "", frame(`{"type":"response.output_text.delta","delta":"abcd"}`), ""),
		growth.Number("calls", "", frame(`{"type":"response.output_item.added","output_index":#,"item":{"type":"function_call","call_id":"c#","name":"f"}}`), ""),
		growth.Repeat("arguments", frame(`{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"c","name":"f"}}`), frame(`{"type":"response.function_call_arguments.delta","output_index":0,"delta":"abcd"}`), ""),
		growth.Repeat("items of the last event", frame(`{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"c","name":"f"}}`)+`data: {"type":"response.completed","response":{"output":[{"type":"message"}`, `,{"type":"function_call","name":"f"}`, "]}}\n\n"),
		growth.Repeat("unknown events", "", frame(`{"type":"response.x.delta","delta":"abcd"}`), ""),
	}
	growth.Linear(t, growth.Each(inputs, func(text []byte) {
		stream, err := respondingWith(t, "text/event-stream", string(text)).StreamChat(context.Background(), provider.Credential{}, ofResponses(`{}`))
		for err == nil {
			_, err = stream.Next()
		}
		_ = stream.Close()
	})...)
	growth.Linear(t, growth.Each([]growth.Input{
		growth.Repeat("items", `{"status":"completed","output":[{"type":"message","content":[]}`, `,{"type":"message","content":[{"type":"output_text","text":"a"}]}`, "]}"),
		growth.Repeat("parts", `{"status":"completed","output":[{"type":"message","content":[{"text":"a"}`, `,{"type":"output_text","text":"a"}`, "]}]}"),
		growth.Repeat("other items", `{"status":"completed","output":[{"type":"x"}`, `,{"type":"x","name":"a","input":"b"}`, "]}"),
	}, func(text []byte) {
		_, _ = respondingWith(t, "application/json", string(text)).Chat(context.Background(), provider.Credential{}, ofResponses(`{}`))
	})...)
	growth.Linear(t, growth.Each([]growth.Input{
		growth.Repeat("ids of the gateway", `{"input":[{"id":"msg_sw1"}`, `,{"id":"msg_sw1","role":"user","content":"a"}`, "]}"),
		growth.Repeat("reasoning of the gateway", `{"input":[{"id":"msg_sw1"}`, `,{"type":"reasoning","encrypted_content":"swy1.x"}`, "]}"),
		growth.Repeat("reasoning by its id", `{"input":[{"role":"user","content":"a"}`, `,{"type":"reasoning","id":"rs_1","summary":[],"content":[]}`, "]}"),
		growth.Repeat("values of include", `{"include":["a"`, `,"b"`, "]}"), growth.Repeat("lists of include", `{"input":"a"`, `,"include":["a"]`, "}"),
		growth.Number("unknown members", `{"input":"a"`, `,"x#":1`, "}"),
	}, func(body []byte) {
		chat := ofResponses(string(body))
		chat.Model = "o3"
		_, _ = sending(t, provider.Settings{Name: "openai", BaseURL: "https://api.openai.com/v1"}, chat, false)
	})...)
}
