package openai_test

import (
	"net/http"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/openai"
)

// frames are chunks as OpenAI sends them.
func frames() map[string]string {
	chunk := func(delta string) string {
		return `data: {"id":"chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG","object":"chat.completion.chunk","created":1741570283,` +
			`"model":"gpt-4o-mini-2024-07-18","service_tier":"default","system_fingerprint":"fp_fc9f1d7035",` +
			`"choices":[{"index":0,"delta":` + delta + `,"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"aB3x"}` + "\n\n"
	}
	return map[string]string{
		"text":         chunk(`{"content":" sunny"}`),
		"escaped text": chunk(`{"content":"\"sunny\"\n\u00fc"}`),
		"reasoning":    chunk(`{"reasoning_content":"so"}`),
		"tool":         chunk(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"ci"}}]}`),
	}
}

// A chunk costs at most two allocations, relayed as it came or parsed.
func TestChunkAllocations(t *testing.T) {
	for name, frame := range frames() {
		for mode, native := range map[string]bool{"native": true, "parsed": false} {
			t.Run(name+" "+mode, func(t *testing.T) {
				stream := dialect(provider.Settings{Name: "openai"}).Endless(t, "", frame, native)
				got := testing.AllocsPerRun(200, func() {
					if _, err := stream.Next(); err != nil {
						t.Fatal(err)
					}
				})
				if got > 2 {
					t.Errorf("%v allocations a chunk, want at most 2", got)
				}
			})
		}
	}
}

func BenchmarkChunk(b *testing.B) {
	for name, frame := range frames() {
		b.Run(name, func(b *testing.B) {
			stream := dialect(provider.Settings{Name: "openai"}).Endless(b, "", frame, true)
			b.ReportAllocs()
			b.SetBytes(int64(len(frame)))
			for b.Loop() {
				if _, err := stream.Next(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// again is a vendor that always sends the same whole answer.
type again struct {
	text   string
	header http.Header
	body   strings.Reader
}

func (a *again) RoundTrip(r *http.Request) (*http.Response, error) {
	a.body.Reset(a.text)
	return &http.Response{
		StatusCode: http.StatusOK, Request: r, Header: a.header, ContentLength: int64(len(a.text)), Body: a,
	}, nil
}

func (a *again) Read(into []byte) (int, error) { return a.body.Read(into) }

func (a *again) Close() error { return nil }

// wholes are answers of about 1 KB: those of the load test's vendor, and of OpenAI with calls and all kinds of usage.
func wholes() map[string]string {
	return map[string]string{
		"text": `{"id":"chatcmpl-load","object":"chat.completion","created":1700000000,"model":"load",` +
			`"choices":[{"index":0,"message":{"role":"assistant","content":"` + strings.Repeat("carriage ", 99) + `carriage"},"finish_reason":"stop"}],` +
			`"usage":{"prompt_tokens":200,"completion_tokens":100,"total_tokens":300}}`,
		"tools": `{
  "id": "chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG",
  "object": "chat.completion",
  "created": 1741570283,
  "model": "gpt-4o-mini-2024-07-18",
  "choices": [
    {
      "index": 0,
      "message": {
        "role": "assistant",
        "content": null,
        "tool_calls": [
          {"id": "call_DdmO9pD3xa9XTPNJ32zg2hcA", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\": \"Paris\"}"}},
          {"id": "call_ABxCbKlOKr6zMPbPLvMM7bRT", "type": "function", "function": {"name": "get_time", "arguments": "{}"}}
        ],
        "refusal": null,
        "annotations": []
      },
      "logprobs": null,
      "finish_reason": "tool_calls"
    }
  ],
  "usage": {
    "prompt_tokens": 1500,
    "completion_tokens": 90,
    "total_tokens": 1590,
    "prompt_tokens_details": {"cached_tokens": 1024, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 64, "audio_tokens": 0, "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0}
  },
  "service_tier": "default",
  "system_fingerprint": "fp_fc9f1d7035"
}`,
	}
}

// asking returns one call of a provider whose vendor sends text; the request is as short as possible.
func asking(tb testing.TB, text string) func() {
	tb.Helper()
	vendor := &again{text: text, header: http.Header{
		"Content-Type": {"application/json"}, "Content-Length": {"1100"}, "Date": {"Sat, 21 Nov 2026 12:00:30 GMT"},
	}}
	p, err := openai.New(provider.Settings{Name: "openai", BaseURL: "http://vendor.example", Transport: vendor})
	if err != nil {
		tb.Fatal(err)
	}
	chat := &provider.Chat{Model: "m", Native: &provider.Native{Dialect: openai.DialectName, Body: []byte(`{}`)}}
	return func() {
		if _, err := p.Chat(tb.Context(), provider.Credential{}, chat); err != nil {
			tb.Fatal(err)
		}
	}
}

func BenchmarkAnswer(b *testing.B) {
	for name, text := range wholes() {
		b.Run(name, func(b *testing.B) {
			ask := asking(b, text)
			b.ReportAllocs()
			for b.Loop() {
				ask()
			}
		})
	}
}

func BenchmarkNativeRequest(b *testing.B) {
	p := answering(b, "application/json", `{"choices":[{"message":{"content":"a"}}]}`)
	body := []byte(`{"model":"theirs","messages":[{"role":"user","content":"hello"}],"temperature":0.5}`)
	chat := &provider.Chat{Model: "m", Native: &provider.Native{Dialect: openai.DialectName, Body: body}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Chat(b.Context(), provider.Credential{}, chat); err != nil {
			b.Fatal(err)
		}
	}
}
