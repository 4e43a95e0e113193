package dialecttest

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/testkit/growth"
)

// ChatGrows parses bodies and writes streams of growing sizes and checks that the cost is proportional to the size.
// more are inputs that the dialect's own members may hold, least are the members that a body must have.
func ChatGrows(t *testing.T, d dialect.Dialect, least string, more ...growth.Input) {
	t.Helper()
	inputs := slices.Concat(more, growth.JSON)
	inputs = append(inputs, growth.Number("unknown members", "{"+least, `,"x#":1`, "}"), growth.Repeat("the same member", "{"+least, `,"temperature":1`, "}"), growth.Repeat("a long name", "{"+least+`,"`, "x", `":1}`))
	for _, member := range []string{"messages", "tools", "tool_choice", "response_format", "metadata", "system", "stop", "switchyard", "model", "max_tokens", "x"} {
		for _, value := range growth.ValidJSON {
			value.Name = member + " of " + value.Name
			inputs = append(inputs, value.In("{"+least+`,"`+member+`":`, "}"))
		}
	}
	growth.Linear(t, growth.Each(inputs, func(body []byte) {
		chat, err := d.Chat(bytes.Clone(body), nil)
		if err == nil {
			_, _ = chat.Localize(chat.Chat.Native.Body, "i")
		}
	})...)
	writer := writerOf(t, d, least)
	rows := []growth.Row{{Name: "an answer", Make: func(n int) func() {
		completion := &inference.Completion{Text: strings.Repeat("<é\"\x00", n), ToolCalls: make([]provider.ToolCall, n/8)}
		return func() { _, _ = writer.Answer(dialect.Reply{Model: "m"}, completion) }
	}}}
	for name, event := range map[string]func(i int) provider.Event{
		"texts":    func(int) provider.Event { return provider.Event{Text: "abcd"} },
		"thoughts": func(int) provider.Event { return provider.Event{Reasoning: "abcd"} },
		"arguments": func(int) provider.Event {
			return provider.Event{ToolCalls: []provider.ToolCall{{ID: "c", Name: "f", Arguments: "abcd"}}}
		},
		"calls": func(i int) provider.Event {
			return provider.Event{ToolCalls: []provider.ToolCall{{Index: i, ID: "c", Name: "f", Arguments: "{}"}}}
		},
		"usage": func(int) provider.Event { return provider.Event{Usage: &provider.Usage{Output: 1}} },
	} {
		rows = append(rows, growth.Row{Name: "a stream of " + name, Top: 1 << 14, Make: func(n int) func() {
			return func() {
				stream := writer.Stream(dialect.Reply{Model: "m", IncludeUsage: true})
				for i := range n {
					_ = stream.Event(event(i))
				}
				_ = stream.End(provider.FinishStop, ledger.Report{})
			}
		}})
	}
	growth.Linear(t, rows...)
}

// writerOf returns the writer of the answer to a body with the members that it must have.
func writerOf(t *testing.T, d dialect.Dialect, least string) dialect.Writer {
	t.Helper()
	chat, err := d.Chat([]byte("{"+least+"}"), nil)
	if err != nil {
		t.Fatalf("the least body: %v", err)
	}
	return chat.Writer
}
