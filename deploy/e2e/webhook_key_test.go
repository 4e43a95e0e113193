//go:build e2e

package e2e_test

import (
	"net/http"
	"testing"

	"switchyard.dev/deploy/dev/stack"
)

// Through the edge, another request with a used key is marked or refused on every route that takes a key, and a repeat
// of the first request stays a repeat. Each owner has separate keys.
func TestIdempotencyKeysThroughTheEdge(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization, to := unique("org"), h.receiver()
	customer := h.customer(t, organization, "webhooks", "write")
	const webhooks = "/product/v1/webhooks"
	var done accepted
	customer.post(t, deliveryRoute, to.deliver()).into(t, http.StatusAccepted, &done)
	refused := func(t *testing.T, a answer) {
		t.Helper()
		a.refused(t, http.StatusUnprocessableEntity, "idempotency_key_reused", "idempotency_key")
	}
	marked := func(t *testing.T, a answer) {
		t.Helper()
		if a.want(t, http.StatusOK).header.Get("Idempotency-Mismatch") != "true" {
			t.Errorf("headers %v, want Idempotency-Mismatch: true", a.header)
		}
	}
	for name, tt := range map[string]struct {
		path         string
		first, other object
		reused       func(*testing.T, answer)
	}{
		"a delivery": {deliveryRoute, to.deliver(), to.deliver(object{"payload": object{"another": true}}), marked},
		"its type":   {deliveryRoute, to.deliver(), to.deliver(object{"event_type": "another"}), marked},
		"an event":   {webhooks + "/events", object{"event_type": "a", "payload": object{"n": 1}}, object{"event_type": "a", "payload": object{"n": 2}}, marked},
		"a resend":   {webhooks + "/deliveries/" + done.ID + "/resend", object{"max_attempts": 2}, object{"max_attempts": 3}, refused},
		"a replay": {
			webhooks + "/replays",
			object{"filter": object{"delivery_ids": []string{done.ID}}},
			object{"filter": object{"delivery_ids": []string{done.ID}}, "rate_per_second": 5},
			refused,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "a resend" {
				ended(t, h.service(stack.WebhookEgress, organization), done.ID)
			}
			key := unique("key")
			keyed, ann, bob := customer.with("Idempotency-Key", key), customer.with("Idempotency-Key", key, "X-Owner-Id", "ann"), customer.with("Idempotency-Key", key, "X-Owner-Id", "bob")
			keyed.post(t, tt.path, tt.first).want(t, http.StatusAccepted)
			keyed.post(t, tt.path, tt.first).want(t, http.StatusOK)
			tt.reused(t, keyed.post(t, tt.path, tt.other))
			if name == "a resend" {
				return // The delivery has no owner.
			}
			ann.post(t, tt.path, tt.first).want(t, http.StatusAccepted)
			bob.post(t, tt.path, tt.other).want(t, http.StatusAccepted)
			ann.post(t, tt.path, tt.first).want(t, http.StatusOK)
			tt.reused(t, ann.post(t, tt.path, tt.other))
		})
	}
	key := object{"idempotency_key": unique("key")}
	same, other := to.deliver(key), to.deliver(key, object{"payload": object{"another": true}})
	batch := func(items ...object) answer {
		return customer.post(t, webhooks+"/deliveries/batch", object{"deliveries": items})
	}
	batch(same, other).refused(t, http.StatusUnprocessableEntity, "idempotency_key_reused", "deliveries[1].idempotency_key")
	batch(same, same).want(t, http.StatusAccepted)
	batch(to.deliver(), other).refused(t, http.StatusUnprocessableEntity, "idempotency_key_reused", "deliveries[1].idempotency_key")
	batch(same).want(t, http.StatusOK)
}
