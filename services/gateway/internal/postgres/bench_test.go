package postgres

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/migrations"
	"switchyard.dev/services/platform/testkit"
)

// BenchmarkAppend measures one transaction by its number of rows; ns/row is the result that matters.
func BenchmarkAppend(b *testing.B) {
	store := NewLedger(testkit.Postgres(b, migrations.FS))
	for name, rows := range map[string]int{"1": 1, "2": 2, "4": 4, "16": 16, "256": 256, "256/tagged": 256} {
		tagged := strings.HasSuffix(name, "tagged")
		b.Run(name, func(b *testing.B) {
			entries := make([]ledger.Entry, rows)
			for b.Loop() {
				for i := range entries {
					entries[i] = entry()
					entries[i].ID = uuid.New()
					if !tagged {
						entries[i].User, entries[i].Tags = "", nil
					}
				}
				if err := store.Append(b.Context(), entries); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*rows), "ns/row")
		})
	}
}
