package anthropic_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/anthropic"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
)

// A conversation that began with another vendor continues: the vendor refuses IDs of other forms and unknown fields,
// and gets neither. The rest of the body stays as it is.
func TestNativeBodiesOfOtherVendorsCalls(t *testing.T) {
	var got string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = string(body)
	}))
	defer server.Close()
	p, err := anthropic.New(provider.Settings{BaseURL: server.URL, Transport: server.Client().Transport})
	if err != nil {
		t.Fatal(err)
	}
	turns := func(id, extra string) string {
		return `[{"role":"user","content":"a  b"},{"role":"assistant","content":[{"type":"text","text":"I call"},{"type":"tool_use","id":"` + id + `","name":"f","input":{ }` + extra +
			`}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"` + id + `","content":"x"}, {"type":"text","text":"y"}]}]`
	}
	for name, tt := range map[string]struct{ id, extra, want string }{
		"its own":            {"toolu_01A", "", "toolu_01A"},
		"another form of id": {"functions.f:0", "", "functions_f_0"},
		"another's state":    {"toolu_01A", `,"extra_content":{"google":{"thought_signature":"c2ln"}}`, "toolu_01A"},
		"both":               {"functions.f:0", `,"extra_content":{"google":{}}`, "functions_f_0"},
	} {
		call := provider.ToolCall{ID: tt.id, Name: "f"}
		if tt.extra != "" {
			call.Extra = []byte(`{"google":{}}`)
		}
		_, _ = p.Chat(t.Context(), providertest.Credential(), &provider.Chat{
			Model: "m",
			Messages: []provider.Message{
				{Role: provider.RoleAssistant, ToolCalls: []provider.ToolCall{call}}, {Role: provider.RoleTool, ToolCallID: tt.id},
			},
			Native: &provider.Native{Dialect: anthropic.DialectName, Body: []byte(`{"max_tokens":9,"top_k":5.0,"messages":` + turns(tt.id, tt.extra) + `}`)},
		})
		head := `{"model":"m","stream":false,"max_tokens":9,"top_k":5.0,"messages":`
		if tt.want != tt.id || tt.extra != "" {
			head = `{"model":"m","stream":false,"messages":` + turns(tt.want, "") + `,"max_tokens":9,"top_k":5.0}`
		} else {
			head += turns(tt.id, "") + `}`
		}
		if got != head {
			t.Errorf("%s: sent %s, want %s", name, got, head)
		}
	}
}

// A long conversation with another vendor is corrected in one pass.
func TestRepairIsProportional(t *testing.T) {
	var sent sentTo
	p, err := anthropic.New(provider.Settings{BaseURL: "http://vendor.example", Transport: &sent})
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
			turns = append(turns, `{"role":"assistant","content":[{"extra_content":{"google":{}},"type":"tool_use","id":"`+id+`","name":"f","input":{}}]}`)
		}
		chat.Native = &provider.Native{Dialect: anthropic.DialectName, Body: []byte(`{"max_tokens":9,"messages":[` + strings.Join(turns, ",") + `]}`)}
		return func() { _, _ = p.Chat(t.Context(), provider.Credential{}, chat) }
	})
}
