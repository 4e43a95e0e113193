package postgres

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/edge/internal/export"
	"switchyard.dev/services/edge/migrations"
	"switchyard.dev/services/platform/testkit"
)

// A write that meets another replica in the middle of taking the lease waits for it, and then changes nothing.
func TestWritesDuringTakeover(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	x, ctx := NewExports(pool), t.Context()
	fence, cursors := openCursor(t, x)
	event := export.Event{
		Identifier: "id", Source: export.Counts, Organization: "acme", Metric: "llm_requests", Amount: "5", At: exportHour,
	}
	p := export.Progress{
		Cursor: cursors[0], Page: export.Page{Next: "5"}, Taken: []export.Event{event},
		Last: export.LastTaken{Event: event, SentAt: exportHour, Account: "lago http://lago"},
	}
	refused := p
	refused.Refused = []export.Refusal{{Event: event, Reason: "no such meter"}}
	for name, write := range map[string]func(ctx context.Context, fence int64) error{
		"begin":                func(ctx context.Context, f int64) error { return x.Begin(ctx, f, p.Cursor, exportHour) },
		"advance":              func(ctx context.Context, f int64) error { return x.Advance(ctx, f, p) },
		"advance with refusal": func(ctx context.Context, f int64) error { return x.Advance(ctx, f, refused) },
		"fail":                 func(ctx context.Context, f int64) error { return x.Fail(ctx, f, refused, "status 500") },
	} {
		tx, err := pool.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var next int64
		if err := tx.QueryRow(ctx, "UPDATE export_lease SET fence = fence + 1 RETURNING fence").Scan(&next); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- write(ctx, fence) }()
		const waiting = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'"
		testkit.Wait(t, name+" waits for the takeover", func() error {
			if testkit.Value[int](t, pool, waiting, t.Name()) == 0 {
				return errors.New("it doesn't wait")
			}
			return nil
		})
		if err := tx.Commit(ctx); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, export.ErrFence) {
			t.Errorf("%s: %v, want %v", name, err, export.ErrFence)
		}
		fence = next
	}
	got, err := x.Cursors(ctx, "d")
	if diff := cmp.Diff(cursors, got); err != nil || diff != "" {
		t.Errorf("the cursor has changed: %v (-want +got):\n%s", err, diff)
	}
	if last, err := x.LastTaken(ctx, "d"); err != nil || !last.SentAt.IsZero() {
		t.Errorf("taken last is %+v, want none: %v", last, err)
	}
	if kept, err := x.Refusals(ctx, "d", "", 10); err != nil || len(kept) != 0 {
		t.Errorf("refused are %+v, want none: %v", kept, err)
	}
}
