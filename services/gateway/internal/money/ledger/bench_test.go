package ledger

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/callcount"
	"switchyard.dev/services/platform/spool"
)

// nowhere is a store that accepts everything at once.
type nowhere struct{}

func (nowhere) Append(context.Context, []Entry) error { return nil }

func (nowhere) Count(context.Context, []callcount.Count) error { return nil }

func (nowhere) Announce(context.Context) (withdraw func(), err error) { return func() {}, nil }

// BenchmarkCommit measures the cost of a row without the database.
func BenchmarkCommit(b *testing.B) {
	for _, mode := range []Mode{ModeSynced, ModeCommitted, ModeAsync} {
		b.Run(string(mode), func(b *testing.B) {
			rows, err := spool.Open(b.TempDir()+"/spool", 1<<40)
			if err != nil {
				b.Fatal(err)
			}
			w := NewWriter(nowhere{}, rows, mode, slog.New(slog.DiscardHandler))
			ctx, cancel := context.WithCancel(context.Background())
			var loop sync.WaitGroup
			loop.Go(func() { _ = w.Run(ctx) })
			e := Entry{
				ID: uuid.New(), RequestID: "req_KVMHMYGDFS6WZAP4A5PBNJORAP", Organization: "acme", Key: "key_1", Service: "edge", Operation: "chat",
				RequestedModel: "gpt-5", Provider: "openai", Model: "gpt-5", Credential: "fleet", Fingerprint: "0011223344556677",
				Usage: provider.Usage{Input: 100, Output: 50}, State: StateReported, Cost: 1e9, PriceVersion: "openai/gpt-5@2025-08-07", Outcome: OutcomeCompleted,
			}
			b.ReportAllocs()
			b.SetParallelism(32)
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					if err := w.Commit(ctx, e); err != nil {
						b.Error(err)
					}
				}
			})
			cancel()
			loop.Wait()
			_ = w.Close(context.Background())
		})
	}
}
