package openai_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/openai"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
)

// A conversation that began with another vendor continues: parts of its calls that the server would refuse are
// corrected, and the rest of the body stays as it is.
func TestNativeBodiesOfOtherVendorsCalls(t *testing.T) {
	const (
		google    = `{"google":{"thought_signature":"c2ln"}}`
		anthropic = `{"anthropic":{"lead":[]}}`
	)
	turn := func(id, extra string) string {
		if extra != "" {
			extra = `,"extra_content":` + extra
		}
		return `[{"role":"user","content":"a  b"},{"role":"assistant","content":null,"tool_calls":[{"id":"` + id + `","type":"function","function":{"name":"f","arguments":"{ }"}` +
			extra + `}]}, {"role":"tool","tool_call_id":"` + id + `","content":"x"}]`
	}
	chat := func(id, extra string) *provider.Chat {
		c := toolTurn(id, extra)
		c.Native = native(`{"frequency_penalty":0.50,"messages":` + turn(id, extra) + `}`).Native
		return c
	}
	for name, tt := range map[string]struct {
		config     provider.Settings
		id, extra  string
		want, left string
	}{
		"its own":                    {vendor, "call_1", "", "call_1", ""},
		"google's at OpenAI":         {vendor, "call_1", google, "call_1", ""},
		"anthropic's at OpenAI":      {vendor, "toolu_1", anthropic, "toolu_1", ""},
		"google's at Mistral":        {mistral, "abcDEF123", google, "abcDEF123", ""},
		"a long id at Mistral":       {mistral, "call_1", "", "*", ""},
		"both at Mistral":            {mistral, "call_1", google, "*", ""},
		"google's at a relay":        {anyServer, "call_1", google, "call_1", google},
		"anthropic's at a relay":     {anyServer, "call_1", anthropic, "call_1", ""},
		"a fitting id, and no state": {mistral, "abcDEF123", "", "abcDEF123", ""},
	} {
		got, err := sending(t, tt.config, chat(tt.id, tt.extra), false)
		var body struct {
			Messages []struct {
				ToolCalls  []struct{ ID string } `json:"tool_calls"`
				ToolCallID string                `json:"tool_call_id"`
			} `json:"messages"`
		}
		if json.Unmarshal([]byte(got), &body) != nil || len(body.Messages) != 3 {
			t.Fatalf("%s: sent %s, %v", name, got, err)
		}
		id := body.Messages[1].ToolCalls[0].ID
		if tt.want == "*" && len(id) == 9 {
			tt.want = id
		}
		if want := `{"model":"m","frequency_penalty":0.50,"messages":` + turn(tt.want, tt.left) + `}`; got != want || body.Messages[2].ToolCallID != id {
			t.Errorf("%s: sent %s, want %s", name, got, want)
		}
	}
	if got, _ := sending(t, mistral, native(`{"messages":"as they were"}`), true); !strings.Contains(got, `"as they were"`) {
		t.Errorf("sent %s", got)
	}
}

// A server that refuses calls without reasoning gets it in its own member, or else a blank.
func TestNativeBodiesWithoutReasoning(t *testing.T) {
	thinker := provider.Settings{Name: "thinker", BaseURL: "https://api.deepseek.com/v1"}
	const (
		calls   = `"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]`
		stateOf = `"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"openai":{"provider":"x","text":"so"}}}]`
	)
	for name, tt := range map[string]struct {
		config     provider.Settings
		turn, want string
	}{
		"none":               {thinker, `{"role":"assistant","content":null,` + calls + `}`, `{"role":"assistant","reasoning_content":" ","content":null,` + calls + `}`},
		"the role last":      {thinker, `{` + calls + `, "role":"assistant"}`, `{` + calls + `, "role":"assistant","reasoning_content":" "}`},
		"its own":            {thinker, `{"role":"assistant","reasoning_content":"mine",` + calls + `}`, `{"role":"assistant","reasoning_content":"mine",` + calls + `}`},
		"null":               {thinker, `{"role":"assistant","reasoning_content":null,` + calls + `}`, `{"role":"assistant","reasoning_content":" ",` + calls + `}`},
		"empty":              {thinker, `{"reasoning_content":"","role":"assistant",` + calls + `}`, `{"reasoning_content":" ","role":"assistant",` + calls + `}`},
		"another server's":   {thinker, `{"role":"assistant","reasoning":"say \"so\"",` + calls + `}`, `{"role":"assistant","reasoning_content":"say \"so\"","reasoning":"say \"so\"",` + calls + `}`},
		"in a call's state":  {thinker, `{"role":"assistant",` + stateOf + `}`, `{"role":"assistant","reasoning_content":"so",` + calls + `}`},
		"at another server":  {anyServer, `{"role":"assistant","content":null,` + calls + `}`, `{"role":"assistant","content":null,` + calls + `}`},
		"a turn of no calls": {thinker, `{"role":"assistant","content":"a"},{"role":"assistant",` + calls + `}`, `{"role":"assistant","content":"a"},{"role":"assistant","reasoning_content":" ",` + calls + `}`},
	} {
		chat := toolTurn("c", "")
		chat.Messages[0].ToolCalls[0].Extra = []byte(gjson.Get(tt.turn, "tool_calls.0.extra_content").Raw)
		chat.Native = native(`{"messages":[` + tt.turn + `]}`).Native
		if got, err := sending(t, tt.config, chat, false); got != `{"model":"m","messages":[`+tt.want+`]}` {
			t.Errorf("%s: sent %s, %v, want %s", name, got, err, tt.want)
		}
	}
}

// A long conversation with another vendor is corrected in one pass.
func TestRepairIsProportional(t *testing.T) {
	var sent sentTo
	config := mistral
	config.Transport = &sent
	p, err := openai.New(config)
	if err != nil {
		t.Fatal(err)
	}
	providertest.Proportional(t, 500, func(n int) func() {
		chat := &provider.Chat{Model: "m"}
		var turns []string
		for i := range n {
			id := fmt.Sprintf("functions.f:%d", i)
			chat.Messages = append(chat.Messages, provider.Message{
				Role: provider.RoleAssistant, ToolCalls: []provider.ToolCall{{ID: id, Name: "f", Extra: []byte(`{"google":{}}`)}},
			})
			turns = append(turns, `{"role":"assistant","tool_calls":[{"extra_content":{"google":{}},"id":"`+id+`","type":"function","function":{"name":"f","arguments":"{}"}}]}`)
		}
		chat.Native = &provider.Native{Dialect: "openai", Body: []byte(`{"messages":[` + strings.Join(turns, ",") + `]}`)}
		return func() { _, _ = p.Chat(t.Context(), provider.Credential{}, chat) }
	})
}
