//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"switchyard.dev/deploy/dev/stack"
)

// threeEdges has three replicas that hold calls to the same plans, and two of control that tell of them.
var threeEdges = plan{name: "three-edges", replicas: map[stack.Service]int{stack.Edge: 3, stack.Control: 2}}

const (
	thirdEdge     = stack.Edge + "-3"
	secondControl = string(stack.Control) + "-2"
)

// A limit that is used up over three replicas of the edge, of which one is killed amid calls, and while one of control and
// webhook-egress are killed, is told once at 80 and once at 100 %; so are credits. A rule tells people.
func TestQuotaEventsOverReplicas(t *testing.T) {
	t.Parallel()
	h := threeEdges.start(t)
	const most = 100
	organization, to := unique("org"), h.receiver()
	to.answers(t, object{"status": 204})
	to.subscribe(t, h.service(stack.WebhookEgress, organization), []string{"switchyard.quota.*", "switchyard.credits.*"})
	operator := h.operator(stack.Edge)
	operator.do(t, http.MethodPut, "/admin/v1/alerts/rules/"+organization, object{"rules": []object{{
		"name": "limits", "types": []string{"switchyard.quota.reached"}, "where": object{"percent": 100}, "to": []object{{"channel": "in_app", "user_id": "ann"}},
	}}}).want(t, http.StatusOK)
	name := h.plan(t, organization, most, "hard")
	k := h.key(t, organization, "ai", "read")
	h.awaitPlan(t, k.Key, name)
	third := h.anonymous(thirdEdge).bearer(k.Key)
	clients := append(h.both(k.Key), third)

	// Calls that the kill cuts off, and those to the replica that is gone, are not answered.
	for n := h.killDuring(t, thirdEdge, clients, most/2); n < 80; n++ {
		clients[n%2].post(t, chatRoute, ask("sandbox", "hello")).want(t, http.StatusOK)
	}
	reached := "switchyard.quota.reached organization/" + organization
	to.awaitEvents(t, reached+" 80")

	for _, member := range []string{string(stack.WebhookEgress), string(stack.Control)} {
		if err := h.Kill(member); err != nil {
			t.Fatal(err)
		}
	}
	h.callConcurrently(t, k.Key, most/2)
	awaitRefusal(t, waitTimeout, clients, http.StatusTooManyRequests)
	for _, member := range []string{string(stack.WebhookEgress), string(stack.Control)} {
		if err := h.Restart(t.Context(), member); err != nil {
			t.Fatal(err)
		}
	}
	to.awaitEvents(t, reached+" 80", reached+" 100")
	h.awaitNotices(t, organization, "100 % of a limit is used: calls in a month")

	// A little that is granted is used up by the next call that is billed.
	operator.do(t, http.MethodPut, "/admin/v1/plans/"+name, object{"prepaid": true}).want(t, http.StatusOK)
	h.grantMoment(t, organization)
	exhausted := "switchyard.credits.exhausted organization/" + organization
	to.awaitEvents(t, reached+" 80", reached+" 100", exhausted)

	// Replicas that start again tell nothing twice.
	for _, member := range []string{string(stack.Control), secondControl} {
		if err := h.Restart(t.Context(), member); err != nil {
			t.Fatal(err)
		}
	}
	other := unique("org")
	again := h.receiver()
	again.answers(t, object{"status": 204})
	again.subscribe(t, h.service(stack.WebhookEgress, other), []string{"switchyard.credits.*"})
	h.grantMoment(t, other)
	again.awaitEvents(t, "switchyard.credits.exhausted organization/"+other) // A comparison after the restart has found this one.
	to.awaitEvents(t, reached+" 80", reached+" 100", exhausted)
}

// grantMoment grants an organization credits that expire at once.
func (h *harness) grantMoment(t *testing.T, organization string) {
	t.Helper()
	h.operator(stack.Edge).post(t, "/admin/v1/organizations/"+organization+"/credits", object{
		"amount_cents": 1, "expires_at": time.Now().Add(2 * time.Second).UTC().Format(time.RFC3339Nano), "idempotency_key": "moment",
	}).want(t, http.StatusCreated)
}

// A person's calls in the portal are held to the organization's plan.
func TestPortalIsHeldToPlans(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization, to := unique("org"), h.receiver()
	to.answers(t, object{"status": http.StatusOK})
	h.plan(t, organization, 2, "hard")
	page := h.inPortal(t, h.portalLink(t, organization, "", "", "webhooks:*"))
	var made subscription
	page.post(t, "/portal/api/product/v1/webhooks/endpoints", object{"url": to.url(), "event_types": []string{"order.paid"}}).into(t, http.StatusCreated, &made)
	send := func() answer {
		return page.post(t, "/portal/api/product/v1/webhooks/events", object{"event_type": "order.paid", "payload": object{"n": 1}})
	}
	waitFor(t, waitTimeout, "the refusal of a call beyond the plan", func() error {
		if a := send(); a.status != http.StatusTooManyRequests {
			return fmt.Errorf("status %d: %s", a.status, shorten(a.body))
		}
		return nil
	})
	served := h.counted(t, organization, "events") // those before control knew the plan, too
	for range 3 {
		send().refused(t, http.StatusTooManyRequests, "quota_exceeded", "")
	}
	if n := h.counted(t, organization, "events"); served < 2 || n != served {
		t.Errorf("%d calls were served, then %d; want 2 or more, and no more once they are refused", served, n)
	}
	page.get(t, "/portal/api/product/v1/webhooks/endpoints").want(t, http.StatusOK)
}
