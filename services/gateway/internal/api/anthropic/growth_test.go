package anthropic

import (
	"testing"

	"switchyard.dev/services/gateway/internal/api/dialect/dialecttest"
	"switchyard.dev/services/platform/testkit/growth"
)

func TestChatGrowsLinearly(t *testing.T) {
	const hi = `"max_tokens":1,"messages":[{"role":"user","content":"hi"}]`
	dialecttest.ChatGrows(t, Dialect{}, hi,
		growth.Repeat("messages", `{"max_tokens":1,"messages":[{"role":"user","content":"hi"}`, `,{"role":"user","content":"hi"}`, "]}"),
		growth.Repeat("blocks", `{"max_tokens":1,"messages":[{"role":"user","content":[{"type":"text","text":"a"}`, `,{"type":"text","text":"a"}`, "]}]}"),
		growth.Repeat("images", `{"max_tokens":1,"messages":[{"role":"user","content":[{"type":"text","text":"a"}`, `,{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}`, "]}]}"),
		growth.Number("calls and results", `{"max_tokens":1,"messages":[{"role":"user","content":"a"}`, `,{"role":"assistant","content":[{"type":"tool_use","id":"c#","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c#","content":[{"type":"text","text":"a"}]}]}`, "]}"),
		growth.Repeat("system", `{`+hi+`,"system":[{"type":"text","text":"a"}`, `,{"type":"text","text":"a"}`, "]}"),
		growth.Number("tools", `{`+hi+`,"tools":[{"name":"f","input_schema":{}}`, `,{"name":"f#","input_schema":{"type":"object"}}`, "]}"),
		growth.Repeat("extensions", `{`+hi, `,"switchyard":{}`, "}"), growth.Repeat("stops", `{`+hi+`,"stop_sequences":["a"`, `,"a"`, "]}"),
	)
}
