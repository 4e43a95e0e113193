//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"switchyard.dev/deploy/dev/stack"
)

// Operators' overrides of the routing apply on every replica. These tests use the stack with two gateways.

var (
	pinnable        = addPair("pinnable")
	canaryPair      = addPair("canary")
	deprecatedModel = addVendor(vendor{name: "fading", dialect: "openai", model: "fading-model"})
	failingVendor   = addVendor(vendor{name: "ailing", dialect: "openai", model: "ailing-model"})
)

// servedBy returns the provider that answered.
func servedBy(a answer) string { return a.header.Get("X-Switchyard-Provider") }

// removeOverrides removes pin and canary at the end of the test, for the tests that follow.
func removeOverrides(t *testing.T, operator client) {
	t.Helper()
	t.Cleanup(func() {
		for _, path := range []string{"/v1/admin/unpin", "/v1/admin/canary-stop"} {
			ctx := context.WithoutCancel(t.Context())
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, operator.base+path, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			request.Header = operator.header.Clone()
			response, err := httpClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
		}
	})
}

// A pin reaches every replica within a second, disables failover, and outlives a restart of the stores and of all
// replicas. Two operators can't overwrite each other's pin unnoticed.
func TestPinHoldsEverywhere(t *testing.T) {
	h := pairOfGateways(t)
	gateways, operator := h.gateways(unique("org")), h.operator(stack.Gateway)
	removeOverrides(t, operator)
	body := ask(pinnable.first.model, "hello")
	pin := operator.post(t, "/v1/admin/pin", object{"provider": pinnable.second.name, "reason": "the first is slow"}).fields(t, http.StatusOK, "pinned", "provider", "model", "since", "version")
	everywhere := func() {
		t.Helper()
		for _, gateway := range gateways {
			waitForSpread(t, "the pin", func() error {
				if a := gateway.post(t, chatPath, body); a.status != http.StatusOK || servedBy(a) != pinnable.second.name {
					return fmt.Errorf("%d by %s: %s", a.status, servedBy(a), a.body)
				}
				return nil
			})
		}
	}
	everywhere()
	h.script(t, stack.FakeProvider, rule{Match: pinnable.second.match(), Times: 4, Action: object{"status": 500}})
	for _, gateway := range gateways {
		if a := gateway.post(t, chatPath, body); a.status == http.StatusOK {
			t.Errorf("it failed over to %s in spite of the pin", servedBy(a))
		}
	}
	stale := h.operator(stack.Gateway)
	stale.base = gateways[1].base
	stale.post(t, "/v1/admin/pin", object{"provider": pinnable.first.name, "expected_version": 0}).
		refused(t, http.StatusConflict, "version_conflict", fmt.Sprint("the present version is ", pin["version"]))
	h.restartAll(t)
	everywhere()
	operator.post(t, "/v1/admin/unpin", object{"expected_version": pin["version"]}).want(t, http.StatusOK)
	for _, gateway := range gateways {
		waitForSpread(t, "no pin", func() error {
			status := gateway.bearer(h.Secrets().Operator).get(t, "/v1/admin/pin-status").fields(t, http.StatusOK, "pinned", "version")
			if a := gateway.post(t, chatPath, ask(pinnable.first.named(), "hello")); servedBy(a) != pinnable.first.name || status["pinned"] != false {
				return fmt.Errorf("served by %s, %v", servedBy(a), status)
			}
			return nil
		})
	}
	audit := string(operator.get(t, "/v1/admin/audit?action=routing.").body)
	for _, action := range []string{"routing.pin", "routing.unpin", "the first is slow"} {
		if !strings.Contains(audit, action) {
			t.Errorf("the audit lacks %s", action)
		}
	}
}

// A canary gets its share of the organizations, the same ones on every replica and at each call, and its status counts
// both arms.
func TestCanaryTakesItsShare(t *testing.T) {
	h := pairOfGateways(t)
	operator := h.operator(stack.Gateway)
	removeOverrides(t, operator)
	const percentage, organizations = 30.0, 400
	set := operator.post(t, "/v1/admin/canary", object{"provider": canaryPair.second.name, "percentage": percentage}).fields(t, http.StatusOK, "active", "provider", "percentage", "version")
	for _, gateway := range h.gateways("any") {
		waitForSpread(t, "the canary", func() error {
			if status := gateway.bearer(h.Secrets().Operator).get(t, "/v1/admin/canary-status").fields(t, http.StatusOK, "active"); status["active"] != true {
				return fmt.Errorf("canary status %v", status)
			}
			return nil
		})
	}
	<-time.After(500 * time.Millisecond) // The canary applies a moment after it is stored.
	var mu sync.Mutex
	taken := make(map[string]int)
	var calls sync.WaitGroup
	places := make(chan struct{}, 8)
	for i := range organizations {
		calls.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			organization := fmt.Sprint(unique("org"), i)
			var first string
			for _, gateway := range h.gateways(organization) {
				a := gateway.post(t, chatPath, ask(canaryPair.first.named(), "hello"))
				if a.status != http.StatusOK || first != "" && servedBy(a) != first {
					t.Errorf("%s: %d by %s, then by %s", organization, a.status, first, servedBy(a))
				}
				first = servedBy(a)
			}
			mu.Lock()
			defer mu.Unlock()
			taken[first]++
		})
	}
	calls.Wait()
	share := percentage / 100
	if n := taken[canaryPair.second.name]; math.Abs(float64(n)-share*organizations) > 4.5*math.Sqrt(organizations*share*(1-share)) {
		t.Errorf("%d of %d organizations at %v percent", n, organizations, percentage)
	}
	t.Logf("%v of %d", taken, organizations)
	for _, gateway := range h.gateways("any") {
		waitFor(t, waitTimeout, "both arms", func() error {
			var status struct {
				Arms []struct {
					Arm      string `json:"arm"`
					Requests int    `json:"requests"`
					Failed   int    `json:"failed"`
				} `json:"arms"`
			}
			gateway.bearer(h.Secrets().Operator).get(t, "/v1/admin/canary-status").into(t, http.StatusOK, &status)
			if len(status.Arms) != 2 || status.Arms[0].Requests != 2*taken[canaryPair.second.name] || status.Arms[0].Requests+status.Arms[1].Requests != 2*organizations {
				return fmt.Errorf("canary status %+v", status)
			}
			return nil
		})
	}
	operator.post(t, "/v1/admin/canary-stop", object{"expected_version": set["version"]}).want(t, http.StatusOK)
	for _, gateway := range h.gateways("any") {
		waitForSpread(t, "no canary", func() error {
			for range 20 {
				if a := gateway.with("X-Organization-Id", unique("org")).post(t, chatPath, ask(canaryPair.first.named(), "hello")); servedBy(a) != canaryPair.first.name {
					return fmt.Errorf("served by %s", servedBy(a))
				}
			}
			return nil
		})
	}
}

