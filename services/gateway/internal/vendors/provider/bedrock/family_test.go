package bedrock_test

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Parts that follow a tool result share its turn if the model accepts them there. Otherwise they get a separate turn.
func TestTurnsBehindResults(t *testing.T) {
	text := provider.Part{Text: "go on"}
	image := provider.Part{ImageURL: "data:image/png;base64,iVBORw0KGgo="}
	pdf := provider.Part{File: &provider.File{Name: "a.pdf", URL: "data:application/pdf;base64,JVBERi0="}}
	joined, apart := "user assistant user", "user assistant user assistant user"
	for model, want := range map[string][3]string{ // for a text, an image and a document
		claude: {joined, joined, apart}, "us.amazon.nova-lite-v1:0": {joined, joined, joined}, llama: {apart, apart, apart},
		"us.mistral.pixtral-large-2502-v1:0": {apart, apart, apart}, "us.writer.palmyra-x5-v1:0": {apart, apart, apart},
		"qwen.qwen3-vl-235b-a22b": {joined, joined, apart},
		"arn:aws:bedrock:eu-west-1:123456789012:application-inference-profile/a1b2c3": {joined, joined, apart},
	} {
		for i, parts := range [][]provider.Part{{text}, {text, image}, {text, pdf}} {
			body := sentBody(t, &provider.Chat{Model: model, Messages: []provider.Message{
				{Role: provider.RoleUser, Content: []provider.Part{{Text: "u"}}},
				{Role: provider.RoleAssistant, ToolCalls: []provider.ToolCall{{ID: "c", Name: "f", Arguments: "{}"}}},
				{Role: provider.RoleTool, ToolCallID: "c", Content: []provider.Part{{Text: "r"}}},
				{Role: provider.RoleUser, Content: parts},
				{Role: provider.RoleUser, Content: parts},
			}})
			var roles []string
			for _, role := range gjson.Get(body, "messages.#.role").Array() {
				roles = append(roles, role.Str)
			}
			if got := strings.Join(roles, " "); got != want[i] {
				t.Errorf("%s, %d: %s, want %s: %s", model, i, got, want[i], body)
			}
			if bridge := gjson.Get(body, "messages.3.content.0.text"); bridge.Exists() && bridge.Str != "OK." {
				t.Errorf("%s, %d: the assistant's turn is %s", model, i, bridge)
			}
		}
	}
}
