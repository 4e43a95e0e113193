package bedrock_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/bedrock"
	"switchyard.dev/services/gateway/internal/vendors/provider/eventstream"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
	"switchyard.dev/services/gateway/internal/vendors/provider/sse"
	"switchyard.dev/services/platform/apierr"
)

const ownBody = `{"model":"claude","max_tokens":9,"messages":[{"role":"user","content":"hi"}],` + ownUnknown + `,"stream":"perhaps","anthropic_version":"2023-06-01"}`

// ownUnknown is a part of a body that the gateway's fields don't hold.
const ownUnknown = `"top_k":4,"thinking":{"type":"enabled", "budget_tokens":1.0e4}`

// claudes is the dialect of bodies that their callers wrote in Anthropic's form.
func claudes() providertest.Dialect {
	return providertest.Dialect{
		New: newAs(claude, []byte(ownBody)), Testdata: filepath.Join("testdata", "claude"), Framing: framing(chunkFrame),
		Answers: claudesAnswers(),
		StreamErrors: map[string]provider.Error{
			"overloaded": {Class: apierr.ClassServerError, Code: "overloaded_error", Text: "Overloaded [redacted]"},
			"api_error":  {Class: apierr.ClassServerError, Code: "api_error"},
			"throttling": {Class: apierr.ClassRateLimit, Code: "throttlingException"},
			"not_json":   {Class: apierr.ClassServerError},
		},
		Parts: func(texts, calls int) string {
			return `{"type":"message","content":[` + strings.Repeat(`{"type":"text","text":"a piece"},`, texts) +
				strings.Repeat(`{"type":"tool_use","id":"toolu_1","name":"f","input":{}},`, calls) + `{"type":"text","text":"."}],"stop_reason":"end_turn"}`
		},
	}
}

func claudesAnswers() map[string]*provider.Answer {
	const model = "claude-sonnet-4-5-20250929"
	return map[string]*provider.Answer{
		"text": {
			Text: "It is sunny in Zürich.", FinishReason: provider.FinishStop, Model: model,
			Usage: &provider.Usage{Input: 21, CacheWrite: 188, CacheRead: 2048, Output: 14},
		},
		"parallel_tools": {
			Text: "I look.", FinishReason: provider.FinishToolCalls, Model: model, Usage: &provider.Usage{Input: 472, Output: 89},
			ToolCalls: []provider.ToolCall{
				{Index: 0, ID: "toolu_01T1x1fJ34qAmk2tNTrN7Up6", Name: "get_weather", Arguments: `{"city": "Paris"}`},
				{Index: 1, ID: "toolu_01A09q90qw90lq917835lq9", Name: "get_time", Arguments: `{}`},
			},
		},
	}
}

func TestClaudesConformance(t *testing.T) { providertest.Run(t, claudes()) }

func TestClaudesRequests(t *testing.T) {
	d := claudes()
	headers := map[string]string{"anthropic-beta": "b, a ,b,", "Anthropic-Version": "2024-01-01", "X-Api-Key": "stolen"}
	for name, native := range map[string]*provider.Native{
		"plain":           {Body: []byte(ownBody)},
		"betas":           {Body: []byte(`{"max_tokens":1,"messages":[],"anthropic_beta":["c","a"]}`), Headers: headers},
		"betas_in_body":   {Body: []byte(`{"max_tokens":1,"messages":[],"anthropic_beta":["c","a"]}`)},
		"foreign_id":      {Body: []byte(`{"max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a.b","name":"f","input":{}}]}]}`)},
		"betas_of_no_use": {Body: []byte(`{"max_tokens":1,"messages":[],"anthropic_beta":5}`), Headers: map[string]string{"Anthropic-Beta": " , "}},
	} {
		native.Dialect = "anthropic"
		chat := &provider.Chat{Native: native}
		if name == "foreign_id" {
			chat.Messages = []provider.Message{{Role: provider.RoleAssistant, ToolCalls: []provider.ToolCall{{ID: "a.b", Name: "f"}}}}
		}
		t.Run(name, func(t *testing.T) { d.Request(t, name, chat, false) })
		t.Run(name+"_stream", func(t *testing.T) { d.Request(t, name+"_stream", chat, true) })
	}
}

