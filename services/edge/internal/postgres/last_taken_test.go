package postgres

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/edge/internal/export"
	"switchyard.dev/services/edge/migrations"
	"switchyard.dev/services/platform/testkit"
)

// openCursor takes the lease of the destination d and opens its only cursor.
func openCursor(t *testing.T, x *Exports) (fence int64, cursors []export.Cursor) {
	t.Helper()
	fence, _, err := x.Lease(t.Context(), "destination/d", "a", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Open(t.Context(), "d", export.Counts, exportHour); err != nil {
		t.Fatal(err)
	}
	cursors, err = x.Cursors(t.Context(), "d")
	if err != nil || len(cursors) != 1 {
		t.Fatalf("cursors %+v: %v", cursors, err)
	}
	return fence, cursors
}

// The event that a destination took last stays known, whether its page went on or failed, until it takes another one.
func TestLastTakenIsKept(t *testing.T) {
	x, ctx := NewExports(testkit.Postgres(t, migrations.FS)), t.Context()
	fence, cursors := openCursor(t, x)
	last := func(id string) export.LastTaken {
		return export.LastTaken{Event: export.Event{
			Identifier: id, Source: export.Counts, Organization: "acme", Metric: "llm_requests", Customer: "cus_1", Name: "calls", Amount: "5", At: exportHour,
		}, SentAt: exportHour.Add(time.Minute), Account: "lago http://lago"}
	}
	for _, step := range []struct {
		name  string
		write func(p export.Progress) error
		p     export.Progress
		want  export.LastTaken
	}{
		{"none", func(export.Progress) error { return nil }, export.Progress{}, export.LastTaken{}},
		{"of a failed page", func(p export.Progress) error { return x.Fail(ctx, fence, p, "status 500") }, export.Progress{Last: last("a")}, last("a")},
		{"nothing was taken", func(p export.Progress) error { return x.Fail(ctx, fence, p, "status 500") }, export.Progress{}, last("a")},
		{"of a page", func(p export.Progress) error { return x.Advance(ctx, fence, p) }, export.Progress{Last: last("b")}, last("b")},
		{"without the lease", func(p export.Progress) error { _ = x.Advance(ctx, fence+1, p); return nil }, export.Progress{Last: last("c")}, last("b")},
	} {
		step.p.Cursor = cursors[0]
		if err := step.write(step.p); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		got, err := x.LastTaken(ctx, "d")
		if diff := cmp.Diff(step.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", step.name, err, diff)
		}
	}
	if got, err := x.LastTaken(ctx, "other"); err != nil || !got.SentAt.IsZero() {
		t.Errorf("another destination has %+v: %v", got, err)
	}
}