// A deprecation reaches every replica within a second and outlives a restart.
func TestDeprecationHoldsEverywhere(t *testing.T) {
	h := pairOfGateways(t)
	operator := h.operator(stack.Gateway)
	gateways := h.gateways(unique("org"))
	deprecate := func(more object) {
		t.Helper()
		operator.post(t, "/v1/models/registry/"+deprecatedModel.model+"/deprecate", object{"successor": "sandbox", "reason": "it fades"}.with(more)).want(t, http.StatusOK)
	}
	deprecate(object{})
	for _, gateway := range gateways {
		waitForSpread(t, "the warning", func() error {
			if a := gateway.post(t, chatPath, ask(deprecatedModel.model, "hello")); a.status != http.StatusOK || !strings.Contains(a.header.Get("X-Switchyard-Warning"), "use sandbox/sandbox") {
				return fmt.Errorf("status %d, headers %v", a.status, a.header)
			}
			return nil
		})
	}
	deprecate(object{"cutoff_date": "2026-01-01"})
	for _, gateway := range gateways {
		waitForSpread(t, "the refusal", func() error {
			if a := gateway.post(t, chatPath, ask(deprecatedModel.model, "hello")); a.status != http.StatusBadRequest {
				return fmt.Errorf("status %d, want 400", a.status)
			}
			return nil
		})
	}
	if err := h.Restart(t.Context(), string(secondGateway)); err != nil {
		t.Fatal(err)
	}
	gateways[1].post(t, chatPath, ask(deprecatedModel.model, "hello")).refused(t, http.StatusBadRequest, "model_retired", "use sandbox/sandbox")
	if notices := string(h.anonymous(stack.Gateway).get(t, "/v1/models/deprecation-notifications?provider="+deprecatedModel.name).body); !strings.Contains(notices, "it fades") {
		t.Errorf("the notices lack the reason: %s", notices)
	}
}

// fleetStatus is a replica's answer to GET /v1/fleet/status.
type fleetStatus struct {
	Status, Since, Summary string
	Replicas               []struct {
		ID     string `json:"replica_id"`
		Status string
	}
	Vendors []struct{ Provider, Status, Since string }
}

func (f fleetStatus) vendor(name string) string {
	for _, v := range f.Vendors {
		if v.Provider == name {
			return v.Status
		}
	}
	return ""
}

// Both replicas distinguish a vendor that is down from a gateway that is, though only one of them called the vendor.
func TestFleetStatusDistinguishesVendorFromGateway(t *testing.T) {
	t.Parallel()
	h := pairOfGateways(t)
	gateways := h.gateways(unique("org"))
	status := func(gateway client) (f fleetStatus) {
		gateway.get(t, "/v1/fleet/status").into(t, http.StatusOK, &f)
		return f
	}
	for _, gateway := range gateways {
		waitFor(t, waitTimeout, "two replicas", func() error {
			if f := status(gateway); len(f.Replicas) != 2 || strings.HasPrefix(f.Status, "gateway") {
				return fmt.Errorf("fleet status %+v", f)
			}
			return nil
		})
	}
	h.script(t, stack.FakeProvider, rule{Match: failingVendor.match(), Action: object{"status": 503}})
	for range 6 {
		gateways[0].post(t, chatPath, ask(failingVendor.named(), "hello", object{"allow_substitution": false}))
	}
	for _, gateway := range gateways {
		waitFor(t, waitTimeout, "the vendor is down", func() error {
			if f := status(gateway); f.vendor(failingVendor.name) != "down" || !strings.HasPrefix(f.Status, "vendor_") || f.Since == "" || !strings.Contains(f.Summary, failingVendor.name) {
				return fmt.Errorf("fleet status %+v", f)
			}
			return nil
		})
	}
	if err := h.Kill(string(secondGateway)); err != nil {
		t.Fatal(err)
	}
	waitFor(t, waitTimeout, "the gateway is degraded", func() error {
		if f := status(gateways[0]); f.Status != "gateway_degraded" || !strings.Contains(f.Summary, "no_sign_of_life") {
			return fmt.Errorf("fleet status %+v", f)
		}
		return nil
	})
	if err := h.Restart(t.Context(), string(secondGateway)); err != nil {
		t.Fatal(err)
	}
	for _, gateway := range gateways {
		waitFor(t, waitTimeout, "the gateway has recovered", func() error {
			if f := status(gateway); len(f.Replicas) != 2 || strings.HasPrefix(f.Status, "gateway") {
				return fmt.Errorf("fleet status %+v", f)
			}
			return nil
		})
	}
}
