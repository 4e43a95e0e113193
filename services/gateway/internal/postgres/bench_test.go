package postgres

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/migrations"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/platform/testkit/growth"
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

// copyByDriver writes entries by the driver's own COPY, which package pgcopy stands in for.
func copyByDriver(ctx context.Context, pool *pgxpool.Pool, entries []ledger.Entry) error {
	list := regexp.MustCompile(`(?s)\((.*?)\)`).FindStringSubmatch(copyEntries)[1]
	columns := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' })
	_, err := pool.CopyFrom(ctx, pgx.Identifier{"ledger_entry"}, columns, pgx.CopyFromSlice(len(entries), func(i int) ([]any, error) {
		e := &entries[i]
		row := []any{
			e.ID, e.RequestID, e.Organization, e.Key, e.Service, e.Run, e.Operation, e.RequestedProvider,
			e.RequestedModel, e.RequestedGoal, e.Provider, e.Model, e.Credential, e.Fingerprint, e.Substituted, e.CacheHit, int16(e.Attempts),
		}
		for _, b := range provider.Buckets() {
			row = append(row, *b.Of(&e.Usage))
		}
		return append(row, string(e.State), int64(e.Cost), e.PriceVersion, string(e.Outcome), e.StartedAt, e.EndedAt), nil
	}))
	return err
}

// Rows written by package pgcopy are those that the driver's COPY writes.
func TestEntriesAsTheDriverCopiesThem(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	const rows = `SELECT jsonb_agg(to_jsonb(e) - '{seq,txid,recorded_at}'::text[] ORDER BY id)::text FROM ledger_entry e`
	all := entries(3)
	all[1].Organization, all[1].Run, all[1].Model = "ä\u2028", "", strings.Repeat("m", 200)
	all[1].Substituted, all[1].CacheHit, all[1].Cost = false, false, 0
	all[2].Usage, all[2].EndedAt = provider.Usage{}, all[2].EndedAt.Add(time.Microsecond)
	if err := NewLedger(pool).Append(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	written := testkit.Value[string](t, pool, rows)
	if _, err := pool.Exec(t.Context(), `DELETE FROM ledger_entry`); err != nil {
		t.Fatal(err)
	}
	if err := copyByDriver(t.Context(), pool, all); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(testkit.Value[string](t, pool, rows), written); diff != "" {
		t.Errorf("rows (-driver +pgcopy):\n%s", diff)
	}
}

// BenchmarkCopy writes groups of rows by package pgcopy and by the driver's COPY. cpu-ns/row is this process's processor
// time, without that of Postgres.
func BenchmarkCopy(b *testing.B) {
	pool := testkit.Postgres(b, migrations.FS)
	for _, rows := range []int{1, 16, 256} {
		for _, way := range []struct {
			name string
			copy func(context.Context, []ledger.Entry) error
		}{
			{"pgcopy", NewLedger(pool).Append},
			{"driver", func(ctx context.Context, all []ledger.Entry) error { return copyByDriver(ctx, pool, all) }},
		} {
			b.Run(fmt.Sprintf("%d/%s", rows, way.name), func(b *testing.B) {
				all := entries(rows)
				b.ReportAllocs()
				begun := growth.ProcessorTime()
				for b.Loop() {
					for i := range all {
						all[i].ID = uuid.New()
					}
					if err := way.copy(b.Context(), all); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64((growth.ProcessorTime()-begun).Nanoseconds())/float64(b.N*rows), "cpu-ns/row")
			})
		}
	}
}
