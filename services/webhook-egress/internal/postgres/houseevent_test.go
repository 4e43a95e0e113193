package postgres_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/event"
	"switchyard.dev/services/webhook-egress/internal/postgres"
)

// houseEvent is an event of another service.
func houseEvent(organization, id string) event.Event {
	e := happening(organization, "", "switchyard.budget.threshold")
	e.Own, e.Record = true, event.Record{ID: id, CloudEvent: []byte(`{"id":"` + id + `"}`)}
	return e
}

func fanOutHouse(t *testing.T, s *postgres.Store, e event.Event) event.HouseResult {
	t.Helper()
	result, err := s.FanOutHouse(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// list returns the records after a sequence as "organization id", and the last sequence.
func list(t *testing.T, s *postgres.Store, organization string, after int64, limit int) (records []string, last int64) {
	t.Helper()
	recorded, err := s.ListHouse(t.Context(), organization, after, limit)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range recorded {
		if r.Sequence <= last || r.RecordedAt.IsZero() {
			t.Errorf("sequence %d at %s after %d", r.Sequence, r.RecordedAt, last)
		}
		records, last = append(records, r.Organization+" "+string(r.CloudEvent)), r.Sequence
	}
	return records, last
}

func TestHouseEvents(t *testing.T) {
	s, _ := open(t)
	all, owned := register(t, s, subscription("acme", "", "switchyard.*")), register(t, s, subscription("acme", "ann", "*"))
	register(t, s, subscription("other", "", "*"))

	if got := fanOutHouse(t, s, houseEvent("acme", "1")); got != (event.HouseResult{Deliveries: 1}) {
		t.Errorf("%+v, want one delivery: to %s and not to %s of an owner", got, all.ID, owned.ID)
	}
	if got := fanOutHouse(t, s, houseEvent("acme", "1")); got != (event.HouseResult{Deduplicated: true}) {
		t.Errorf("the repeat: %+v", got)
	}
	if got := fanOutHouse(t, s, houseEvent("other", "1")); got != (event.HouseResult{Deliveries: 1}) {
		t.Errorf("the same id of another organization: %+v", got)
	}
	fanOutHouse(t, s, houseEvent("acme", "2"))

	records, last := list(t, s, "", 0, 2)
	if diff := cmp.Diff([]string{`acme {"id":"1"}`, `other {"id":"1"}`}, records); diff != "" {
		t.Errorf("first page (-want +got):\n%s", diff)
	}
	if records, _ = list(t, s, "", last, 2); !cmp.Equal(records, []string{`acme {"id":"2"}`}) {
		t.Errorf("second page %q", records)
	}
	if records, _ = list(t, s, "acme", 0, 9); !cmp.Equal(records, []string{`acme {"id":"1"}`, `acme {"id":"2"}`}) {
		t.Errorf("those of acme: %q", records)
	}
}

// The same event of several replicas at once is fanned out once.
func TestHouseEventOfManyAtOnce(t *testing.T) {
	s, pool := open(t)
	register(t, s, subscription("acme", "", "switchyard.*"))
	group, ctx := errgroup.WithContext(t.Context())
	for range 8 {
		group.Go(func() error {
			_, err := s.FanOutHouse(ctx, houseEvent("acme", "1"))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM deliveries"); n != 1 {
		t.Errorf("%d deliveries, want one", n)
	}
}

// A reader that has the last sequence misses none that is committed later.
func TestHouseEventsAreInTheOrderOfTheirCommits(t *testing.T) {
	s, _ := open(t)
	const writers, each = 4, 10
	group, ctx := errgroup.WithContext(t.Context())
	for w := range writers {
		group.Go(func() error {
			for i := range each {
				if _, err := s.FanOutHouse(ctx, houseEvent("acme", string(rune('a'+w))+string(rune('a'+i)))); err != nil {
					return err
				}
			}
			return nil
		})
	}
	seen := map[string]bool{}
	for after := int64(0); len(seen) < writers*each && ctx.Err() == nil; {
		records, last := list(t, s, "", after, 3)
		for _, r := range records {
			seen[r] = true
		}
		after = max(after, last)
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if rest, last := list(t, s, "", 0, 200); len(rest) != writers*each || last == 0 {
		t.Errorf("%d records, want %d", len(rest), writers*each)
	}
}

func TestRelayedEventsAreRecorded(t *testing.T) {
	s, pool := open(t)
	about := register(t, s, subscription("acme", "ann", "a"))
	testkit.Exec(t, pool, "INSERT INTO operational_event (organization_id, type, endpoint_id) VALUES ('acme', 'switchyard.endpoint.failing', $1)", about.ID.String())
	if _, _, err := s.Relay(t.Context(), 10, func(o event.Operational) (event.Event, error) {
		e := houseEvent(o.Organization, "own")
		e.Concerned = o.Owner
		return e, nil
	}); err != nil {
		t.Fatal(err)
	}
	recorded, err := s.ListHouse(t.Context(), "", 0, 10)
	if err != nil || len(recorded) != 1 || recorded[0].Owner != "ann" {
		t.Errorf("recorded %+v, %v", recorded, err)
	}
}

func TestPurgeHouseEvents(t *testing.T) {
	s, pool := open(t)
	for _, id := range []string{"1", "2", "3"} {
		fanOutHouse(t, s, houseEvent("acme", id))
	}
	testkit.Exec(t, pool, "UPDATE house_event SET recorded_at = now() - interval '31 days' WHERE event_id < '3'")
	for _, want := range []int{1, 1, 0} {
		if n, err := s.PurgeHouseEvents(t.Context(), 30*24*time.Hour, 1); err != nil || n != want {
			t.Fatalf("purged %d, want %d (%v)", n, want, err)
		}
	}
	if records, _ := list(t, s, "", 0, 9); !cmp.Equal(records, []string{`acme {"id":"3"}`}) {
		t.Errorf("left: %q", records)
	}
}
