package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/endpoint"
	"switchyard.dev/services/webhook-egress/internal/event"
	"switchyard.dev/services/webhook-egress/internal/filter"
	"switchyard.dev/services/webhook-egress/internal/postgres"
	"switchyard.dev/services/webhook-egress/migrations"
)

// engine evaluates filters.
func engine(tb testing.TB) *filter.Engine {
	tb.Helper()
	e, err := filter.New(func(filter.Verdict) {})
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

// judged returns an event with a judge of it.
func judged(engine *filter.Engine, payload string) event.Event {
	e := happening("acme", "", "e")
	e.Body = []byte(payload)
	e.Judge = engine.Judge(filter.Event{Type: e.EventType, Organization: e.Organization, Created: e.ID.Time(), Payload: e.Body})
	return e
}

func filtered(expression string) endpoint.Endpoint {
	e := subscription("acme", "", "*")
	e.Filter = expression
	return e
}

// An event reaches the endpoints whose filter matches, and those whose filter can't be evaluated, which are marked.
func TestFanOutFilters(t *testing.T) {
	s, _ := open(t)
	matching, all := register(t, s, filtered("event.payload.total > 10")), register(t, s, filtered(""))
	register(t, s, filtered("event.payload.total > 100"))
	broken := register(t, s, filtered("event.payload.total > 'a'"))
	paused := register(t, s, filtered("event.payload.total > 10"))
	change(t, s, paused, endpoint.Change{Active: new(false)})
	changed := register(t, s, filtered("false"))
	change(t, s, changed, endpoint.Change{Filter: new("event.payload.total == 12")})

	e := judged(engine(t), `{"total": 12}`)
	e.Key = "k"
	first := emit(t, s, e)
	again := judged(engine(t), `{"total": 12}`)
	again.Key = "k"
	for what, result := range map[string]event.Result{"first": first, "repeat": emit(t, s, again)} {
		got := make(map[delivery.ID]string)
		for _, d := range result.Deliveries {
			got[d.Endpoint] = d.FilterError
			if record := statusIs(t, s, "acme", d.Delivery, delivery.StatusQueued); record.FilterError != d.FilterError {
				t.Errorf("%s: the record of a delivery says %q, the event %q", what, record.FilterError, d.FilterError)
			}
		}
		want := map[delivery.ID]string{matching.ID: "", all.ID: "", broken.ID: "evaluation_failed", changed.ID: ""}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: fanned out to %v, want %v", what, got, want)
		}
		if result.SkippedFiltered != 1 || result.SkippedPaused != 1 {
			t.Errorf("%s: %d skipped by filter, %d paused, want one each", what, result.SkippedFiltered, result.SkippedPaused)
		}
	}
}

// BenchmarkFanOut emits an event to 100 endpoints, without filters and with one each.
func BenchmarkFanOut(b *testing.B) {
	for name, expression := range map[string]string{
		"without filters": "",
		"with filters":    "event.payload.total > 10 && event.payload.items.exists(i, i.sku == 'b')",
	} {
		b.Run(name, func(b *testing.B) {
			s := postgres.New(testkit.Postgres(b, migrations.FS), time.Hour)
			for range 100 {
				if err := (postgres.Endpoints{Store: s}).Add(b.Context(), filtered(expression), 100); err != nil {
					b.Fatal(err)
				}
			}
			filters := engine(b)
			for b.Loop() {
				e := judged(filters, `{"total": 12, "items": [{"sku": "a"}, {"sku": "b"}]}`)
				if result, err := s.FanOut(b.Context(), e); err != nil || len(result.Deliveries) != 100 {
					b.Fatalf("%d deliveries, %v", len(result.Deliveries), err)
				}
			}
		})
	}
}
