package openai

import (
	"testing"

	"switchyard.dev/services/gateway/internal/api/dialect/dialecttest"
	"switchyard.dev/services/platform/testkit/growth"
)

func TestChatGrowsLinearly(t *testing.T) {
	dialecttest.ChatGrows(t, Dialect{}, `"messages":[{"role":"user","content":"hi"}]`,
		growth.Repeat("messages", `{"messages":[{"role":"user","content":"hi"}`, `,{"role":"user","content":"hi"}`, "]}"),
		growth.Repeat("parts", `{"messages":[{"role":"user","content":[{"type":"text","text":"a"}`, `,{"type":"text","text":"a"}`, "]}]}"),
		growth.Repeat("images", `{"messages":[{"role":"user","content":[{"type":"text","text":"a"}`, `,{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}`, "]}]}"),
		growth.Number("calls", `{"messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}`, `,{"id":"c#","type":"function","function":{"name":"f","arguments":"{}"}}`, "]}]}"),
		growth.Number("tools", `{"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"f"}}`, `,{"type":"function","function":{"name":"f#","parameters":{"type":"object"}}}`, "]}"),
		growth.Repeat("extensions", `{"messages":[{"role":"user","content":"hi"}]`, `,"switchyard":{}`, "}"),
		growth.Repeat("stops", `{"messages":[{"role":"user","content":"hi"}],"stop":["a"`, `,"a"`, "]}"),
		growth.Number("metadata", `{"messages":[{"role":"user","content":"hi"}],"metadata":{"a":"b"`, `,"a#":"b"`, "}}"),
	)
}
