//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"testing"

	"switchyard.dev/deploy/dev/stack"
)

func TestFanOutInBothModes(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization := unique("org")
	webhooks := h.service(stack.WebhookEgress, organization)
	secret := endpointSecret(t)
	shared, own, idle, unsubscribed := h.receiver(), h.receiver(), h.receiver(), h.receiver()
	a := shared.subscribe(t, webhooks, []string{"order.paid"}, object{"owner_id": "ann"})
	b := own.subscribe(t, webhooks, []string{"*"}, object{"signing_mode": "endpoint_body", "signing_secret": secret})
	paused := idle.subscribe(t, webhooks, []string{"order.*"})
	unsubscribed.subscribe(t, webhooks, []string{"user.made", "orders.*"})
	webhooks.do(t, http.MethodPatch, endpointPath+"/"+paused.ID, object{"active": false}).want(t, http.StatusOK)

	ask := object{"event_type": "order.paid", "payload": object{"n": 1}, "idempotency_key": "k", "custom_headers": object{"X-Shop": "7", "Authorization": "Bearer " + secret}}
	var first, again eventAnswer
	webhooks.post(t, eventPath, ask).into(t, http.StatusAccepted, &first)
	webhooks.post(t, eventPath, ask).into(t, http.StatusOK, &again)
	want := first
	want.Matched, want.SkippedPaused, want.Deduplicated = 2, 1, false
	same(t, want, first)
	repeat := again
	repeat.ID, repeat.Matched, repeat.Deduplicated = first.ID, 2, true
	same(t, repeat, again)
	for id, to := range map[string]receiver{a.ID: shared, b.ID: own} {
		delivery := first.to(t, id)
		if d := ended(t, webhooks, delivery); d.Status != "delivered" {
			t.Fatalf("record %+v", d)
		}
		record := webhooks.get(t, deliveryPath+"/"+delivery).fields(t, http.StatusOK, "endpoint_id", "event_id")
		if record["endpoint_id"] != id || record["event_id"] != first.ID {
			t.Errorf("record %v", record)
		}
		arrived := to.arrivals(t)
		if len(arrived) != 1 {
			t.Fatalf("%d arrivals, want 1", len(arrived))
		}
		if a := arrived[0]; a.ID != delivery || a.Body != `{"n":1}` {
			t.Fatalf("%s arrived with %s, want %s", a.ID, a.Body, delivery)
		}
		for header, want := range map[string]string{"X-Shop": "7", "X-Webhook-Event": "order.paid"} {
			if got := arrived[0].Headers.Get(header); got != want {
				t.Fatalf("%s: %q, want %q", header, got, want)
			}
		}
	}
	verify(t, h.Secrets().Webhook, shared.arrivals(t)[0])
	verifyBody(t, secret, own.arrivals(t)[0])
	verifyStandard(t, secret, own.arrivals(t)[0])
	if n := len(idle.arrivals(t)) + len(unsubscribed.arrivals(t)); n != 0 {
		t.Errorf("%d arrivals where there should be none", n)
	}
	if one := webhooks.with("X-Owner-Id", "ann").emit(t, "order.paid"); one.Matched != 1 || one.Deliveries[0].Endpoint != a.ID {
		t.Errorf("ann's %+v", one)
	}
}

func TestPauseHoldsAndDeleteCancels(t *testing.T) {
	t.Parallel()
	h := use(t)
	webhooks, to := h.service(stack.WebhookEgress, unique("org")), h.receiver()
	to.answers(t, object{"status": 500}, object{"status": 204})
	e := to.subscribe(t, webhooks, []string{"*"})
	path := endpointPath + "/" + e.ID
	held := webhooks.emit(t, "a").to(t, e.ID)
	webhooks.do(t, http.MethodPatch, path, object{"active": false}).want(t, http.StatusOK)
	// The first attempt fails before or during the pause; no other follows.
	waitFor(t, waitTimeout, "the delivery to wait", func() error {
		var d delivery
		webhooks.get(t, deliveryPath+"/"+held).into(t, http.StatusOK, &d)
		if d.LastError == nil || *d.LastError != "endpoint_paused" || d.NextAttemptAt != nil {
			return fmt.Errorf("it is %+v", d)
		}
		return nil
	})
	if f := webhooks.emit(t, "b"); f.Matched != 0 || f.SkippedPaused != 1 {
		t.Errorf("while paused: %+v", f)
	}
	made := len(to.arrivals(t))
	webhooks.do(t, http.MethodPatch, path, object{"active": true}).want(t, http.StatusOK)
	if d := ended(t, webhooks, held); d.Status != "delivered" || len(to.arrivals(t)) <= made {
		t.Errorf("after the pause %+v", d)
	}
	webhooks.do(t, http.MethodPatch, path, object{"rate_limit_per_second": 0.01}).want(t, http.StatusOK)
	var waiting []string
	for range 5 {
		waiting = append(waiting, webhooks.emit(t, "c").to(t, e.ID))
	}
	ended(t, webhooks, waiting[0]) // the only one that the rate limit allows
	waiting = waiting[1:]
	webhooks.do(t, http.MethodDelete, path, nil).want(t, http.StatusNoContent)
	for _, id := range waiting {
		if d := ended(t, webhooks, id); d.Status != "cancelled" {
			t.Errorf("record %+v", d)
		}
		webhooks.post(t, deliveryPath+"/"+id+"/resend", nil).refused(t, http.StatusConflict, "endpoint_deleted", "")
	}
}
