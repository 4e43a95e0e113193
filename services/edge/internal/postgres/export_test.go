package postgres

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/edge/internal/export"
	"switchyard.dev/services/edge/internal/meter"
	"switchyard.dev/services/edge/internal/meter/metertest"
	"switchyard.dev/services/edge/migrations"
	"switchyard.dev/services/platform/testkit"
)

var exportHour = time.Date(2026, 11, 24, 10, 0, 0, 0, time.UTC)

// counting adds counts of a writer.
func counting(t *testing.T, usage *Usage) func(organization string, minute time.Time, count int64) {
	t.Helper()
	return func(organization string, minute time.Time, count int64) {
		t.Helper()
		metertest.Add(t, usage, meter.Count{
			Counter: meter.Counter{Organization: organization, Key: "key_1", Metric: "llm_requests", Minute: minute}, Count: count,
		})
	}
}

// Counts that come at any time, late ones and those of merged hours too, are in exactly one growth.
func TestCollectHasEachCountOnce(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	x, usage := NewExports(pool), NewUsage(pool)
	count := counting(t, usage)
	fence, held, err := x.Lease(t.Context(), collectorLease, "a", time.Minute)
	if err != nil || !held {
		t.Fatalf("held %v: %v", held, err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	want := int64(0)
	for round := range 40 {
		for range random.IntN(4) {
			n := 1 + random.Int64N(5)
			count("acme", exportHour.Add(time.Duration(random.IntN(120))*time.Minute), n)
			want += n
		}
		if round%7 == 6 {
			if _, err := usage.Merge(t.Context(), meter.Hour, exportHour.Add(2*time.Hour), 1000); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := x.Collect(t.Context(), fence, exportHour, exportHour.Add(2*time.Hour), exportHour); err != nil {
			t.Fatal(err)
		}
	}
	growths, err := x.Growths(t.Context(), 0, exportHour, time.Time{}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	next, sum, ids := make(map[time.Time]int64), int64(0), make(map[string]bool)
	for _, g := range growths {
		if g.Before != next[g.Hour] {
			t.Errorf("a growth of %v begins at %d, want %d, where the one before ended", g.Hour, g.Before, next[g.Hour])
		}
		next[g.Hour] += g.Count
		sum += g.Count
		ids[g.Entry().ID] = true
	}
	if sum != want || len(ids) != len(growths) {
		t.Errorf("%d growths with %d ids have %d counts, want %d", len(growths), len(ids), sum, want)
	}
	if added, err := x.Collect(t.Context(), fence, exportHour, exportHour.Add(2*time.Hour), exportHour); err != nil || added != 0 {
		t.Errorf("collecting again adds %d: %v", added, err)
	}
	one, err := x.Growths(t.Context(), growths[0].ID, exportHour.Add(time.Hour), exportHour.Add(2*time.Hour), 1)
	if err != nil || len(one) != 1 || one[0].Hour != exportHour.Add(time.Hour) || one[0].ID <= growths[0].ID {
		t.Errorf("a page of one of the second hour: %+v, %v", one, err)
	}
}

// A lease has one holder at a time; what the one before writes counts no longer.
func TestExportFence(t *testing.T) {
	x := NewExports(testkit.Postgres(t, migrations.FS))
	take := func(holder string, duration time.Duration) (int64, bool) {
		t.Helper()
		fence, held, err := x.Lease(t.Context(), "destination/d", holder, duration)
		if err != nil {
			t.Fatal(err)
		}
		return fence, held
	}
	first, held := take("a", time.Hour)
	if again, same := take("a", time.Hour); !held || !same || again != first {
		t.Errorf("the holder renews its lease: held %v then %v, fence %d then %d", held, same, first, again)
	}
	if _, held := take("b", time.Hour); held {
		t.Error("another takes a lease that has not ended")
	}
	take("a", -time.Second)
	second, held := take("b", time.Hour)
	if !held || second <= first {
		t.Errorf("after its end: held %v with fence %d, want one above %d", held, second, first)
	}
	if err := x.Open(t.Context(), "d", export.Counts, exportHour); err != nil {
		t.Fatal(err)
	}
	cursors, err := x.Cursors(t.Context(), "d")
	if err != nil || len(cursors) != 1 {
		t.Fatalf("cursors %+v: %v", cursors, err)
	}
	p := export.Progress{Cursor: cursors[0], Page: export.Page{Next: "5", End: true}, Taken: make([]export.Event, 3)}
	if err := x.Advance(t.Context(), first, p); !errors.Is(err, export.ErrFence) {
		t.Errorf("with the old fence: %v, want %v", err, export.ErrFence)
	}
	if err := x.Advance(t.Context(), second, p); err != nil {
		t.Error(err)
	}
	if _, err := x.Collect(t.Context(), 1, exportHour, exportHour.Add(time.Hour), exportHour); !errors.Is(err, export.ErrFence) {
		t.Errorf("collecting without the lease: %v, want %v", err, export.ErrFence)
	}
	cursors, err = x.Cursors(t.Context(), "d")
	if err != nil || cursors[0].Position != "5" || cursors[0].Sent != 3 || !cursors[0].FinishedAt.IsZero() {
		t.Errorf("the cursor is %+v, want one at 5 with 3 sent that goes on: %v", cursors, err)
	}
}

// Refusals are kept with their reason until a back-fill delivers their events; back-fills end.
func TestExportRefusals(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	x := NewExports(pool)
	fence, _, err := x.Lease(t.Context(), "destination/d", "a", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	event := export.Event{Identifier: "id", Source: export.Counts, Organization: "acme", Metric: "llm_requests", Amount: "5", At: exportHour}
	for _, reason := range []string{"no such meter", "no such customer"} {
		if err := x.Open(t.Context(), "d", export.Counts, exportHour); err != nil {
			t.Fatal(err)
		}
		cursors, err := x.Cursors(t.Context(), "d")
		if err != nil || len(cursors) != 1 {
			t.Fatalf("cursors %+v: %v", cursors, err)
		}
		p := export.Progress{Cursor: cursors[0], Page: export.Page{Next: "1"}, Refused: []export.Refusal{{Event: event, Reason: reason}}}
		if err := x.Advance(t.Context(), fence, p); err != nil {
			t.Fatal(err)
		}
	}
	refused, err := x.Refusals(t.Context(), "d", "", 10)
	if err != nil || len(refused) != 1 || refused[0].Event != event || refused[0].Reason != "no such customer" {
		t.Errorf("refused %+v (%v), want the event once with its last reason", refused, err)
	}
	if w, err := x.Waiting(t.Context(), "d"); err != nil || w.Refused != 1 {
		t.Errorf("waiting %+v (%v), want one refused", w, err)
	}
	again := export.Cursor{Destination: "d", Since: exportHour, Until: exportHour.Add(time.Hour), OnlyRefused: true}
	added, err := x.Backfill(t.Context(), export.Author{Name: "op", Request: "req_1"}, again, []export.Source{export.Counts}, 1)
	if err != nil || len(added) != 1 {
		t.Fatalf("added %v: %v", added, err)
	}
	if more, err := x.Backfill(t.Context(), export.Author{Name: "op", Request: "req_1"}, again, []export.Source{export.Counts}, 1); err != nil || len(more) != 0 {
		t.Errorf("beyond the bound it adds %v: %v", more, err)
	}
	entries := testkit.Value[[]string](t, pool, "SELECT array_agg(concat_ws(' ', actor, action, organization_id, request_id, details->>'destination') ORDER BY id) FROM audit_entry")
	if diff := cmp.Diff([]string{"op export.backfill  req_1 d"}, entries); diff != "" {
		t.Errorf("audit (-want +got):\n%s", diff)
	}
	cursors, err := x.Cursors(t.Context(), "d")
	if err != nil || len(cursors) != 2 || cursors[1].Until.IsZero() || !cursors[1].OnlyRefused || cursors[0].OnlyRefused {
		t.Fatalf("cursors %+v: %v", cursors, err)
	}
	if found, err := x.Refused(t.Context(), "d", []string{"id", "other"}); err != nil || len(found) != 1 || found[0] != "id" {
		t.Errorf("refused of two are %v: %v", found, err)
	}
	if err := x.Fail(t.Context(), fence, export.Progress{Cursor: cursors[1]}, "status 503"); err != nil {
		t.Error(err)
	}
	if err := x.Advance(t.Context(), fence, export.Progress{Cursor: cursors[1], Page: export.Page{End: true}, Taken: []export.Event{event}}); err != nil {
		t.Error(err)
	}
	if left, err := x.Refusals(t.Context(), "d", "", 10); err != nil || len(left) != 0 {
		t.Errorf("after the back-fill refused are %+v: %v", left, err)
	}
	all, err := x.List(t.Context(), "d", 10)
	if err != nil || len(all) != 2 || all[1].FinishedAt.IsZero() || all[1].Failure != "" || !all[0].FinishedAt.IsZero() {
		t.Errorf("cursors %+v, want the back-fill finished and the other not: %v", all, err)
	}
	if dropped, err := x.Drop(t.Context(), exportHour, time.Now().Add(time.Hour), 10); err != nil || dropped != 1 {
		t.Errorf("dropped %d, want the finished back-fill: %v", dropped, err)
	}
}

// If a page fails, its settled events stay known until the cursor moves, and so does the time since which the others
// are unsure.
func TestExportProgress(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	x, ctx := NewExports(pool), t.Context()
	fence, _, err := x.Lease(ctx, "destination/d", "a", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Open(ctx, "d", export.Counts, exportHour); err != nil {
		t.Fatal(err)
	}
	now := func() export.Cursor {
		t.Helper()
		cursors, err := x.Cursors(ctx, "d")
		if err != nil || len(cursors) != 1 {
			t.Fatalf("cursors %+v: %v", cursors, err)
		}
		return cursors[0]
	}
	for _, at := range []time.Time{exportHour, exportHour.Add(time.Hour)} {
		if err := x.Begin(ctx, fence, now(), at); err != nil {
			t.Fatal(err)
		}
	}
	if got := now(); !got.UnsureSince.Equal(exportHour) || len(got.Settled) > 0 {
		t.Errorf("begun twice, the cursor is %+v", got)
	}
	event := func(id string) export.Event {
		return export.Event{Identifier: id, Source: export.Counts, Organization: "acme", Metric: "llm_requests", Amount: "5", At: exportHour}
	}
	for i, p := range []export.Progress{
		{Taken: []export.Event{event("a"), event("b")}}, {}, {Refused: []export.Refusal{{Event: event("c"), Reason: "no"}}},
	} {
		if p.Cursor = now(); i == 2 {
			p.Cursor.UnsureSince = time.Time{}
		}
		if err := x.Fail(ctx, fence, p, "status 500"); err != nil {
			t.Fatal(err)
		}
	}
	got := now()
	if diff := cmp.Diff([]string{"a", "b", "c"}, got.Settled); diff != "" || !got.UnsureSince.IsZero() || got.Sent != 2 || got.Refused != 1 || got.Failure == "" {
		t.Errorf("the cursor is %+v (-want +got):\n%s", got, diff)
	}
	for what, write := range map[string]func(fence int64) error{
		"begin": func(fence int64) error { return x.Begin(ctx, fence, got, exportHour) },
		"fail":  func(fence int64) error { return x.Fail(ctx, fence, export.Progress{Cursor: got}, "x") },
	} {
		if err := write(fence + 1); !errors.Is(err, export.ErrFence) {
			t.Errorf("%s with another fence: %v, want %v", what, err, export.ErrFence)
		}
	}
	if err := x.Advance(ctx, fence, export.Progress{Cursor: got, Page: export.Page{Next: "1"}}); err != nil {
		t.Fatal(err)
	}
	if got := now(); len(got.Settled) > 0 || !got.UnsureSince.IsZero() || got.Position != "1" || got.Failure != "" {
		t.Errorf("behind the page the cursor is %+v", got)
	}
}

// What waits for a destination are the growths behind its cursor, from when they were collected, or the tries that fail.
func TestExportWaiting(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	x, ctx := NewExports(pool), t.Context()
	waits := func(rows int64, least, most time.Duration) {
		t.Helper()
		w, err := x.Waiting(ctx, "d")
		if err != nil || w.Rows != rows || w.Oldest < least || w.Oldest > most {
			t.Errorf("waiting %+v (%v), want %d rows for %v to %v", w, err, rows, least, most)
		}
	}
	waits(0, 0, 0)
	hour := time.Now().UTC().Truncate(time.Hour)
	counting(t, NewUsage(pool))("acme", hour, 5)
	fence, _, err := x.Lease(ctx, collectorLease, "a", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Collect(ctx, fence, hour, hour.Add(time.Hour), time.Now().Add(-10*time.Minute)); err != nil {
		t.Fatal(err)
	}
	waits(0, 0, 0) // It has no cursor yet.
	if err := x.Open(ctx, "d", export.Counts, hour); err != nil {
		t.Fatal(err)
	}
	waits(1, 10*time.Minute, 15*time.Minute)
	cursors, err := x.Cursors(ctx, "d")
	if err != nil || len(cursors) != 1 {
		t.Fatal(cursors, err)
	}
	fence, _, err = x.Lease(ctx, "destination/d", "a", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	growths, err := x.Growths(ctx, 0, hour, time.Time{}, 10)
	if err != nil || len(growths) != 1 {
		t.Fatal(growths, err)
	}
	if err := x.Advance(ctx, fence, export.Progress{Cursor: cursors[0], Page: export.Page{Next: strconv.FormatInt(growths[0].ID, 10)}}); err != nil {
		t.Fatal(err)
	}
	waits(0, 0, 0)
	if err := x.Fail(ctx, fence, export.Progress{Cursor: cursors[0]}, "status 503"); err != nil {
		t.Fatal(err)
	}
	testkit.Exec(t, pool, "UPDATE export_cursor SET failing_since = now() - interval '1 hour'")
	waits(0, time.Hour, time.Hour+5*time.Minute)
}
