package providertest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/testkit/growth"
)

// Hostile holds growing inputs of a dialect's vendor and callers, in addition to those that every vendor may send.
type Hostile struct {
	// New returns a provider for a vendor.
	New func(vendor http.RoundTripper) (provider.Provider, error)
	// Answers are whole answers, Events the data of one event, Streams whole streams.
	Answers, Events, Streams []growth.Input
	// Dialect and Requests are native bodies and the name of their dialect.
	Dialect  string
	Requests []growth.Input
	// Errors are error documents.
	Errors []growth.Input
}

// vendorOf answers every request alike.
type vendorOf struct {
	status int
	header http.Header
	body   func() io.Reader
}

func (v vendorOf) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
	}
	return &http.Response{StatusCode: v.status, Header: v.header, ContentLength: -1, Body: io.NopCloser(v.body()), Request: r}, nil
}

func (h Hostile) provider(t *testing.T, vendor vendorOf) provider.Provider {
	t.Helper()
	if vendor.header == nil {
		vendor.header = http.Header{}
	}
	p, err := h.New(vendor)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// RunAnswersGrowth reads whole answers and errors of all sizes, with all operations of the provider.
func (h Hostile) RunAnswersGrowth(t *testing.T) {
	t.Helper()
	ask := func(vendor vendorOf) { askAll(h.provider(t, vendor)) }
	whole := func(status int) func(text []byte) {
		return func(text []byte) {
			ask(vendorOf{status: status, body: func() io.Reader { return bytes.NewReader(text) }})
		}
	}
	t.Run("answers", func(t *testing.T) {
		growth.Linear(t, growth.Each(slices.Concat(h.Answers, growth.JSON), whole(200))...)
	})
	if h.Errors != nil {
		t.Run("errors", func(t *testing.T) {
			growth.Linear(t, growth.Each(slices.Concat(h.Errors, growth.JSON), func(text []byte) { whole(400)(text); whole(429)(text) })...)
		})
	}
	t.Run("headers", func(t *testing.T) {
		growth.Linear(t, growth.EachText(growth.Text, func(text string) {
			header := http.Header{}
			for _, name := range []string{
				"Retry-After", "Retry-After-Ms", "X-Should-Retry", "X-Request-Id", "Request-Id", "X-Ratelimit-Remaining-Tokens",
				"X-Ratelimit-Reset-Tokens", "Anthropic-Ratelimit-Tokens-Remaining", "Anthropic-Ratelimit-Tokens-Reset", "Content-Type",
			} {
				header.Set(name, text)
			}
			ask(vendorOf{429, header, func() io.Reader { return strings.NewReader("{}") }})
		})...)
	})
}

// askAll calls every operation of a provider.
func askAll(p provider.Provider) {
	ctx := context.Background()
	if p, ok := p.(provider.ChatProvider); ok {
		_, _ = p.Chat(ctx, provider.Credential{}, &provider.Chat{Model: "m"})
	}
	if p, ok := p.(provider.Embedder); ok {
		_, _ = p.Embed(ctx, provider.Credential{}, &provider.Embedding{Model: "m", Input: []string{"a", "b"}})
	}
	if p, ok := p.(provider.ImageMaker); ok {
		_, _ = p.MakeImages(ctx, provider.Credential{}, &provider.ImageRequest{Model: "m", Prompt: "p", Count: 1})
	}
}

// RunStreamGrowth reads streams of all sizes, parsed and native, whole and byte by byte.
func (h Hostile) RunStreamGrowth(t *testing.T) {
	t.Helper()
	vendor := func(body func() io.Reader) vendorOf {
		return vendorOf{http.StatusOK, http.Header{"Content-Type": {"text/event-stream"}}, body}
	}
	own := &provider.Native{Dialect: h.Dialect, Body: []byte("{}")}
	events := append(growth.Around("data: ", slices.Concat(h.Events, growth.JSON), "\n\n"), growth.Repeat("lines of one event", "", "data: [\n", "\n"))
	growth.Linear(t, growth.Each(events, func(text []byte) {
		drain(h.provider(t, vendor(func() io.Reader { return bytes.NewReader(text) })), nil)
	})...)
	streams := append(slices.Clone(h.Streams),
		growth.Repeat("pings", "", "event: ping\ndata: {\"type\":\"ping\"}\n\n", ""), growth.Repeat("comments", "", ": x\n\n", ""),
		growth.Repeat("empty events", "", "data: {}\n\n", ""), growth.Repeat("empty lines", "", "\n", ""),
		growth.Repeat("a long name", "event: ", "x", "\ndata: {}\n\n"),
	)
	growth.Linear(t, growth.Each(streams, func(text []byte) {
		drain(h.provider(t, vendor(func() io.Reader { return bytes.NewReader(text) })), own)
		drain(h.provider(t, vendor(func() io.Reader { return iotest.OneByteReader(bytes.NewReader(text)) })), nil)
	})...)
}

func drain(p provider.Provider, native *provider.Native) {
	chat, ok := p.(provider.ChatProvider)
	if !ok {
		return
	}
	stream, err := chat.StreamChat(context.Background(), provider.Credential{}, &provider.Chat{Model: "m", Native: native})
	if err != nil {
		return
	}
	for err == nil {
		_, err = stream.Next()
	}
	_ = stream.Close()
}

// RunRequestGrowth writes requests of all sizes.
func (h Hostile) RunRequestGrowth(t *testing.T) {
	t.Helper()
	send := func(t *testing.T, chat *provider.Chat) {
		t.Helper()
		p := h.provider(t, vendorOf{200, http.Header{}, func() io.Reader { return strings.NewReader("{}") }})
		if p, ok := p.(provider.ChatProvider); ok {
			_, _ = p.Chat(context.Background(), provider.Credential{}, chat)
		}
	}
	var rows []growth.Row
	for name, grow := range growing {
		rows = append(rows, growth.Row{Name: name, Top: 1 << 14, Make: func(n int) func() {
			chat := &provider.Chat{Model: "m"}
			grow(chat, n)
			return func() { send(t, chat) }
		}})
	}
	inputs := slices.Concat(h.Requests, growth.Around(`{"messages":`, growth.ValidJSON, "}"))
	for _, row := range growth.Around(`{"type":"object","properties":{"a":`, growth.JSON, "}}") {
		rows = append(rows, growth.Each([]growth.Input{row}, func(schema []byte) {
			send(t, &provider.Chat{Model: "m", Tools: []provider.Tool{{Name: "a", Strict: true, Parameters: schema}}})
			send(t, &provider.Chat{Model: "m", ResponseFormat: []byte(`{"type":"json_schema","json_schema":{"name":"a","schema":` + string(schema) + `}}`)})
			send(t, &provider.Chat{Model: "m", Messages: []provider.Message{{Role: provider.RoleAssistant, ToolCalls: []provider.ToolCall{
				{ID: "1", Name: "a", Arguments: string(schema), Extra: schema},
			}}}})
		})...)
	}
	rows = append(rows, growth.Each(inputs, func(body []byte) {
		// One ID of another vendor causes the whole conversation to be corrected.
		send(t, &provider.Chat{Model: "m", Native: &provider.Native{Dialect: h.Dialect, Body: body}, Messages: []provider.Message{
			{Role: provider.RoleAssistant, ToolCalls: []provider.ToolCall{{ID: strings.Repeat("call!", 20), Name: "f", Extra: json.RawMessage(`{"other":1}`)}}},
		}})
	})...)
	growth.Linear(t, rows...)
}

// growing are the parts of a request that may be repeated.
var growing = map[string]func(chat *provider.Chat, n int){
	"messages": func(chat *provider.Chat, n int) {
		for i := range n {
			role := []provider.Role{provider.RoleUser, provider.RoleAssistant, provider.RoleSystem}[i%3]
			chat.Messages = append(chat.Messages, provider.Message{Role: role, Content: []provider.Part{{Text: "hi"}}})
		}
	},
	"parts": func(chat *provider.Chat, n int) {
		parts := make([]provider.Part, n)
		for i := range parts {
			parts[i] = []provider.Part{{Text: "hi"}, {ImageURL: "data:image/png;base64,iVBORw0KGgo="}}[i%2]
		}
		chat.Messages = []provider.Message{{Role: provider.RoleUser, Content: parts}}
	},
	"tools": func(chat *provider.Chat, n int) {
		for i := range n {
			chat.Tools = append(chat.Tools, provider.Tool{Name: "f" + strconv.Itoa(i), Parameters: json.RawMessage(`{"type":"object"}`)})
		}
	},
	"turns with calls": func(chat *provider.Chat, n int) {
		for i := range n {
			id := "call!" + strconv.Itoa(i)
			chat.Messages = append(chat.Messages,
				provider.Message{Role: provider.RoleAssistant, ToolCalls: []provider.ToolCall{{ID: id, Name: "f", Arguments: "{}"}}},
				provider.Message{Role: provider.RoleTool, ToolCallID: id, Content: []provider.Part{{Text: "1"}}})
		}
	},
	"calls of one turn": func(chat *provider.Chat, n int) {
		calls := make([]provider.ToolCall, n)
		var results []provider.Message
		for i := range calls {
			calls[i] = provider.ToolCall{ID: "call!" + strconv.Itoa(i), Name: "f", Arguments: "{}", Extra: json.RawMessage(`{"other":1}`)}
			results = append(results, provider.Message{Role: provider.RoleTool, ToolCallID: calls[i].ID})
		}
		chat.Messages = append([]provider.Message{{Role: provider.RoleAssistant, ToolCalls: calls}}, results...)
	},
	"stops": func(chat *provider.Chat, n int) { chat.Stop = make([]string, n) },
	"a long text": func(chat *provider.Chat, n int) {
		chat.Messages = []provider.Message{{Role: provider.RoleUser, Content: []provider.Part{{Text: strings.Repeat("<é\x00\"", n)}}}}
	},
	"a long image": func(chat *provider.Chat, n int) {
		chat.Messages = []provider.Message{{Role: provider.RoleUser, Content: []provider.Part{{ImageURL: "data:image/png;base64," + strings.Repeat("AAAA", n)}}}}
	},
}