func readGolden(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What only Anthropic's own service serves is left to it.
func TestOwnBodiesForOtherHosts(t *testing.T) {
	for member, field := range map[string]string{
		`"mcp_servers":[{"type":"url"}]`: "mcp_servers", `"container":"c"`: "container", `"fallbacks":[]`: "fallbacks", `"inference_geo":"us"`: "inference_geo",
		`"speed":"fast"`: "speed", `"tools":[{"name":"f","input_schema":{}},{"type":"web_search_20250305","name":"web_search"}]`: "tools[].type",
		`"speed":"standard"`: "", `"container":null`: "", `"tools":[{"type":"bash_20250124","name":"bash"},{"type":"custom","name":"f"}]`: "", `"tools":5`: "",
		`"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image","source":{"type":"url","url":"https://a.example"}}]}]`: "messages[].content",
		`"messages":[{"role":"user","content":"a"},{"role":"user","content":[{"type":"document","source":{"type":"file","file_id":"f"}}]}]`:      "messages[].content",
		`"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","data":"AAAA"}}]}]`:                                     "",
	} {
		d := claudes()
		d.New = newAs(claude, []byte(`{`+member+`}`))
		if field == "" {
			if body := sentBody(t, &provider.Chat{Model: claude, Native: &provider.Native{Dialect: "anthropic", Body: []byte(`{` + member + `}`)}}); !strings.Contains(body, member) {
				t.Errorf("%s: sent %q", member, body)
			}
			continue
		}
		if e := d.Refused(t, &provider.Chat{}); !e.Unsupported || !strings.HasPrefix(e.Text, field+": ") {
			t.Errorf("%s: %+v", member, e)
		}
	}
}

// An answer in Anthropic's form, whole or as the events of a stream, is returned byte for byte.
func TestAnswersAreRelayed(t *testing.T) {
	for _, name := range []string{"text", "parallel_tools", "thinking_tools"} {
		whole, events := readGolden(t, "testdata", "claude", "answers", name+".json"), readGolden(t, "testdata", "claude", "answers", name+".sse")
		p, err := newAs(claude, []byte(ownBody))("http://vendor.example", providertest.Transport(func(r *http.Request) (*http.Response, error) {
			body, _ := io.ReadAll(r.Body)
			if !strings.Contains(string(body), ownUnknown) || strings.Contains(string(body), `"model"`) || strings.Contains(string(body), `"stream"`) {
				t.Errorf("sent %s", body)
			}
			text, kind := whole, "application/json"
			if r.Header.Get("Accept") == eventstream.MediaType {
				text, kind = framed(events, chunkFrame), eventstream.MediaType
			}
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(text))}, nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := p.Chat(t.Context(), provider.Credential{}, &provider.Chat{})
		if err != nil || string(answer.Native) != whole {
			t.Errorf("%s: %v: %s, want %s", name, err, answer.Native, whole)
		}
		stream, err := p.StreamChat(t.Context(), provider.Credential{}, &provider.Chat{})
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := providertest.Frames(stream)
		var want []providertest.Frame
		for reader := sse.NewReader(strings.NewReader(events)); ; {
			e, err := reader.Next()
			if err != nil {
				break
			}
			want = append(want, providertest.Frame{Type: e.Name, Data: string(e.Data)})
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-sent +got):\n%s", name, err, diff)
		}
	}
}

// Events of other names are left out, and a chunk that is no event of Anthropic's is the vendor's failure.
func TestChunks(t *testing.T) {
	const stop = `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":1,"output_tokens":2}}`
	chunk := func(data string) string { return chunkFrame(sse.Event{Data: []byte(data)}) }
	for name, c := range map[string]struct {
		text string
		ok   bool
	}{
		"others":          {converseFrame(sse.Event{Name: "initial-response", Data: []byte("{}")}) + chunk(stop) + chunk(`{"type":"message_stop","amazon-bedrock-invocationMetrics":{"inputTokenCount":1}}`), true},
		"no bytes":        {frame(`{"p":"a"}`, ":event-type", "chunk", ":message-type", "event"), false},
		"not base64":      {frame(`{"bytes":"%%%%"}`, ":event-type", "chunk", ":message-type", "event"), false},
		"not JSON inside": {chunk("<html>"), false},
		"not JSON":        {frame(`{"bytes":`, ":event-type", "chunk", ":message-type", "event"), false},
		"a turned bit":    {strings.Replace(chunk(stop), "chunk", "chumk", 1), false},
		"no type":         {frame(`{"bytes":"e30="}`), false},
	} {
		vendor := providertest.Canned(http.StatusOK, http.Header{"Content-Type": {eventstream.MediaType}}, c.text)
		p, err := newAs(claude, []byte(ownBody))("http://vendor.example", vendor)
		if err != nil {
			t.Fatal(err)
		}
		stream, err := p.StreamChat(t.Context(), provider.Credential{}, &provider.Chat{})
		if err != nil {
			t.Fatal(err)
		}
		answer, err := providertest.Collect(stream)
		switch {
		case c.ok && (err != nil || answer.Usage.Output != 2):
			t.Errorf("%s: %+v, %v", name, answer, err)
		case !c.ok && providertest.ErrorOf(t, err).Class != apierr.ClassServerError:
			t.Errorf("%s: %+v, %v", name, answer, err)
		}
	}
}

func TestCountTokens(t *testing.T) {
	for name, c := range map[string]struct {
		body, sent, answer string
		tokens             int64
		ok                 bool
	}{
		"a body":       {`{"model":"m","messages":[]}`, `{"anthropic_version":"bedrock-2023-05-31","messages":[]}`, `{"inputTokens":15}`, 15, true},
		"a bound":      {`{"messages":[],"max_tokens":3}`, `{"anthropic_version":"bedrock-2023-05-31","messages":[],"max_tokens":3}`, `{"inputTokens":15}`, 15, true},
		"no count":     {`{"messages":[]}`, "", `{"input_tokens":15}`, 0, false},
		"no JSON":      {`{"messages":[]}`, "", `<html>`, 0, false},
		"no JSON sent": {`[]`, "", `{"inputTokens":15}`, 0, false},
	} {
		var path string
		var got struct {
			Input struct{ InvokeModel struct{ Body []byte } }
		}
		p, err := bedrock.New(provider.Settings{BaseURL: "http://vendor.example", Transport: providertest.Transport(func(r *http.Request) (*http.Response, error) {
			path = r.URL.EscapedPath()
			body, _ := io.ReadAll(r.Body)
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(c.answer))}, json.Unmarshal(body, &got)
		})})
		if err != nil {
			t.Fatal(err)
		}
		chat := &provider.Chat{Model: claude, Native: &provider.Native{Dialect: "anthropic", Body: []byte(c.body)}}
		tokens, err := p.CountTokens(t.Context(), providertest.Credential(), chat)
		if (err == nil) != c.ok || tokens != c.tokens || c.ok && path != "/model/eu.anthropic.claude-sonnet-4-5-20250929-v1%3A0/count-tokens" {
			t.Errorf("%s: %d, %v, sent to %s", name, tokens, err, path)
		}
		if sent := string(bytes.Replace(got.Input.InvokeModel.Body, []byte(`"max_tokens":4096,`), nil, 1)); c.ok && sent != c.sent {
			t.Errorf("%s: sent %s, want %s", name, got.Input.InvokeModel.Body, c.sent)
		}
	}
	p, err := bedrock.New(provider.Settings{BaseURL: "http://vendor.example"})
	if err != nil {
		t.Fatal(err)
	}
	for _, chat := range []*provider.Chat{{Model: claude}, {Model: llama, Native: &provider.Native{Dialect: "anthropic", Body: []byte("{}")}}} {
		if _, err := p.CountTokens(t.Context(), provider.Credential{}, chat); !providertest.ErrorOf(t, err).Unsupported {
			t.Errorf("%s is counted: %v", chat.Model, err)
		}
	}
}
