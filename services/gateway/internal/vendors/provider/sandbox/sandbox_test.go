package sandbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
	"switchyard.dev/services/gateway/internal/vendors/provider/sandbox"
	"switchyard.dev/services/platform/apierr"
)

const citySchema = `{"type":"object","required":["city","days"],
	"properties":{"city":{"type":"string"},"days":{"type":"integer","minimum":1},"unit":{"type":"string"}}}`

func say(texts ...string) *provider.Chat {
	chat := &provider.Chat{Model: "sandbox"}
	for i, text := range texts {
		role := provider.RoleUser
		if i%2 == 1 {
			role = provider.RoleAssistant
		}
		chat.Messages = append(chat.Messages, provider.Message{Role: role, Content: []provider.Part{{Text: text}}})
	}
	return chat
}

func with(chat *provider.Chat, change func(*provider.Chat)) *provider.Chat {
	change(chat)
	return chat
}

func tools(chat *provider.Chat) {
	chat.Tools = []provider.Tool{
		{Name: "get_weather", Parameters: json.RawMessage(citySchema)},
		{Name: "get_time"},
	}
}

func stop(text string) *provider.Answer {
	return &provider.Answer{Text: text, FinishReason: provider.FinishStop}
}

func calling(calls ...provider.ToolCall) *provider.Answer {
	return &provider.Answer{ToolCalls: calls, FinishReason: provider.FinishToolCalls}
}

var (
	weather = provider.ToolCall{ID: "call_0", Name: "get_weather", Arguments: `{"city":"sandbox","days":1}`}
	clock   = provider.ToolCall{ID: "call_0", Name: "get_time", Arguments: `{}`}
)

// cases are requests and the sandbox's answers without the usage.
func cases() map[string]struct {
	chat *provider.Chat
	want *provider.Answer
} {
	second, next := clock, clock
	second.Index, second.ID = 1, "call_1"
	next.ID = "call_1"
	return map[string]struct {
		chat *provider.Chat
		want *provider.Answer
	}{
		"text":       {say("hello there"), stop("sandbox: hello there")},
		"last text":  {say("one", "sandbox: one", "two  spaces"), stop("sandbox: two  spaces")},
		"no message": {say(), stop("sandbox: ")},
		"max tokens": {
			with(say("grüße"), func(c *provider.Chat) { c.MaxTokens = 3 }),
			&provider.Answer{Text: "sandbox: gr", FinishReason: provider.FinishLength},
		},
		"the limit is not reached": {with(say("abc"), func(c *provider.Chat) { c.MaxTokens = 3 }), stop("sandbox: abc")},
		"stop":                     {with(say("a b c"), func(c *provider.Chat) { c.Stop = []string{"c", " b"} }), stop("sandbox: a")},
		"stop at once":             {with(say("a"), func(c *provider.Chat) { c.Stop = []string{"sandbox"} }), stop("")},
		"a tool that is named":     {with(say("call get_weather"), tools), calling(weather)},
		"two tools that are named": {with(say("get_time and get_weather"), tools), calling(weather, second)},
		"no tool that is named":    {with(say("hello"), tools), stop("sandbox: hello")},
		"a call is required": {with(say("hello"), func(c *provider.Chat) {
			tools(c)
			c.ToolChoice = &provider.ToolChoice{Mode: "required"}
		}), calling(weather)},
		"one tool is required": {with(say("get_weather"), func(c *provider.Chat) {
			tools(c)
			c.ToolChoice = &provider.ToolChoice{Mode: "tool", Name: "get_time"}
		}), calling(clock)},
		"calls are forbidden": {with(say("get_weather"), func(c *provider.Chat) {
			tools(c)
			c.ToolChoice = &provider.ToolChoice{Mode: "none"}
		}), stop("sandbox: get_weather")},
		"a tool's result": {with(say("get_weather"), func(c *provider.Chat) {
			tools(c)
			c.Messages = append(c.Messages,
				provider.Message{Role: provider.RoleAssistant, ToolCalls: []provider.ToolCall{weather}},
				provider.Message{Role: provider.RoleTool, ToolCallID: "call_0", Content: []provider.Part{{Text: "sunny"}}})
		}), stop("sandbox: sunny")},
		"another call": {with(say("get_time"), func(c *provider.Chat) {
			tools(c)
			c.Messages = append(c.Messages,
				provider.Message{Role: provider.RoleAssistant, ToolCalls: []provider.ToolCall{weather}},
				provider.Message{Role: provider.RoleTool, ToolCallID: "call_0"},
				provider.Message{Role: provider.RoleUser, Content: []provider.Part{{Text: "get_time"}}})
		}), calling(next)},
		"a JSON object": {with(say(`say "hi"`), func(c *provider.Chat) {
			c.ResponseFormat = json.RawMessage(`{"type":"json_object"}`)
		}), stop(`{"sandbox":"say \"hi\""}`)},
		"JSON by a schema": {with(say("weather"), func(c *provider.Chat) {
			c.ResponseFormat = json.RawMessage(`{"type":"json_schema","json_schema":{"name":"w","schema":` + citySchema + `}}`)
		}), stop(`{"city":"sandbox","days":1}`)},
	}
}

