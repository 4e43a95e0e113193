package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/endpoint"
	"switchyard.dev/services/webhook-egress/internal/event"
	"switchyard.dev/services/webhook-egress/internal/postgres"
)

func subscription(organization, owner string, types ...string) endpoint.Endpoint {
	now := time.Now().UTC().Truncate(time.Microsecond)
	return endpoint.Endpoint{
		ID: delivery.NewID(now), Organization: organization, Owner: owner, URL: "https://example.com/hook", EventTypes: types,
		Active: true, SigningMode: "org_timestamp", Created: now, Updated: now,
	}
}

func register(t *testing.T, s *postgres.Store, e endpoint.Endpoint) endpoint.Endpoint {
	t.Helper()
	registry := postgres.Endpoints{Store: s}
	if err := registry.Add(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	got, err := registry.Get(t.Context(), endpoint.Scope{Organization: e.Organization, Owner: e.Owner}, e.ID)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func change(t *testing.T, s *postgres.Store, e endpoint.Endpoint, c endpoint.Change) endpoint.Endpoint {
	t.Helper()
	got, err := postgres.Endpoints{Store: s}.Update(t.Context(), endpoint.Scope{Organization: e.Organization, Owner: e.Owner}, e.ID,
		func(e endpoint.Endpoint) (endpoint.Endpoint, error) {
			return c.Apply(e, time.Now().UTC().Truncate(time.Microsecond))
		})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func happening(organization, owner, eventType string) event.Event {
	return event.Event{
		Content: delivery.Content{Body: []byte(`{"n": 1}`), MaxAttempts: 4}, ID: delivery.NewID(time.Now()),
		Organization: organization, Owner: owner, EventType: eventType, Patterns: endpoint.Patterns(eventType),
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

func statusIs(t *testing.T, s *postgres.Store, organization string, id delivery.ID, want delivery.Status) delivery.Record {
	t.Helper()
	record, err := s.Get(t.Context(), organization, "", id, false)
	if err != nil {
		t.Fatal(err)
	}
	if record.Status != want {
		t.Errorf("delivery is %s, want %s", record.Status, want)
	}
	return record
}

func TestEndpointIsReadAsWritten(t *testing.T) {
	s, _ := open(t)
	e := subscription("acme", "ann", "order.paid", "user.*")
	e.SigningMode, e.Secret, e.RatePerSecond, e.Description = "endpoint_body", []byte{1, 2}, 2.5, "a note"
	got := register(t, s, e)
	e.FlowID = got.FlowID
	normal := cmp.Transformer("utc", func(at time.Time) time.Time { return at.UTC() })
	if diff := cmp.Diff(e, got, normal); diff != "" {
		t.Errorf("endpoint (-want +got):\n%s", diff)
	}
	until := time.Now().UTC().Add(time.Hour).Truncate(time.Microsecond)
	rotated := change(t, s, got, endpoint.Change{Secret: []byte{3}, Overlap: time.Hour, Description: new("")})
	if string(rotated.Secret) != "\x03" || string(rotated.Previous) != "\x01\x02" || rotated.PreviousUntil.Sub(until).Abs() > time.Minute || rotated.Description != "" {
		t.Errorf("rotated %+v", rotated)
	}
	again, err := postgres.Endpoints{Store: s}.Get(t.Context(), endpoint.Scope{Organization: "acme", Owner: "ann"}, e.ID)
	if diff := cmp.Diff(rotated, again, normal); diff != "" || err != nil {
		t.Errorf("read again (-want +got):\n%s%v", diff, err)
	}
}

// By id an endpoint with an owner is there for that owner only; lists are for
// all owners unless one is named.
func TestEndpointScope(t *testing.T) {
	s, _ := open(t)
	registry := postgres.Endpoints{Store: s}
	owned, shared := register(t, s, subscription("acme", "ann", "a")), register(t, s, subscription("acme", "", "a"))
	register(t, s, subscription("other", "ann", "a"))
	for name, tt := range map[string]struct {
		scope  endpoint.Scope
		id     delivery.ID
		status int
	}{
		"the owner":                    {endpoint.Scope{Organization: "acme", Owner: "ann"}, owned.ID, http.StatusOK},
		"another owner":                {endpoint.Scope{Organization: "acme", Owner: "bob"}, owned.ID, http.StatusNotFound},
		"no owner":                     {endpoint.Scope{Organization: "acme"}, owned.ID, http.StatusNotFound},
		"another organization":         {endpoint.Scope{Organization: "other", Owner: "ann"}, owned.ID, http.StatusNotFound},
		"one without owner, by anyone": {endpoint.Scope{Organization: "acme", Owner: "bob"}, shared.ID, http.StatusOK},
		"one without owner":            {endpoint.Scope{Organization: "acme"}, shared.ID, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			same := func(e endpoint.Endpoint) (endpoint.Endpoint, error) { return e, nil }
			_, read := registry.Get(t.Context(), tt.scope, tt.id)
			_, updated := registry.Update(t.Context(), tt.scope, tt.id, same)
			errs := []error{read, updated}
			if tt.status != http.StatusOK {
				errs = append(errs, registry.Delete(t.Context(), tt.scope, tt.id))
			}
			for _, err := range errs {
				if got := statusOf(err); got != tt.status {
					t.Errorf("status %d (%v), want %d", got, err, tt.status)
				}
			}
		})
	}
	for owner, want := range map[string]int{"": 2, "ann": 1, "bob": 0} {
		page, err := registry.List(t.Context(), endpoint.Filter{Scope: endpoint.Scope{Organization: "acme", Owner: owner}}, delivery.LastID, 10)
		if err != nil || len(page) != want {
			t.Errorf("owner %q: %d endpoints, %v; want %d", owner, len(page), err, want)
		}
	}
}

func statusOf(err error) int {
	if err == nil {
		return http.StatusOK
	}
	return apierr.From(err).Kind.HTTPStatus()
}

func TestListEndpoints(t *testing.T) {
	s, _ := open(t)
	registry := postgres.Endpoints{Store: s}
	var all []delivery.ID
	for i, types := range [][]string{{"order.paid"}, {"order.*"}, {"*"}, {"user.made"}} {
		e := subscription("acme", "", types...)
		e.ID = delivery.NewID(time.Now().Add(time.Duration(i) * time.Millisecond))
		all = append(all, register(t, s, e).ID)
	}
	paused := endpoint.Endpoint{ID: all[1], Organization: "acme"}
	change(t, s, paused, endpoint.Change{Active: new(false)})
	for name, tt := range map[string]struct {
		filter endpoint.Filter
		want   []int
	}{
		"all":        {endpoint.Filter{}, []int{3, 2, 1, 0}},
		"active":     {endpoint.Filter{Active: new(true)}, []int{3, 2, 0}},
		"paused":     {endpoint.Filter{Active: new(false)}, []int{1}},
		"by type":    {endpoint.Filter{EventType: "order.paid"}, []int{2, 1, 0}},
		"by no type": {endpoint.Filter{EventType: "order"}, []int{2}},
	} {
		t.Run(name, func(t *testing.T) {
			tt.filter.Organization = "acme"
			page, err := registry.List(t.Context(), tt.filter, delivery.LastID, 10)
			if err != nil {
				t.Fatal(err)
			}
			var got, want []delivery.ID
			for _, e := range page {
				got = append(got, e.ID)
			}
			for _, i := range tt.want {
				want = append(want, all[i])
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("ids (-want +got):\n%s", diff)
			}
		})
	}
	if page, _ := registry.List(t.Context(), endpoint.Filter{Scope: endpoint.Scope{Organization: "acme"}}, all[2], 1); len(page) != 1 || page[0].ID != all[1] {
		t.Errorf("page below %s: %+v", all[2], page)
	}
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
		if !ok || record.Owner != owner || record.EndpointID != d.Endpoint.String() || record.EventID != e.ID.String() || record.MaxAttempts != 4 || !d.Delivery.Time().Equal(e.ID.Time()) {
			t.Errorf("record %+v", record)
		}
		if parsed, err := delivery.ParseID(d.Delivery.String()); err != nil || parsed != d.Delivery {
			t.Errorf("delivery id %s: %v", d.Delivery, err)
		}
		delete(want, d.Endpoint)
		if got, err := s.Get(t.Context(), "acme", "", d.Delivery, true); err != nil || string(got.Body) != `{"n": 1}` {
			t.Errorf("body %s, %v", got.Body, err)
		}
	}
	if n := count(t, pool, "SELECT count(*) FROM delivery_body"); n != 1 {
		t.Errorf("%d bodies, want one for all", n)
	}
	jobs := claim(t, s, 1, 8).Jobs
	if len(jobs) != 3 {
		t.Fatalf("%d jobs", len(jobs))
	}
	for _, job := range jobs {
		if job.Endpoint == nil || job.SealedFor() != e.ID.String() || string(job.Body) != `{"n": 1}` || job.Headers["X-A"] != "b" || job.Traceparent != "00-a-b-01" || job.URL != "https://example.com/hook" || job.Deadline.IsZero() {
			t.Errorf("job %+v", job)
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
	if other := emit(t, s, repeat); !other.Mismatch || len(other.Deliveries) != 0 {
		t.Errorf("an owner is told of others' deliveries: %+v", other)
	}
	// The key of a delivery is another one.
	d := draft("acme")
	d.Key = "k"
	if stored := enqueue(t, s, leaseOf(1, false), d); stored[0].Deduplicated {
		t.Errorf("delivery %+v", stored[0])
	}
	if n := count(t, pool, "SELECT count(*) FROM deliveries WHERE event_id IS NOT NULL"); n != 2 {
		t.Errorf("%d deliveries", n)
	}
}

// While endpoints come and go, each event goes to those that are active when it
// is committed: what the fan-outs made equals what a serial order would make.
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
	if made+skipped != rounds || count(t, pool, "SELECT count(*) FROM deliveries") != made {
		t.Errorf("%d made and %d skipped of %d", made, skipped, rounds)
	}
	if got := len(claim(t, s, 1, 100).Jobs); got != made {
		t.Errorf("%d claimed of %d: a flow sleeps over its rows", got, made)
	}
}

// A change of endpoints waits for the fan-outs of its organization, and they for
// it; fan-outs don't wait for each other, nor for other organizations.
func TestFanOutsAndChangesExcludeEachOther(t *testing.T) {
	s, pool := open(t)
	e := register(t, s, subscription("acme", "", "*"))
	registry, scope := postgres.Endpoints{Store: s}, endpoint.Scope{Organization: "acme"}
	does := map[string]func(context.Context) error{
		"fan out": func(ctx context.Context) error { _, err := s.FanOut(ctx, happening("acme", "", "a")); return err },
		"relay": func(ctx context.Context) error {
			exec(t, pool, "INSERT INTO operational_event (organization_id, type) VALUES ('acme', 'switchyard.endpoint.failing')")
			_, _, err := s.Relay(ctx, 1, func(o event.Operational) (event.Event, error) { return happening("acme", "", o.Type), nil })
			return err
		},
		"other": func(ctx context.Context) error { _, err := s.FanOut(ctx, happening("other", "", "a")); return err },
		"add":   func(ctx context.Context) error { return registry.Add(ctx, subscription("acme", "", "*")) },
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

// A test goes where it was made for, also when its endpoint has moved meanwhile:
// the flow, and with it the breaker, is that of its URL.
func TestATestDoesNotMove(t *testing.T) {
	s, _ := open(t)
	e := register(t, s, subscription("acme", "", "*"))
	d := draft("acme")
	d.Endpoint, d.Test = &delivery.JobEndpoint{ID: e.ID}, true
	enqueue(t, s, leaseOf(1, false), d)
	change(t, s, e, endpoint.Change{URL: new("https://elsewhere.example/")})
	if record := statusIs(t, s, "acme", d.ID, delivery.StatusQueued); record.URL != d.URL {
		t.Errorf("the record says %s", record.URL)
	}
	if jobs := claim(t, s, 1, 8).Jobs; len(jobs) != 1 || jobs[0].URL != d.URL || jobs[0].Host != d.Target.Host {
		t.Errorf("jobs %+v", jobs)
	}
}

func TestFanOutToMany(t *testing.T) {
	s, pool := open(t)
	const endpoints = 10_000
	exec(t, pool, `WITH f AS (INSERT INTO flow (organization_id, scheme, host, port, endpoint_id)
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
	if len(seen) != endpoints || count(t, pool, "SELECT count(*) FROM delivery_queue") != endpoints {
		t.Errorf("%d deliveries", len(seen))
	}
}

func TestPauseAndResume(t *testing.T) {
	s, _ := open(t)
	e := register(t, s, subscription("acme", "", "*"))
	id := emit(t, s, happening("acme", "", "a")).Deliveries[0].Delivery
	change(t, s, e, endpoint.Change{Active: new(false)})
	if got := claim(t, s, 1, 8); len(got.Jobs) != 0 || got.Flows != 0 {
		t.Fatalf("claimed %+v", got)
	}
	if record := statusIs(t, s, "acme", id, delivery.StatusQueued); record.LastError != "endpoint_paused" || !record.NextAttempt.IsZero() {
		t.Errorf("record %+v", record)
	}
	change(t, s, e, endpoint.Change{URL: new("http://elsewhere.example:8080/x"), RatePerSecond: new(7.0)})
	if got := claim(t, s, 1, 8); len(got.Jobs) != 0 {
		t.Fatalf("a change ended the pause: %+v", got)
	}
	change(t, s, e, endpoint.Change{Active: new(true)})
	jobs := claim(t, s, 1, 8).Jobs
	if len(jobs) != 1 || jobs[0].URL != "http://elsewhere.example:8080/x" || jobs[0].Host != "elsewhere.example" || jobs[0].Port != 8080 {
		t.Fatalf("jobs %+v", jobs)
	}
	settle(t, s, delivered(jobs[0]))
	change(t, s, e, endpoint.Change{URL: new("https://third.example/")})
	if record := statusIs(t, s, "acme", id, delivery.StatusDelivered); record.URL != "http://elsewhere.example:8080/x" {
		t.Errorf("an ended delivery follows its endpoint: %s", record.URL)
	}
}

func TestResumeForgives(t *testing.T) {
	s, pool := open(t)
	e := register(t, s, subscription("acme", "", "*"))
	exec(t, pool, "UPDATE endpoints SET active = false, disabled_reason = 'gone', disabled_at = now(), failures = 9, failing_since = now()")
	got := change(t, s, e, endpoint.Change{Active: new(true)})
	if !got.Active || got.DisabledReason != "" || count(t, pool, "SELECT failures FROM endpoints WHERE disabled_at IS NULL AND failing_since IS NULL") != 0 {
		t.Errorf("endpoint %+v", got)
	}
}

func TestDeleteCancelsWhatIsQueued(t *testing.T) {
	s, pool := open(t)
	registry := postgres.Endpoints{Store: s}
	e, kept := register(t, s, subscription("acme", "", "*")), register(t, s, subscription("acme", "", "*"))
	var mine, others []delivery.ID
	for range 5 {
		for _, d := range emit(t, s, happening("acme", "", "a")).Deliveries {
			if d.Endpoint == e.ID {
				mine = append(mine, d.Delivery)
			} else {
				others = append(others, d.Delivery)
			}
		}
	}
	if err := registry.Delete(t.Context(), endpoint.Scope{Organization: "acme"}, e.ID); err != nil {
		t.Fatal(err)
	}
	pages := 0
	for more := true; more; pages++ {
		var err error
		if more, err = registry.CancelDeleted(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range mine {
		statusIs(t, s, "acme", id, delivery.StatusCancelled)
		if _, err := s.Resend(t.Context(), delivery.Resend{Organization: "acme", ID: id}); apierr.From(err).Reason != delivery.ReasonEndpointDeleted {
			t.Errorf("resend: %v", err)
		}
	}
	for _, id := range others {
		statusIs(t, s, "acme", id, delivery.StatusQueued)
	}
	if n := count(t, pool, "SELECT count(*) FROM flow WHERE endpoint_id IS NOT NULL"); n != 1 || pages < 3 {
		t.Errorf("%d flows of endpoints after %d pages", n, pages)
	}
	if _, err := registry.Get(t.Context(), endpoint.Scope{Organization: "acme"}, e.ID); statusOf(err) != http.StatusNotFound {
		t.Errorf("a deleted endpoint is found: %v", err)
	}
	_ = kept
}

func TestRelay(t *testing.T) {
	s, pool := open(t)
	about, other := register(t, s, subscription("acme", "", "*")), register(t, s, subscription("acme", "", "switchyard.*"))
	exec(t, pool, "INSERT INTO operational_event (organization_id, type, endpoint_id) VALUES ('acme', 'switchyard.endpoint.failing', $1)", about.ID.String())
	failing := errors.New("no")
	if _, _, err := s.Relay(t.Context(), 10, func(event.Operational) (event.Event, error) { return event.Event{}, failing }); !errors.Is(err, failing) {
		t.Fatalf("err = %v", err)
	}
	var told []string
	taken, deliveries, err := s.Relay(t.Context(), 10, func(o event.Operational) (event.Event, error) {
		told = append(told, fmt.Sprint(o.Organization, o.Type, o.Endpoint, o.Delivery == delivery.ID{}))
		e := happening(o.Organization, "", o.Type)
		e.Except = o.Endpoint
		return e, nil
	})
	if err != nil || taken != 1 || deliveries != 1 || len(told) != 1 {
		t.Errorf("taken %d, deliveries %d, told %v, %v", taken, deliveries, told, err)
	}
	if n := count(t, pool, "SELECT count(*) FROM deliveries WHERE endpoint_id = $1", other.ID.String()); n != 1 {
		t.Errorf("%d deliveries to the other endpoint", n)
	}
	if taken, _, _ := s.Relay(t.Context(), 10, nil); taken != 0 {
		t.Errorf("told twice")
	}
}
