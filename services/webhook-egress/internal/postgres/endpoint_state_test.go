package postgres_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/endpoint"
	"switchyard.dev/services/webhook-egress/internal/postgres"
)

// While endpoints come and go, each event goes to those that are active when it
// is committed: what the fan-outs made equals what a serial order would make.
// A change of endpoints waits for the fan-outs of its organization, and they for
// it; fan-outs don't wait for each other, nor for other organizations.
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
	if len(jobs) != 1 {
		t.Fatalf("%d jobs, want 1", len(jobs))
	}
	want := jobs[0]
	want.URL, want.Host, want.Port = "http://elsewhere.example:8080/x", "elsewhere.example", 8080
	if diff := cmp.Diff(want, jobs[0]); diff != "" {
		t.Fatalf("job (-want +got):\n%s", diff)
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
	testkit.Exec(t, pool, "UPDATE endpoints SET active = false, disabled_reason = 'gone', disabled_at = now(), failures = 9, failing_since = now()")
	got := change(t, s, e, endpoint.Change{Active: new(true)})
	if !got.Active || got.DisabledReason != "" || testkit.Value[int](t, pool, "SELECT failures FROM endpoints WHERE disabled_at IS NULL AND failing_since IS NULL") != 0 {
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
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM flow WHERE endpoint_id IS NOT NULL"); n != 1 || pages < 3 {
		t.Errorf("%d flows of endpoints after %d pages", n, pages)
	}
	if _, err := registry.Get(t.Context(), endpoint.Scope{Organization: "acme"}, e.ID); statusOf(err) != http.StatusNotFound {
		t.Errorf("a deleted endpoint is found: %v", err)
	}
	_ = kept
}

// An organization has so many endpoints at a time; deleted ones and those of others
// don't count.
func TestEndpointsAreLimited(t *testing.T) {
	s, _ := open(t)
	registry := postgres.Endpoints{Store: s}
	add := func(organization string) (endpoint.Endpoint, error) {
		e := subscription(organization, "", "*")
		return e, registry.Add(t.Context(), e, 2)
	}
	first, err := add("acme")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := add("acme"); err != nil {
		t.Fatal(err)
	}
	if _, err := add("acme"); apierr.From(err).Kind != apierr.KindConflict {
		t.Errorf("a third: %v", err)
	}
	if _, err := add("other"); err != nil {
		t.Errorf("another organization's: %v", err)
	}
	if err := registry.Delete(t.Context(), endpoint.Scope{Organization: "acme"}, first.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := add("acme"); err != nil {
		t.Errorf("after a deletion: %v", err)
	}
}
