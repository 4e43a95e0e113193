package postgres

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/trace"
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

// BenchmarkTraces measures a batch of one organization's traces: storing it, and finding one of its requests.
func BenchmarkTraces(b *testing.B) {
	store := NewTraces(testkit.Postgres(b, migrations.FS))
	var request string
	for name, content := range map[string]int{"bare": 0, "content": 1000} {
		b.Run("append 200/"+name, func(b *testing.B) {
			for b.Loop() {
				records := make([]trace.Record, 200)
				for i := range records {
					records[i] = fullTrace()
					r := &records[i]
					request = fmt.Sprint("req_", r.ID)
					r.RequestID, r.StartedAt, r.Content.Sealed = request, traceAt.Add(time.Duration(i)*time.Millisecond), bytes.Repeat([]byte{1}, content)
					if content == 0 {
						r.Content = nil
					}
				}
				if err := store.Append(b.Context(), records); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*200), "ns/row")
		})
	}
	b.Run("find", func(b *testing.B) {
		for b.Loop() {
			if found, err := store.Latest(b.Context(), "acme", request, 1, traceAt); err != nil || len(found) != 1 {
				b.Fatal(len(found), err)
			}
		}
	})
}
