package bedrock_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/bedrock"
	"switchyard.dev/services/gateway/internal/vendors/provider/eventstream"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
	"switchyard.dev/services/gateway/internal/vendors/provider/sse"
	"switchyard.dev/services/platform/testkit/growth"
)

// framer turns the server-sent events of a vendor into frames.
type framer struct {
	vendor http.RoundTripper
	one    func(e sse.Event) string
}

func (f framer) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := f.vendor.RoundTrip(r)
	if err != nil || response.Header.Get("Content-Type") != "text/event-stream" {
		return response, err
	}
	events, err := io.ReadAll(response.Body)
	response.Header = http.Header{"Content-Type": {eventstream.MediaType}}
	response.Body = io.NopCloser(strings.NewReader(framed(string(events), f.one)))
	return response, err
}

// begun is a provider whose conversations begin with the user, as the vendor wants them.
type begun struct{ as }

func (b begun) Chat(ctx context.Context, credential provider.Credential, chat *provider.Chat) (*provider.Answer, error) {
	own := *chat
	own.Messages = append([]provider.Message{{Role: provider.RoleUser, Content: []provider.Part{{Text: "hi"}}}}, chat.Messages...)
	return b.as.Chat(ctx, credential, &own)
}

func hostile() providertest.Hostile {
	frame := func(name, data string) string { return "event: " + name + "\ndata: " + data + "\n\n" }
	delta := func(of string) string { return frame("contentBlockDelta", `{"contentBlockIndex":0,"delta":{`+of+`}}`) }
	start := func(number string) string {
		return frame("contentBlockStart", `{"contentBlockIndex":`+number+`,"start":{"toolUse":{"toolUseId":"c`+number+`","name":"f"}}}`)
	}
	stop := frame("contentBlockStop", `{"contentBlockIndex":0}`)
	around := func(before, after string, inputs []growth.Input) []growth.Input {
		return growth.Around(before, inputs, after)
	}
	const content = `{"output":{"message":{"content":[`
	fields := around(content[:len(content)-1], "}}}", growth.ValidJSON)
	for _, before := range []string{`{"toolUse":{"toolUseId":"1","name":"f","input":`, `{"reasoningContent":{"redactedContent":`, `{"citationsContent":{"content":`} {
		fields = append(fields, around(content+before, "}}]}}}", growth.ValidJSON)...)
	}
	fields = append(fields, around(content+`{"text":`, "}]}}}", growth.ValidJSON[3:8])...)
	fields = append(fields, around(content+`],"usage":{"inputTokens":1,"cacheDetails":`, "}}}", growth.ValidJSON)...)
	fields = append(fields, around(`{"embedding":`, "}", growth.ValidJSON)...)
	return providertest.Hostile{
		New: func(vendor http.RoundTripper) (provider.Provider, error) {
			p, err := bedrock.New(provider.Settings{Name: "bedrock", BaseURL: "http://vendor.example", Transport: framer{vendor, converseFrame}})
			return begun{as{p, claude, nil}}, err
		},
		Answers: append(fields,
			growth.Repeat("blocks of text", content+"{}", `,{"text":"abcd"}`, "]}}}"),
			growth.Repeat("members of a block", content+`{"a":1`, `,"text":"abcd"`, "}]}}}"),
			growth.Repeat("blocks of thinking", content+"{}", `,{"reasoningContent":{"reasoningText":{"text":"abcd","signature":"s"}}}`, "]}}}"),
			growth.Number("calls", content+"{}", `,{"toolUse":{"toolUseId":"c#","name":"f","input":{"a":1}}}`, "]}}}"),
			growth.Repeat("cache details", content+`],"usage":{"inputTokens":1,"cacheDetails":[{}`, `,{"ttl":"1h","inputTokens":1}`, "]}}}"),
		),
		Streams: []growth.Input{
			growth.Repeat("deltas of text", "", delta(`"text":"abcd"`), stop),
			growth.Repeat("deltas of thinking", "", delta(`"reasoningContent":{"text":"abcd"}`), stop),
			growth.Repeat("deltas of a signature", "", delta(`"reasoningContent":{"signature":"abcd"}`), stop),
			growth.Repeat("deltas of arguments", start("0"), delta(`"toolUse":{"input":"abcd"}`), stop),
			growth.Repeat("blocks of thinking", "", delta(`"reasoningContent":{"signature":"abcd"}`)+stop, start("1")),
			growth.Number("calls", "", strings.Replace(start("0"), `"contentBlockIndex":0`, `"contentBlockIndex":#`, 1), ""),
			growth.Repeat("starts", "", frame("messageStart", `{"role":"assistant"}`), ""),
			growth.Repeat("usage", "", frame("metadata", `{"usage":{"inputTokens":1}}`), ""),
			growth.Repeat("chunks", "", frame("chunk", `{"bytes":"e30="}`), ""),
		},
		Dialect: "anthropic",
		Requests: []growth.Input{
			growth.Repeat("tools", `{"tools":[{}`, `,{"type":"custom","name":"f"}`, "]}"),
			growth.Repeat("blocks", `{"messages":[{"content":[{}`, `,{"source":{"type":"base64"}}`, "]}]}"),
			growth.Repeat("betas", `{"messages":[],"anthropic_beta":[1`, `,"a"`, "]}"),
		},
		Errors: growth.Around(`{"message":`, growth.ValidJSON, "}"),
	}
}

func TestAnswerGrowsLinearly(t *testing.T) { hostile().RunAnswersGrowth(t) }

func TestStreamGrowsLinearly(t *testing.T) {
	hostile().RunStreamGrowth(t)
	t.Run("chunks", func(t *testing.T) {
		growth.Linear(t,
			growth.Each([]growth.Input{growth.Repeat("of text", "", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"ab"}}`+"\n", "")}, func(text []byte) {
				var frames bytes.Buffer
				for line := range bytes.Lines(text) {
					frames.WriteString(chunkFrame(sse.Event{Data: line}))
				}
				vendor := providertest.Canned(http.StatusOK, http.Header{"Content-Type": {eventstream.MediaType}}, frames.String())
				p, err := newAs(claude, []byte("{}"))("http://vendor.example", vendor)
				if err != nil {
					t.Fatal(err)
				}
				stream, err := p.StreamChat(t.Context(), provider.Credential{}, &provider.Chat{})
				if err != nil {
					t.Fatal(err)
				}
				readAll(t, stream)
			})...)
	})
}

func TestRequestGrowsLinearly(t *testing.T) { hostile().RunRequestGrowth(t) }

func TestEmbeddingGrowsLinearly(t *testing.T) {
	providertest.Hostile{
		New: func(vendor http.RoundTripper) (provider.Provider, error) {
			p, err := bedrock.New(provider.Settings{BaseURL: "http://vendor.example", Transport: vendor})
			return embedsAs{p}, err
		},
		Answers: append(growth.Around(`{"embeddings":`, growth.ValidJSON, "}"),
			growth.Repeat("vectors", `{"embeddings":[[1]`, ",[1]", "]}"), growth.Repeat("numbers", `{"embeddings":[[1`, ",0.5", "],[1]]}")),
	}.RunAnswersGrowth(t)
}

// embedsAs is a provider that embeds with one model, whatever model a request names.
type embedsAs struct{ p *bedrock.Provider }

func (e embedsAs) Name() string { return e.p.Name() }

func (e embedsAs) Embed(ctx context.Context, credential provider.Credential, r *provider.Embedding) (*provider.Vectors, error) {
	own := *r
	own.Model = cohere
	return e.p.Embed(ctx, credential, &own)
}