func TestAnswers(t *testing.T) {
	p := sandbox.New(sandbox.Config{Name: "sandbox"})
	for name, tt := range cases() {
		t.Run(name, func(t *testing.T) {
			first, err := p.Chat(t.Context(), provider.Credential{}, tt.chat)
			if err != nil {
				t.Fatal(err)
			}
			if first.Usage == nil {
				t.Fatal("no usage")
			}
			want := *tt.want
			want.Model, want.Usage = tt.chat.Model, first.Usage
			providertest.Answers(t, p, tt.chat, &want)
		})
	}
}

func TestUsageIsAQuarterOfTheBytes(t *testing.T) {
	p := sandbox.New(sandbox.Config{})
	answer, err := p.Chat(t.Context(), provider.Credential{}, say("12345678", "1234", "1234"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&provider.Usage{Input: 4, Output: 4}, answer.Usage); diff != "" { // "sandbox: 1234" is 13 bytes
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}

func TestModelsThatFail(t *testing.T) {
	p := sandbox.New(sandbox.Config{Name: "drill"})
	if p.Name() != "drill" {
		t.Errorf("Name = %q", p.Name())
	}
	for model, want := range map[string]*provider.Error{
		"sandbox-fail-500":       {Class: apierr.ClassServerError, Status: 500, Code: "server_error"},
		"sandbox-fail-429":       {Class: apierr.ClassRateLimit, Status: 429, Code: "rate_limit_exceeded", RetryAfter: time.Second},
		"sandbox-fail-midstream": {Class: apierr.ClassTransient},
		"gpt-4o":                 {Class: apierr.ClassPolicy, Status: 404, Code: "model_not_found"},
		"":                       {Class: apierr.ClassPolicy, Status: 404, Code: "model_not_found"},
	} {
		t.Run(model, func(t *testing.T) {
			chat := with(say("hello there"), func(c *provider.Chat) { c.Model = model })
			_, whole := p.Chat(t.Context(), provider.Credential{}, chat)
			stream, streamed := p.StreamChat(t.Context(), provider.Credential{}, chat)
			if stream != nil {
				var got *provider.Answer
				if got, streamed = providertest.Collect(stream); got.Text != "sandbox: " {
					t.Errorf("before it failed: %q", got.Text)
				}
			}
			for _, err := range []error{whole, streamed} {
				e, ok := errors.AsType[*provider.Error](err)
				if !ok {
					t.Fatalf("err = %v", err)
				}
				if diff := cmp.Diff(want, e, cmpopts.IgnoreFields(provider.Error{}, "Text", "Cause")); diff != "" || e.Text == "" {
					t.Errorf("err = %v (-want +got):\n%s", err, diff)
				}
			}
		})
	}
}

func TestCancelled(t *testing.T) {
	p := sandbox.New(sandbox.Config{})
	left := errors.New("the caller left")
	ctx, cancel := context.WithCancelCause(t.Context())
	stream, err := p.StreamChat(ctx, provider.Credential{}, say("hello there"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Next(); err != nil {
		t.Fatal(err)
	}
	cancel(left)
	_, next := stream.Next()
	_, whole := p.Chat(ctx, provider.Credential{}, say("hello"))
	_, streamed := p.StreamChat(ctx, provider.Credential{}, say("hello"))
	for _, err := range []error{next, whole, streamed} {
		e, ok := errors.AsType[*provider.Error](err)
		if !ok || e.Class != apierr.ClassTransient || !errors.Is(err, left) {
			t.Errorf("err = %v, want a transient one with the cause", err)
		}
	}
}

// Arguments are JSON that the tool's schema allows.
func TestArguments(t *testing.T) {
	for name, tt := range map[string]struct{ schema, want string }{
		"none":            {``, `{}`},
		"not JSON":        {`{`, `{}`},
		"any":             {`{}`, `{}`},
		"scalars":         {`{"required":["s","n","b","z"],"properties":{"s":{"type":"string","minLength":9},"n":{"type":"number","minimum":0.5},"b":{"type":"boolean"},"z":{"type":"null"}}}`, `{"b":false,"n":0.5,"s":"sandboxxx","z":null}`},
		"chosen":          {`{"required":["c","e","d"],"properties":{"c":{"const":7},"e":{"enum":["x","y"]},"d":{"type":"string","default":"z"}}}`, `{"c":7,"d":"z","e":"x"}`},
		"lists":           {`{"required":["a","b"],"properties":{"a":{"type":"array"},"b":{"type":"array","minItems":2,"items":{"type":"integer"}}}}`, `{"a":[],"b":[0,0]}`},
		"several types":   {`{"required":["a","b"],"properties":{"a":{"type":["string","null"]},"b":{"anyOf":[{"type":"integer"},{"type":"null"}]}}}`, `{"a":"sandbox","b":0}`},
		"one of":          {`{"required":["a"],"properties":{"a":{"oneOf":[{"type":"boolean"}]}}}`, `{"a":false}`},
		"references":      {`{"required":["a"],"properties":{"a":{"$ref":"#/$defs/city"}},"$defs":{"city":{"required":["name"],"properties":{"name":{"type":"string"}}}}}`, `{"a":{"name":"sandbox"}}`},
		"lost references": {`{"required":["a"],"properties":{"a":{"$ref":"#/$defs/city/x"}}}`, `{"a":{}}`},
		"unknown field":   {`{"required":["a"]}`, `{"a":{}}`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := arguments(t, tt.schema); got != tt.want {
				t.Errorf("arguments = %s, want %s", got, tt.want)
			}
		})
	}
}

func arguments(t *testing.T, schema string) string {
	t.Helper()
	chat := with(say("call it"), func(c *provider.Chat) {
		c.Tools = []provider.Tool{{Name: "it", Parameters: json.RawMessage(schema)}}
	})
	answer, err := sandbox.New(sandbox.Config{}).Chat(t.Context(), provider.Credential{}, chat)
	if err != nil {
		t.Fatal(err)
	}
	return answer.ToolCalls[0].Arguments
}

// For any schema, instance returns, and returns valid JSON.
func FuzzArguments(f *testing.F) {
	f.Add(citySchema)
	f.Add(`{"$ref":"#"}`)
	f.Add(`{"type":"object","required":["a","b"],"properties":{"a":{"$ref":"#"},"b":{"$ref":"#"}}}`)
	f.Add(`{"type":"array","minItems":99999999,"items":{"$ref":"#"}}`)
	f.Add(`{"type":"string","minLength":99999999999}`)
	f.Fuzz(func(t *testing.T, schema string) {
		if got := arguments(t, schema); !json.Valid([]byte(got)) || strings.Contains(got, "\n") {
			t.Errorf("arguments = %s", got)
		}
	})
}
