package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/dispatch"
	"switchyard.dev/services/webhook-egress/internal/postgres"
	"switchyard.dev/services/webhook-egress/migrations"
)

// BenchmarkOrder enqueues, claims and settles eight deliveries: without ordering keys, the same beside 100,000 that are
// blocked in the same flow, and with a key each.
func BenchmarkOrder(b *testing.B) {
	for _, tt := range []struct {
		name    string
		blocked int
		key     func(round, n int) string
	}{
		{"no key", 0, func(int, int) string { return "" }},
		{"no key beside blocked ones", 100_000, func(int, int) string { return "" }},
		{"a key each", 0, func(round, n int) string { return fmt.Sprint(round, "-", n) }},
	} {
		b.Run(tt.name, func(b *testing.B) {
			s := postgres.New(testkit.Postgres(b, migrations.FS), time.Hour)
			head := blockFlow(b, s, tt.blocked)
			round := 0
			for b.Loop() {
				drafts := make([]*delivery.Draft, 8)
				for i := range drafts {
					drafts[i] = draft("acme")
					drafts[i].OrderingKey = tt.key(round, i)
				}
				round++
				if _, err := s.Enqueue(b.Context(), drafts, leaseOf(1, false)); err != nil {
					b.Fatal(err)
				}
				var results []dispatch.Result
				for _, job := range claim(b, s, 1, 16).Jobs {
					results = append(results, delivered(job))
				}
				if len(results) != len(drafts) {
					b.Fatalf("%d claimed, want %d; the head of the blocked ones is %v", len(results), len(drafts), head)
				}
				if _, err := s.Settle(b.Context(), results); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// blockFlow queues deliveries behind one that stays leased.
func blockFlow(b *testing.B, s *postgres.Store, n int) (head []delivery.Job) {
	b.Helper()
	for queued := 0; queued < n; queued += 1000 {
		drafts := make([]*delivery.Draft, 1000)
		for i := range drafts {
			drafts[i] = draft("acme")
			drafts[i].OrderingKey = "blocked"
		}
		if _, err := s.Enqueue(b.Context(), drafts, leaseOf(1, false)); err != nil {
			b.Fatal(err)
		}
		head = append(head, claim(b, s, 1, 16).Jobs...)
	}
	return head
}
