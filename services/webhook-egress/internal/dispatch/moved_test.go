package dispatch_test

import (
	"testing"
	"time"

	"switchyard.dev/services/platform/redisdb"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/endpoint"
	"switchyard.dev/services/webhook-egress/internal/event"
	"switchyard.dev/services/webhook-egress/internal/postgres"
	"switchyard.dev/services/webhook-egress/internal/signing"
)

// If an endpoint's circuit is open and the endpoint gets another path, or is paused, mended and resumed, its deliveries
// arrive at once, over each replica, whether or not Redis has the state of the circuit.
func TestEndpointWithANewCircuit(t *testing.T) {
	t.Parallel()
	for name, redis := range map[string]bool{"alone": false, "with Redis": true} {
		for what, changes := range map[string]func(base string) []endpoint.Change{
			"moved":   func(base string) []endpoint.Change { return []endpoint.Change{{URL: new(base + "/new")}} },
			"resumed": func(string) []endpoint.Change { return []endpoint.Change{{Active: new(false)}, {Active: new(true)}} },
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				t.Parallel()
				target := newFlaky(t)
				w := newWorld(t, target.receiver)
				if redis {
					w.breakers = redisdb.NewKV(testkit.Redis(t), "breaker")
				}
				w.breaker.Failures, w.breaker.Pause, w.breaker.MaxPause = 3, time.Hour, time.Hour
				w.start()
				w.start()
				now := time.Now().UTC().Truncate(time.Microsecond)
				e := endpoint.Endpoint{
					ID: delivery.NewID(now), Organization: "acme", URL: target.URL + "/old", EventTypes: []string{"e"}, Active: true,
					SigningMode: signing.OrgTimestamp, Created: now, Updated: now, Signatures: signing.DefaultSchemes(),
				}
				registry := postgres.Endpoints{Store: w.store}
				if err := registry.Add(t.Context(), e, 1); err != nil {
					t.Fatal(err)
				}
				for range 20 {
					w.emit("e")
				}
				until(t, "the circuit opens", func() bool {
					return w.count("SELECT count(*) FROM flow WHERE parked_reason = 'breaker_open' AND parked_until > now() + interval '30 minutes'") == 1
				})
				target.mended.Store(true)
				for _, c := range changes(target.URL) {
					_, err := registry.Update(t.Context(), endpoint.Scope{Organization: "acme"}, e.ID, func(e endpoint.Endpoint) (endpoint.Endpoint, error) {
						return c.Apply(e, time.Now())
					})
					if err != nil {
						t.Fatal(err)
					}
				}
				until(t, "all arrive", func() bool { return w.count("SELECT count(*) FROM deliveries WHERE status = 'delivered'") == 20 })
			})
		}
	}
}

// emit fans an event out.
func (w *world) emit(eventType string) {
	w.t.Helper()
	id := delivery.NewID(time.Now())
	_, err := w.store.FanOut(w.t.Context(), event.Event{
		Content: delivery.Content{Body: []byte(`{}`), MaxAttempts: 20}, ID: id, Organization: "acme", EventType: eventType,
		Patterns: endpoint.Patterns(eventType), Record: event.Record{ID: id.String(), CloudEvent: []byte(`{"specversion":"1.0"}`)},
	})
	if err != nil {
		w.t.Fatal(err)
	}
}
