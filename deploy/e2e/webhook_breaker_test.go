//go:build e2e

package e2e_test

import (
	"net/http"
	"testing"

	"switchyard.dev/deploy/dev/stack"
)

// Deliveries to a target that is down wait without using up attempts, and arrive once each when the target is up again.
func TestDeliveriesWaitForATargetThatIsDown(t *testing.T) {
	t.Parallel()
	h := use(t)
	webhooks, to := h.service(stack.WebhookEgress, unique("org")), h.receiver()
	down := make([]object, 14)
	for i := range down {
		down[i] = object{"status": 503}
	}
	to.answers(t, append(down, object{"status": 204})...)
	const deliveries, most = 30, 12
	ids := make([]string, deliveries)
	for i := range ids {
		var got accepted
		webhooks.post(t, deliveryPath, to.deliver(object{"max_attempts": most})).into(t, http.StatusAccepted, &got)
		ids[i] = got.ID
	}
	total := 0
	for _, id := range ids {
		d := ended(t, webhooks, id)
		if d.Status != "delivered" {
			t.Errorf("record %+v", d)
		}
		total += d.Attempts
	}
	if want := deliveries + len(down); total != want {
		t.Errorf("%d attempts in all, want %d: one for each delivery and each time the target was down", total, want)
	}
	once := make(map[string]int)
	for _, a := range to.arrivals(t)[len(down):] {
		once[a.ID]++
	}
	if len(once) != deliveries {
		t.Errorf("%d deliveries arrived, want %d", len(once), deliveries)
	}
}
