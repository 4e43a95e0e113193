package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/endpoint"
	"switchyard.dev/services/webhook-egress/internal/event"
	"switchyard.dev/services/webhook-egress/internal/postgres"
)

func happening(organization, owner, eventType string) event.Event {
	id := delivery.NewID(time.Now())
	return event.Event{
		Content: delivery.Content{Body: []byte(`{"n": 1}`), MaxAttempts: 4}, ID: id,
		Organization: organization, Owner: owner, EventType: eventType, Patterns: endpoint.Patterns(eventType),
		Record: event.Record{ID: id.String(), CloudEvent: []byte(`{"specversion":"1.0"}`)},
	}
}

func emit(t *testing.T, s *postgres.Store, e event.Event) event.Result {
	t.Helper()
	result, err := s.FanOut(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func TestFanOut(t *testing.T) {
	s, pool := open(t)
	exact, prefix, every := register(t, s, subscription("acme", "ann", "order.paid")), register(t, s, subscription("acme", "", "order.*")), register(t, s, subscription("acme", "bob", "*"))
	idle := register(t, s, subscription("acme", "", "order.paid"))
	change(t, s, idle, endpoint.Change{Active: new(false)})
	gone := register(t, s, subscription("acme", "", "order.paid"))
	if err := (postgres.Endpoints{Store: s}).Delete(t.Context(), endpoint.Scope{Organization: "acme"}, gone.ID); err != nil {
		t.Fatal(err)
	}
	register(t, s, subscription("acme", "", "order", "order.paid.late", "orders.*"))
	register(t, s, subscription("other", "", "*"))

	e := happening("acme", "", "order.paid")
	e.Headers, e.Sealed, e.Traceparent, e.Deadline = map[string]string{"X-A": "b"}, []byte{9}, "00-a-b-01", time.Now().Add(time.Hour)
	result := emit(t, s, e)
	if result.ID != e.ID || result.SkippedPaused != 1 || len(result.Deliveries) != 3 {
		t.Fatalf("result %+v", result)
	}
	want := map[delivery.ID]string{exact.ID: "ann", prefix.ID: "", every.ID: "bob"}
	for _, d := range result.Deliveries {
		record := statusIs(t, s, "acme", d.Delivery, delivery.StatusQueued)
		owner, ok := want[d.Endpoint]
		if !ok {
			t.Errorf("a delivery for endpoint %s", d.Endpoint)
		}
		stored := record
		stored.Owner, stored.EndpointID, stored.EventID, stored.MaxAttempts = owner, d.Endpoint.String(), e.ID.String(), 4
		if diff := cmp.Diff(stored, record); diff != "" {
			t.Errorf("record (-want +got):\n%s", diff)
		}
		if !d.Delivery.Time().Equal(e.ID.Time()) {
			t.Errorf("the delivery's day is %s, the event's %s", d.Delivery.Time(), e.ID.Time())
		}
		if parsed, err := delivery.ParseID(d.Delivery.String()); err != nil || parsed != d.Delivery {
			t.Errorf("delivery id %s: %v", d.Delivery, err)
		}
		delete(want, d.Endpoint)
		if got, err := s.Get(t.Context(), "acme", "", d.Delivery, true); err != nil || string(got.Body) != `{"n": 1}` {
			t.Errorf("body %s, %v", got.Body, err)
		}
	}
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM delivery_body"); n != 1 {
		t.Errorf("%d bodies, want one for all", n)
	}
	jobs := claim(t, s, 1, 8).Jobs
	if len(jobs) != 3 {
		t.Fatalf("%d jobs", len(jobs))
	}
	for _, job := range jobs {
		want := job
		want.Event, want.Body, want.Headers = e.ID, []byte(`{"n": 1}`), map[string]string{"X-A": "b"}
		want.Traceparent, want.URL = "00-a-b-01", "https://example.com/hook"
		if diff := cmp.Diff(want, job); diff != "" {
			t.Errorf("job (-want +got):\n%s", diff)
		}
		if job.Endpoint == nil || job.Deadline.IsZero() {
			t.Errorf("endpoint %v, deadline %s, want both", job.Endpoint, job.Deadline)
		}
	}
	if one := emit(t, s, happening("acme", "ann", "order.paid")); len(one.Deliveries) != 1 || one.Deliveries[0].Endpoint != exact.ID || one.SkippedPaused != 0 {
		t.Errorf("for one owner: %+v", one)
	}
	except := happening("acme", "", "order.paid")
	except.Except = every.ID
	if two := emit(t, s, except); len(two.Deliveries) != 2 {
		t.Errorf("without one: %+v", two)
	}
	if none := emit(t, s, happening("nobody", "", "x")); len(none.Deliveries) != 0 {
		t.Errorf("nobody: %+v", none)
	}
}

func TestFanOutIsDeduplicated(t *testing.T) {
	s, pool := open(t)
	register(t, s, subscription("acme", "", "*"))
	register(t, s, subscription("acme", "", "a"))
	first := happening("acme", "", "a")
	first.Key, first.Fingerprint = "k", [32]byte{1}
	once := emit(t, s, first)
	repeat := happening("acme", "", "a")
	repeat.Key, repeat.Fingerprint = "k", [32]byte{1}
	again := emit(t, s, repeat)
	once.Deduplicated = true
	if diff := cmp.Diff(once, again); diff != "" {
		t.Errorf("repeat (-want +got):\n%s", diff)
	}
	repeat.ID, repeat.Fingerprint = delivery.NewID(time.Now()), [32]byte{2}
	if other := emit(t, s, repeat); !other.Mismatch || other.ID != once.ID {
		t.Errorf("another request: %+v", other)
	}
	repeat.Owner = "ann"
	if own := emit(t, s, repeat); own.Deduplicated || own.ID != repeat.ID {
		t.Errorf("an owner with the key of others: %+v", own)
	}
	// The key of a delivery is another one.
	d := draft("acme")
	d.Key = "k"
	if stored := enqueue(t, s, leaseOf(1, false), d); stored[0].Deduplicated {
		t.Errorf("delivery %+v", stored[0])
	}
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM deliveries WHERE event_id IS NOT NULL"); n != 2 {
		t.Errorf("%d deliveries", n)
	}
}

