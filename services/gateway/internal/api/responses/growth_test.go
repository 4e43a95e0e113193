package responses

import (
	"bytes"
	"testing"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/api/dialect/dialecttest"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/testkit/growth"
)

func TestChatGrowsLinearly(t *testing.T) {
	const some = `{"input":[{"role":"user","content":"a"}`
	dialecttest.ChatGrows(t, Dialect{}, hi,
		growth.Repeat("messages", some, `,{"role":"user","content":"hi"}`, "]}"),
		growth.Repeat("turns", some, `,{"role":"assistant","content":"a"},{"role":"user","content":"b"}`, "]}"),
		growth.Repeat("parts", `{"input":[{"role":"user","content":[{"type":"input_text","text":"a"}`, `,{"type":"input_text","text":"a"}`, "]}]}"),
		growth.Number("calls of one turn", some, `,{"type":"function_call","call_id":"c#","name":"f","arguments":"{}"}`, "]}"),
		growth.Number("calls and results", some, `,{"type":"custom_tool_call","call_id":"c#","name":"f","input":"x"},{"type":"custom_tool_call_output","call_id":"c#","output":[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"https://x/a.png"}]}`, "]}"),
		growth.Repeat("texts between calls", `{"input":[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}`, `,{"role":"assistant","content":"a"}`, "]}"),
		growth.Repeat("reasoning of others", some, `,{"type":"reasoning","summary":[],"encrypted_content":"x"}`, "]}"),
		growth.Repeat("reasoning of ours", some, `,{"type":"reasoning","summary":[],"encrypted_content":"`+seal("c", []byte("{}"))+`"}`, "]}"),
		growth.Number("tools", `{`+hi+`,"tools":[{"type":"function","name":"f"}`, `,{"type":"custom","name":"f#","format":{"type":"grammar","syntax":"lark","definition":"x"}}`, "]}"),
		growth.Number("tools of a namespace", `{`+hi+`,"tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"}`, `,{"type":"function","name":"f#"}`, "]}]}"),
		growth.Repeat("hosted tools", `{`+hi+`,"tools":[{"type":"mcp"}`, `,{"type":"web_search"}`, "]}"),
		growth.Repeat("allowed tools", `{`+hi+`,"tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"name":"f"}`, `,{"name":"f"}`, "]}}"),
		growth.Repeat("include", `{`+hi+`,"include":["reasoning.encrypted_content"`, `,"reasoning.encrypted_content"`, "]}"),
	)
}

// Forwarding a vendor's events costs in proportion to their number and size.
func TestRelayGrowsLinearly(t *testing.T) {
	lifecycle := []byte(`{"type":"response.completed","response":{"id":"resp_1","model":"x","output":[`)
	growth.Linear(t, growth.Row{Name: "a large terminal event", Make: func(n int) func() {
		frame := append(append(bytes.Clone(lifecycle), bytes.Repeat([]byte(`{"type":"message"},`), n)...), `{}]}}`...)
		return func() {
			s := exchange(t).Stream(dialect.Reply{Model: "m"})
			_ = s.Event(provider.Event{Native: frame, NativeType: "response.completed"})
			_ = s.End(provider.FinishStop, ledger.Report{})
		}
	}}, growth.Row{Name: "many deltas", Top: 1 << 14, Make: func(n int) func() {
		frame := []byte(`{"type":"response.output_text.delta","delta":"a"}`)
		return func() {
			s := exchange(t).Stream(dialect.Reply{Model: "m"})
			for range n {
				_ = s.Event(provider.Event{Native: frame, NativeType: "response.output_text.delta"})
			}
		}
	}})
}
