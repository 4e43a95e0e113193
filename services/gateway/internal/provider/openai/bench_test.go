package openai_test

import (
	"io"
	"net/http"
	"testing"

	"switchyard.dev/services/gateway/internal/provider"
	"switchyard.dev/services/gateway/internal/provider/openai"
)

// endless is a vendor's stream that gives one frame again and again.
type endless struct {
	frame string
	at    int
}

func (e *endless) Read(into []byte) (int, error) {
	n := copy(into, e.frame[e.at:])
	e.at = (e.at + n) % len(e.frame)
	return n, nil
}

func (e *endless) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Request: r, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(e),
	}, nil
}

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

// relaying opens a stream of one frame, in the caller's own dialect or parsed.
func relaying(tb testing.TB, frame string, native bool) provider.Stream {
	tb.Helper()
	p, err := openai.New(openai.Config{Name: "openai", BaseURL: "http://vendor.example", Transport: &endless{frame: frame}})
	if err != nil {
		tb.Fatal(err)
	}
	chat := &provider.Chat{Model: "m"}
	if native {
		chat.Native = &provider.Native{Dialect: openai.Dialect, Body: []byte(`{"model":"m","messages":[]}`)}
	}
	stream, err := p.StreamChat(tb.Context(), provider.Credential{}, chat)
	if err != nil {
		tb.Fatal(err)
	}
	return stream
}

// A chunk costs at most two allocations, relayed as it came or parsed.
func TestChunkAllocations(t *testing.T) {
	for name, frame := range frames() {
		for mode, native := range map[string]bool{"native": true, "parsed": false} {
			t.Run(name+" "+mode, func(t *testing.T) {
				stream := relaying(t, frame, native)
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
			stream := relaying(b, frame, true)
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

func BenchmarkNativeRequest(b *testing.B) {
	p := answering(b, "application/json", `{"choices":[{"message":{"content":"a"}}]}`)
	body := []byte(`{"model":"theirs","messages":[{"role":"user","content":"hello"}],"temperature":0.5}`)
	chat := &provider.Chat{Model: "m", Native: &provider.Native{Dialect: openai.Dialect, Body: body}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Chat(b.Context(), provider.Credential{}, chat); err != nil {
			b.Fatal(err)
		}
	}
}
