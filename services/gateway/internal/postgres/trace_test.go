package postgres

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/trace"
	"switchyard.dev/services/gateway/migrations"
	"switchyard.dev/services/platform/testkit"
)

// Nothing but Drop takes a record's content along, also one that would stay longer.
func TestContentsGoWithTheirRecords(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	store := NewTraces(pool)
	now := time.Now()
	entry := func(expires time.Time) trace.Entry {
		return trace.Entry{
			Record: trace.Record{
				ID: uuid.New(), RequestID: "r", Organization: "acme", Operation: "chat", Status: "ok", StartedAt: now.Add(-time.Hour), ExpiresAt: expires,
			},
			Content: &trace.Content{Key: "k", Sealed: []byte("sealed"), CapturedAt: now, ExpiresAt: now.Add(time.Hour)},
		}
	}
	gone, stays := entry(now.Add(-time.Minute)), entry(now.Add(time.Hour))
	if err := store.Append(t.Context(), []trace.Entry{gone, stays}); err != nil {
		t.Fatal(err)
	}
	if n, err := store.Drop(t.Context(), now, 10); err != nil || n != 1 {
		t.Errorf("%d dropped, %v, want the record that has expired", n, err)
	}
	left, err := store.Contents(t.Context(), []uuid.UUID{gone.ID, stays.ID}, now)
	if _, ok := left[stays.ID]; err != nil || len(left) != 1 || !ok {
		t.Errorf("%d contents left, %v, want that of the other record", len(left), err)
	}
}
