package inference

import (
	"log/slog"
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// BenchmarkPipeline measures what the pipeline adds to a call: the provider by itself, then the same one behind the
// pipeline. The ledger is in memory.
func BenchmarkPipeline(b *testing.B) {
	bench := setup(b, nil, &script{name: "a", answer: good, steps: []step{text("yes"), end(used)}})
	bench.Log = slog.New(slog.DiscardHandler)
	direct := streaming{bench.scripts["a"]}
	chat := request().Chat
	b.Run("direct", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := direct.Chat(b.Context(), provider.Credential{}, &chat); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("chat", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			bench.ledger.entries = bench.ledger.entries[:0]
			if _, err := bench.Chat(b.Context(), request()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("stream", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			bench.ledger.entries = bench.ledger.entries[:0]
			s, err := bench.StreamChat(b.Context(), request())
			if err != nil {
				b.Fatal(err)
			}
			if _, err := read(s); err != nil {
				b.Fatal(err)
			}
		}
	})
}
