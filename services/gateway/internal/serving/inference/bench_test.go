package inference

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/policy"
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

// BenchmarkMeasured measures an answer and a stream of 200 words, with metrics that are collected.
func BenchmarkMeasured(b *testing.B) {
	bench := setup(b, nil, &script{name: "a", answer: good, steps: append(slices.Repeat([]step{text(" word")}, 200), end(used))})
	bench.Log = slog.New(slog.DiscardHandler)
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	b.Cleanup(func() { _ = meters.Shutdown(context.Background()) })
	var err error
	if bench.metrics, err = newMetrics(meters.Meter("")); err != nil {
		b.Fatal(err)
	}
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
			for err == nil {
				_, err = s.Next()
			}
			s.Close()
		}
	})
}

// BenchmarkHedgeable measures a request that may be hedged, and answers before it is.
func BenchmarkHedgeable(b *testing.B) {
	steps := []step{text("yes"), end(used)}
	bench := setupHedged(b, &script{name: "a", answer: good, steps: steps}, &script{name: "b", answer: good, steps: steps})
	bench.Log = slog.New(slog.DiscardHandler)
	fleet := bench.Fleet()
	for range 100 { // Enough to know what is slow.
		if _, err := bench.Chat(b.Context(), request()); err != nil {
			b.Fatal(err)
		}
	}
	fleet.Hedge = func(policy.Goal) policy.Hedge { return policy.Hedge{BudgetPercent: 2, Goal: policy.GoalLatency} }
	b.ReportAllocs()
	for b.Loop() {
		bench.ledger.entries = bench.ledger.entries[:0]
		if _, err := bench.Chat(b.Context(), request()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkUnreported measures a whole answer whose usage is not reported, with 10 kB of prompt: by the vocabulary and
// by bytes.
func BenchmarkUnreported(b *testing.B) {
	for _, upstream := range []string{"gpt-4o", "llama-3"} {
		b.Run(upstream, func(b *testing.B) {
			bench := named(b, upstream, &script{answer: provider.Answer{Text: "yes", FinishReason: provider.FinishStop}})
			bench.Log = slog.New(slog.DiscardHandler)
			r := saying(strings.Repeat("The quick brown fox jumps over the lazy dog. ", 222))
			b.ReportAllocs()
			for b.Loop() {
				bench.ledger.entries = bench.ledger.entries[:0]
				if _, err := bench.Chat(b.Context(), r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkTranscript measures a stream of 200 words whose usage is reported: with its text kept until then, and
// without.
func BenchmarkTranscript(b *testing.B) {
	for _, upstream := range []string{"gpt-4o", "llama-3"} {
		b.Run(upstream, func(b *testing.B) {
			steps := slices.Repeat([]step{text(" word")}, 200)
			bench := named(b, upstream, &script{steps: append(steps, end(used))})
			bench.Log = slog.New(slog.DiscardHandler)
			bench.Memory = memory.New(memory.DefaultLimit, 50)
			b.ReportAllocs()
			for b.Loop() {
				bench.ledger.entries = bench.ledger.entries[:0]
				s, err := bench.StreamChat(b.Context(), request())
				if err != nil {
					b.Fatal(err)
				}
				for err == nil {
					_, err = s.Next()
				}
				s.Close()
			}
		})
	}
}