func TestFanOutAmongChanges(t *testing.T) {
	s, pool := open(t)
	e := register(t, s, subscription("acme", "", "*"))
	const rounds = 30
	failed := make(chan error, 2)
	go func() {
		for i := range rounds {
			_, err := postgres.Endpoints{Store: s}.Update(t.Context(), endpoint.Scope{Organization: "acme"}, e.ID,
				func(e endpoint.Endpoint) (endpoint.Endpoint, error) {
					return endpoint.Change{Active: new(i%2 == 1)}.Apply(e, time.Now())
				})
			if err != nil {
				failed <- err
				return
			}
		}
		failed <- nil
	}()
	made, skipped := 0, 0
	for range rounds {
		result := emit(t, s, happening("acme", "", "a"))
		made, skipped = made+len(result.Deliveries), skipped+result.SkippedPaused
	}
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	if made+skipped != rounds || testkit.Value[int](t, pool, "SELECT count(*) FROM deliveries") != made {
		t.Errorf("%d made and %d skipped of %d", made, skipped, rounds)
	}
	if got := len(claim(t, s, 1, 100).Jobs); got != made {
		t.Errorf("%d claimed of %d: a flow sleeps over its rows", got, made)
	}
}

func TestFanOutsAndChangesExcludeEachOther(t *testing.T) {
	s, pool := open(t)
	e := register(t, s, subscription("acme", "", "*"))
	registry, scope := postgres.Endpoints{Store: s}, endpoint.Scope{Organization: "acme"}
	does := map[string]func(context.Context) error{
		"fan out": func(ctx context.Context) error { _, err := s.FanOut(ctx, happening("acme", "", "a")); return err },
		"relay": func(ctx context.Context) error {
			testkit.Exec(t, pool, "INSERT INTO operational_event (organization_id, type) VALUES ('acme', 'switchyard.endpoint.failing')")
			_, _, err := s.Relay(ctx, 1, func(o event.Operational) (event.Event, error) { return happening("acme", "", o.Type), nil })
			return err
		},
		"other": func(ctx context.Context) error { _, err := s.FanOut(ctx, happening("other", "", "a")); return err },
		"add":   func(ctx context.Context) error { return registry.Add(ctx, subscription("acme", "", "*"), 100) },
		"update": func(ctx context.Context) error {
			_, err := registry.Update(ctx, scope, e.ID, func(e endpoint.Endpoint) (endpoint.Endpoint, error) { return e, nil })
			return err
		},
		"delete": func(ctx context.Context) error { return registry.Delete(ctx, scope, e.ID) },
	}
	for lock, waits := range map[string][]string{"_shared": {"add", "update", "delete"}, "": {"fan out", "relay", "add", "update", "delete"}} {
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), "SELECT pg_advisory_xact_lock"+lock+"(hashtextextended(current_schema() || '/endpoints/acme', 0))"); err != nil {
			t.Fatal(err)
		}
		for name, do := range does {
			if slices.Contains(waits, name) {
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				if err := do(ctx); err == nil {
					t.Errorf("%s went ahead of a lock%s", name, lock)
				}
				cancel()
			} else if err := do(t.Context()); err != nil {
				t.Errorf("%s beside a lock%s: %v", name, lock, err)
			}
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFanOutToMany(t *testing.T) {
	s, pool := open(t)
	const endpoints = 10_000
	testkit.Exec(t, pool, `WITH f AS (INSERT INTO flow (organization_id, scheme, host, port, endpoint_id)
			SELECT 'acme', 'https', 'h' || n, 443, gen_random_uuid() FROM generate_series(1, $1) n RETURNING flow_id, endpoint_id)
		INSERT INTO endpoints (id, organization_id, url, flow_id, event_types, signing_mode, created_at, updated_at)
		SELECT endpoint_id, 'acme', 'https://h/', flow_id, '{a}', 'org_timestamp', now(), now() FROM f`, endpoints)
	began := time.Now()
	result := emit(t, s, happening("acme", "", "a"))
	t.Logf("%d deliveries in %s", len(result.Deliveries), time.Since(began))
	seen := make(map[delivery.ID]bool)
	for _, d := range result.Deliveries {
		seen[d.Delivery] = true
	}
	if len(seen) != endpoints || testkit.Value[int](t, pool, "SELECT count(*) FROM delivery_queue") != endpoints {
		t.Errorf("%d deliveries", len(seen))
	}
}

func TestRelay(t *testing.T) {
	s, pool := open(t)
	about, other := register(t, s, subscription("acme", "", "*")), register(t, s, subscription("acme", "", "switchyard.*"))
	testkit.Exec(t, pool, "INSERT INTO operational_event (organization_id, type, endpoint_id) VALUES ('acme', 'switchyard.endpoint.failing', $1)", about.ID.String())
	failing := errors.New("no")
	if _, _, err := s.Relay(t.Context(), 10, func(event.Operational) (event.Event, error) { return event.Event{}, failing }); !errors.Is(err, failing) {
		t.Fatalf("err = %v", err)
	}
	var reported []string
	taken, deliveries, err := s.Relay(t.Context(), 10, func(o event.Operational) (event.Event, error) {
		reported = append(reported, fmt.Sprint(o.Organization, o.Type, o.Endpoint, o.Delivery == delivery.ID{}))
		e := happening(o.Organization, "", o.Type)
		e.Except = o.Endpoint
		return e, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if taken != 1 || deliveries != 1 {
		t.Errorf("%d notes taken, %d deliveries, want 1 of each", taken, deliveries)
	}
	if len(reported) != 1 {
		t.Errorf("reported %q, want one", reported)
	}
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM deliveries WHERE endpoint_id = $1", other.ID.String()); n != 1 {
		t.Errorf("%d deliveries to the other endpoint", n)
	}
	if taken, _, _ := s.Relay(t.Context(), 10, nil); taken != 0 {
		t.Errorf("reported twice")
	}
}

// The service's own events stay with the owner concerned and the organization's own
// endpoints.
func TestOwnEventsStayWithTheirOwner(t *testing.T) {
	s, pool := open(t)
	about := register(t, s, subscription("acme", "ann", "order.*"))
	anns, bobs, all := register(t, s, subscription("acme", "ann", "switchyard.*")), register(t, s, subscription("acme", "bob", "*")), register(t, s, subscription("acme", "", "*"))
	direct := draft("acme")
	direct.Owner = "bob"
	enqueue(t, s, leaseOf(1, false), direct)
	report := func(query string, args ...any) map[string]bool {
		t.Helper()
		testkit.Exec(t, pool, query, args...)
		got := map[string]bool{}
		_, _, err := s.Relay(t.Context(), 10, func(o event.Operational) (event.Event, error) {
			e := happening(o.Organization, "", o.Type)
			e.Except, e.Own, e.Concerned = o.Endpoint, true, o.Owner
			return e, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, job := range claim(t, s, 1, 8).Jobs {
			if job.Endpoint != nil {
				got[job.Endpoint.ID.String()] = true
			}
		}
		return got
	}
	got := report("INSERT INTO operational_event (organization_id, type, endpoint_id) VALUES ('acme', 'switchyard.endpoint.failing', $1)", about.ID.String())
	if diff := cmp.Diff(map[string]bool{anns.ID.String(): true, all.ID.String(): true}, got); diff != "" {
		t.Errorf("of ann's endpoint (-want +got):\n%s", diff)
	}
	got = report("INSERT INTO operational_event (organization_id, type, delivery_id) VALUES ('acme', 'switchyard.delivery.failed', $1)", direct.ID.String())
	if diff := cmp.Diff(map[string]bool{bobs.ID.String(): true, all.ID.String(): true}, got); diff != "" {
		t.Errorf("of bob's delivery (-want +got):\n%s", diff)
	}
}
