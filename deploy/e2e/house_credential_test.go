//go:build e2e

package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"switchyard.dev/deploy/dev/stack"
)

// Vendors that refuse credentials: an organization's own, and the operator's.
var (
	refusesOwn   = addVendor(vendor{name: "refuses-own", dialect: "openai", model: "refuses-own", keyless: true})
	refusesFleet = addVendor(vendor{name: "refuses-fleet", dialect: "openai", model: "refuses-fleet"})
)

// operators is the organization that is told of what concerns no single one.
const operators = "switchyard"

// A credential that a vendor refuses over three gateways, of which one is killed, is told once to the organization whose
// it is, or to operators; once, too, when it is taken again. Operators are told of a VAPID key that a push service
// refuses. Both by webhook and in-app.
func TestCredentialEventsOverReplicas(t *testing.T) {
	t.Parallel()
	h := threeGateways.start(t)
	organization, to, ops := unique("org"), h.receiver(), h.receiver()
	to.answers(t, object{"status": 204})
	ops.answers(t, object{"status": 204})
	types := []string{"switchyard.credential.*", "switchyard.push_key.*"}
	to.subscribe(t, h.service(stack.WebhookEgress, organization), types)
	ops.subscribe(t, h.service(stack.WebhookEgress, operators), types)
	rules := object{"rules": []object{{"name": "credentials", "types": types, "to": []object{{"channel": "in_app", "user_id": "ann"}}}}}
	h.customer(t, organization, "webhooks", "read,write").do(t, http.MethodPut, alertsPath, rules).want(t, http.StatusOK)
	h.operator(stack.Edge).do(t, http.MethodPut, "/admin/v1/alerts/rules/"+operators, rules).want(t, http.StatusOK)

	third := h.service(stack.Gateway, organization)
	third.base = h.URL(string(stack.Gateway + "-3"))
	gateways := append(h.gateways(organization), third)
	gateways[0].post(t, byokPath, h.sealKey(t, organization, refusesOwn.name, newKey("refused"))).want(t, http.StatusCreated)
	for _, v := range []vendor{refusesOwn, refusesFleet} {
		h.script(t, stack.FakeProvider, rule{Match: v.match(), Action: object{"status": 401}})
	}
	// call makes a call of each vendor at gateways, whatever becomes of it.
	call := func(gateways ...client) {
		for _, c := range gateways {
			_, _ = c.try(t, http.MethodPost, chatPath, byokChat(refusesOwn))
			_, _ = c.try(t, http.MethodPost, chatPath, ask(refusesFleet.model, "hello"))
		}
	}
	call(gateways...)
	if err := h.Kill(string(secondGateway)); err != nil {
		t.Fatal(err)
	}
	gateways = []client{gateways[0], third}
	call(gateways...)
	ownFailing, fleetFailing := "switchyard.credential.failing credential/"+refusesOwn.name, "switchyard.credential.failing credential/"+refusesFleet.name
	to.awaitEvents(t, ownFailing)
	ops.awaitEvents(t, fleetFailing)
	h.awaitNotices(t, organization, refusesOwn.name+" refuses a credential")

	h.clear(t, stack.FakeProvider)
	ownRecovered, fleetRecovered := "switchyard.credential.recovered credential/"+refusesOwn.name, "switchyard.credential.recovered credential/"+refusesFleet.name
	waitFor(t, waitTimeout, "the credentials are taken again", func() error {
		call(gateways...) // A refused one rests for ten seconds.
		if own, fleet := to.events(t), ops.events(t); own[ownRecovered] == nil || fleet[fleetRecovered] == nil {
			return fmt.Errorf("%v, and operators %v", own, fleet)
		}
		return nil
	})
	to.awaitEvents(t, ownFailing, ownRecovered)

	browser := h.browser(t, organization)
	h.register(t, organization, browser, object{"user_id": "ann"})
	h.script(t, stack.FakePush, rule{Match: object{"path": browser.path(t)}, Action: object{"status": 401}})
	h.push(t, organization, object{"user_id": "ann"})
	origin := strings.TrimSuffix(browser.Endpoint, browser.path(t))
	ops.awaitEvents(t, fleetFailing, fleetRecovered, "switchyard.push_key.rejected push_service/"+origin)
	h.awaitNotices(t, operators, refusesFleet.name+" refuses a credential", refusesFleet.name+" takes a credential again",
		"A push service refuses the VAPID key: "+strings.Replace(origin, "://", "[:]//", 1))
	h.awaitNotices(t, organization, refusesOwn.name+" refuses a credential", refusesOwn.name+" takes a credential again")
}

