package postgres_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/notify/internal/postgres"
	"switchyard.dev/services/notify/internal/push"
	"switchyard.dev/services/notify/migrations"
	"switchyard.dev/services/platform/houseevent"
	"switchyard.dev/services/platform/houseevent/houseeventtest"
	"switchyard.dev/services/platform/houseevent/outbox"
	"switchyard.dev/services/platform/testkit"
)

// A key that push services refuse on many replicas is recorded once a day for each of them; the outbox leases, postpones
// and gives up events.
func TestRejectedKeysAreReported(t *testing.T) {
	pool := testkit.Postgres(t, migrations.FS)
	rejections, events := postgres.NewRejections(pool), outbox.New(pool)
	group, ctx := errgroup.WithContext(t.Context())
	for range 3 { // replicas
		group.Go(func() error {
			for range 3 {
				if err := rejections.Reject(ctx, []push.Rejection{
					{KeyAt: push.KeyAt{Service: "https://b.example", KeyID: "k1"}, Status: 401},
					{KeyAt: push.KeyAt{Service: "https://a.example", KeyID: "k1"}, Status: 403},
				}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	take := func(limit int) (ids []string) {
		t.Helper()
		taken, err := events.Take(t.Context(), limit, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range taken {
			if e.Type != houseevent.PushKeyRejected || e.Organization != "" || e.Attempts < 1 || e.OccurredAt.IsZero() || e.ID[:7] != "notify-" {
				t.Errorf("event %+v", e)
			}
			houseeventtest.Check(t, e.Type, e.Data)
			ids = append(ids, e.ID)
		}
		return ids
	}
	first, second := take(1), take(9)
	if len(first) != 1 || len(second) != 1 || first[0] == second[0] || take(9) != nil {
		t.Fatalf("leased %v, then %v: want both, each once", first, second)
	}
	subjects := testkit.Value[[]string](t, pool, "SELECT array_agg(subject ORDER BY subject) FROM house_event")
	if diff := cmp.Diff([]string{"push_service/https://a.example", "push_service/https://b.example"}, subjects); diff != "" {
		t.Errorf("subjects (-want +got):\n%s", diff)
	}
	if err := events.Sent(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if err := events.Postpone(t.Context(), map[string]time.Duration{first[0]: 0, second[0]: 0}); err != nil {
		t.Fatal(err)
	}
	if again := take(9); !slices.Equal(again, second) {
		t.Errorf("taken again: %v, want %v: the other one is sent", again, second)
	}
	if waiting, oldest, err := events.Waiting(t.Context()); err != nil || waiting != 1 || oldest <= 0 {
		t.Errorf("%d wait, the oldest for %s (%v)", waiting, oldest, err)
	}
	testkit.Exec(t, pool, "UPDATE house_event SET occurred_at = now() - interval '8 days', keep_until = now() - interval '1 second'")
	if n, err := events.GiveUp(t.Context(), 7*24*time.Hour); err != nil || n != 1 {
		t.Errorf("gave up %d, want the one that was not sent (%v)", n, err)
	}
	for _, want := range []int{1, 1, 0} {
		if n, err := events.Purge(t.Context(), 1); err != nil || n != want {
			t.Errorf("purged %d, want %d (%v)", n, want, err)
		}
	}
}
