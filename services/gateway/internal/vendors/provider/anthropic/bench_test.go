package anthropic_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/anthropic"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
)

const begin = `event: message_start
data: {"type":"message_start","message":{"usage":{"input_tokens":1,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"n","input":{}}}

`

var deltas = map[string]string{
	"text":    `{"type":"text_delta","text":"hello wor"}`,
	"escaped": `{"type":"text_delta","text":"line\nnext \"Zürich\" \ud83d\ude00"}`,
	"tool":    `{"type":"input_json_delta","partial_json":"{\"city\": \"Par"}`,
	"unknown": `{"type":"citations_delta","citation":{"type":"char_location","cited_text":"a"}}`,
}

func openStream(tb testing.TB, delta string, native bool) provider.Stream {
	tb.Helper()
	frame := "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":" + delta + "}\n\n"
	return dialect().Endless(tb, begin, frame, native)
}

// A chunk costs at most two allocations, relayed or translated.
func TestChunkAllocations(t *testing.T) {
	for name, delta := range deltas {
		stream := openStream(t, delta, true)
		if n := testing.AllocsPerRun(1000, func() { _, _ = stream.Next() }); n > 2 {
			t.Errorf("%s: %v allocations a chunk, want at most 2", name, n)
		}
	}
}

// BenchmarkChunk measures the cost of one chunk including its usage; the budget of a relayed one is 10 µs and 2
// allocations.
func BenchmarkChunk(b *testing.B) {
	for _, native := range []bool{true, false} {
		for name, delta := range deltas {
			if name == "unknown" && !native {
				continue // It has no content: Next would never return.
			}
			b.Run(map[bool]string{true: "relayed/", false: "translated/"}[native]+name, func(b *testing.B) {
				stream := openStream(b, delta, native)
				b.ReportAllocs()
				for b.Loop() {
					if _, err := stream.Next(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkAnswer measures the cost of a whole answer of 10 KB.
func BenchmarkAnswer(b *testing.B) {
	body := `{"type":"message","model":"m","content":[{"type":"text","text":"` + strings.Repeat(`lorem ipsum \n`, 780) +
		`"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`
	vendor := providertest.Transport(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, ContentLength: int64(len(body)), Body: io.NopCloser(strings.NewReader(body))}, nil
	})
	p, err := anthropic.New(provider.Settings{BaseURL: "http://vendor.example", Transport: vendor})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Chat(b.Context(), provider.Credential{}, &provider.Chat{Model: "m"}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRelay measures what it takes to adapt an agent's request of 120 kB and to name what was left out of it.
func BenchmarkRelay(b *testing.B) {
	turn := `{"role":"user","content":[{"type":"text","text":"` + strings.Repeat(`a line of a file\n`, 60) + `"}]},`
	body := []byte(`{"model":"m","max_tokens":32000,"messages":[` + strings.TrimSuffix(strings.Repeat(turn, 110), ",") +
		`],"thinking":{"type":"adaptive"},"output_config":{"effort":"high"},"stream":true}`)
	chat := &provider.Chat{
		Model: "claude-opus-4-6", MaxTokens: 32000,
		Native: &provider.Native{Dialect: anthropic.DialectName, Body: body},
	}
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := anthropic.Relay(chat); err != nil {
			b.Fatal(err)
		}
		anthropic.Omitted(chat)
	}
}
