package upstream

import (
	"bytes"
	"encoding/json"
	"testing"

	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/gateway/internal/vendors/provider/sse"
	"switchyard.dev/services/platform/testkit/growth"
)

// What a server sends costs in proportion to its size.
func TestReadingGrowsLinearly(t *testing.T) {
	result := func(text []byte) {
		if wire.Check(text) != nil {
			return
		}
		_, _ = readResult(&session{modern: true}, text, nil)
		readAbout(text, wire.Modern)
		l := lister{names: make(map[string]bool), pages: newPages()}
		_ = l.page(text)
		for _, of := range []Offer{Resources, Templates, Prompts} {
			o := offers{of: of, pages: newPages(), keys: make(map[string]bool)}
			_ = o.page(text)
		}
		_ = acknowledged(text, "resourceSubscriptions", []string{"a:b"})
		(&conversation{log: Log{Receive: func(json.RawMessage) {}}}).pass(text)
		for _, method := range []string{wire.MethodReadResource, wire.MethodGetPrompt, wire.MethodComplete} {
			_, _ = readQuery(&session{modern: true}, method, text)
		}
	}
	inputs := append(growth.Around(`{"content":`, growth.ValidJSON, `}`), growth.Around(`{"tools":`, growth.ValidJSON, `}`)...)
	inputs = append(inputs,
		growth.Number("tools", `{"tools":[{"name":"t","inputSchema":{}}`, `,{"name":"t#","inputSchema":{}}`, `]}`),
		growth.Number("arguments in headers", `{"tools":[{"name":"t","inputSchema":{"properties":{"a":{}`, `,"a#":{"type":"string","x-mcp-header":"A#"}`, `}}}]}`),
		growth.Repeat("contents", `{"content":[{"type":"text"}`, `,{"type":"text","text":"a"}`, `]}`),
		growth.Number("resources", `{"resources":[{"uri":"a:b"}`, `,{"uri":"a:b#"}`, `]}`),
		growth.Number("prompts", `{"prompts":[{"name":"p"}`, `,{"name":"p#"}`, `]}`),
		growth.Repeat("a URI", `{"resources":[{"uri":"`, "\u00e9", `"}]}`),
		growth.Repeat("read contents", `{"contents":[{"uri":"a:b"}`, `,{"uri":"a:b","text":"a"}`, `]}`),
		growth.Repeat("messages", `{"messages":[{"role":"user"}`, `,{"role":"user"}`, `]}`),
		growth.Repeat("values", `{"completion":{"values":["a"`, `,"a"`, `]}}`),
		growth.Number("acknowledged", `{"notifications":{"resourceSubscriptions":["a:b"`, `,"a:#"`, `]}}`),
		growth.Repeat("instructions", `{"instructions":"`, "\u00e9", `"}`),
		growth.Repeat("a name", `{"serverInfo":{"name":"`, "\u202e", `"}}`),
	)
	rows := growth.Each(inputs, result)
	events := []growth.Input{
		growth.Repeat("notices", "", `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`+"\n\n", ""),
		growth.Repeat("comments", "", ": a\n\n", ""),
		growth.Repeat("empty events", "", "id: a\ndata:\n\n", ""),
		growth.Repeat("lines of an event", "data: {", "data: a\n", "\n"),
	}
	rows = append(rows, growth.Each(events, func(text []byte) {
		talk := &conversation{id: []byte("1"), changed: func() {}}
		_, _ = readEvents(t.Context(), sse.NewReader(bytes.NewReader(text)).Bound(maxEvent, maxTotal), talk)
	})...)
	growth.Linear(t, rows...)
}