// agedKey has a key of the operator that was to be replaced long ago.
var agedKey = addVendor(vendor{name: "aged-key", dialect: "openai", model: "aged-key"})

// age makes the file of a vendor's key as old as a number of days, and has both gateways look at it as they start, one of
// them after a kill.
func (h *harness) age(t *testing.T, v vendor, days int) {
	t.Helper()
	set := time.Now().AddDate(0, 0, -days)
	if err := os.Chtimes(filepath.Join(h.root, "keys", v.name), set, set); err != nil {
		t.Fatal(err)
	}
	for _, gateway := range []string{string(stack.Gateway), string(secondGateway)} {
		if err := errors.Join(h.Kill(gateway), h.Restart(t.Context(), gateway)); err != nil {
			t.Fatal(err)
		}
	}
}

// Operators are told once, by webhook and in-app, that a key of theirs is due for rotation, however many gateways find it;
// and again once the key that replaced it is due.
func TestKeyDueForRotation(t *testing.T) {
	t.Parallel()
	h := pairOfGateways(t)
	ops, types := h.receiver(), []string{"switchyard.credential.rotation_due"}
	ops.answers(t, object{"status": 204})
	ops.subscribe(t, h.service(stack.WebhookEgress, operators), types)
	h.operator(stack.Edge).do(t, http.MethodPut, "/admin/v1/alerts/rules/"+operators, object{
		"rules": []object{{"name": "rotation", "types": types, "to": []object{{"channel": "in_app", "user_id": "ann"}}}},
	}).want(t, http.StatusOK)

	h.age(t, agedKey, 89)
	h.age(t, agedKey, 91)
	due, notice := "switchyard.credential.rotation_due credential/"+agedKey.name, "A credential is due for rotation: "+agedKey.name
	ops.awaitEvents(t, due)
	h.awaitNotices(t, operators, notice)

	if err := os.WriteFile(filepath.Join(h.root, "keys", agedKey.name), []byte(newKey("replaced")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.age(t, agedKey, 100)
	waitFor(t, waitTimeout, "the event of the next key", func() error {
		if got := ops.events(t); len(got) != 1 || len(got[due]) != 2 {
			return fmt.Errorf("the receiver got %v, want two of %s", got, due)
		}
		return nil
	})
	h.awaitNotices(t, operators, notice, notice)
}

// clear removes the script of a fake.
func (h *harness) clear(t *testing.T, f stack.Fake) {
	t.Helper()
	if a := h.fake(f).unrecorded(t, http.MethodDelete, "/_script", nil); a.status >= http.StatusBadRequest {
		t.Fatalf("the script was not cleared: %d %s", a.status, a.body)
	}
}

// An organization is told that the circuit of a URL without an endpoint has opened and closed, without the secret that the
// URL holds.
func TestTargetCircuitEvents(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization := unique("org")
	webhooks, down, to := h.service(stack.WebhookEgress, organization), h.receiver(), h.receiver()
	to.answers(t, object{"status": 204})
	to.subscribe(t, webhooks, []string{"switchyard.target.*"})
	answers := []object{{"status": 204}}
	for range 6 { // One more than opens a circuit.
		answers = append([]object{{"status": 503}}, answers...)
	}
	down.answers(t, answers...)
	token := "canary-" + runSecret + "-query"
	deliver := func(deliveries int) {
		for range deliveries {
			webhooks.post(t, deliveryPath, down.deliver(object{"max_attempts": 12, "url": down.url() + "?token=" + token})).want(t, http.StatusAccepted)
		}
	}
	deliver(6) // By themselves, so that no success comes between the failures.
	waitFor(t, waitTimeout, "the first event", func() error {
		if len(to.arrivals(t)) == 0 {
			return errors.New("none arrived")
		}
		return nil
	})
	deliver(14) // Not before: a circuit closes once deliveries that began after it opened have passed on each level of its ramp.
	waitFor(t, waitTimeout, "the events", func() error {
		arrived := map[string]int{}
		for _, a := range to.arrivals(t) {
			arrived[a.Headers.Get("Ce-Type")]++
			if !strings.HasPrefix(a.Headers.Get("Ce-Subject"), "target/") || strings.Contains(a.Body, token) {
				t.Errorf("the event %s of %s", a.Body, a.Headers.Get("Ce-Subject"))
			}
		}
		if arrived["switchyard.target.circuit_opened"] != 1 || arrived["switchyard.target.circuit_closed"] != 1 {
			return fmt.Errorf("arrived: %v", arrived)
		}
		return nil
	})
}
