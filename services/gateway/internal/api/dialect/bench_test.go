package dialect_test

import (
	"testing"

	"switchyard.dev/services/gateway/internal/api/anthropic"
	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/api/gemini"
	"switchyard.dev/services/gateway/internal/api/openai"
	"switchyard.dev/services/gateway/internal/api/responses"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// BenchmarkStream measures what it costs each face to write a stream of 100 pieces that a vendor of another dialect
// sent. ns/event is to be compared between the faces of one run.
func BenchmarkStream(b *testing.B) {
	const events = 100
	for _, face := range []struct {
		dialect dialect.Dialect
		body    string
	}{
		{openai.Dialect{}, `{"messages":[{"role":"user","content":"hi"}]}`},
		{anthropic.Dialect{}, `{"max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`},
		{responses.Dialect{}, `{"input":"hi"}`},
		{gemini.Dialect{}, `{"contents":[{"parts":[{"text":"hi"}]}]}`},
	} {
		b.Run(face.dialect.Name(), func(b *testing.B) {
			chat, err := face.dialect.Chat([]byte(face.body), nil)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				stream := chat.Writer.Stream(dialect.Reply{Model: "m"})
				for range events {
					_ = stream.Event(provider.Event{Text: " word"})
				}
				_ = stream.End(provider.FinishStop, ledger.Report{})
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*events), "ns/event")
		})
	}
}
