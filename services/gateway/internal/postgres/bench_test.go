package postgres

import (
	"fmt"
	"testing"

	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/migrations"
	"switchyard.dev/services/platform/testkit"
)

// BenchmarkAppend measures one transaction by its number of rows; ns/row is the result that matters.
func BenchmarkAppend(b *testing.B) {
	store := NewLedger(testkit.Postgres(b, migrations.FS))
	for _, rows := range []int{1, 2, 4, 16, 256} {
		b.Run(fmt.Sprint(rows), func(b *testing.B) {
			entries := make([]ledger.Entry, rows)
			for b.Loop() {
				for i := range entries {
					entries[i] = entry()
					entries[i].ID = uuid.New()
				}
				if err := store.Append(b.Context(), entries); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*rows), "ns/row")
		})
	}
}
