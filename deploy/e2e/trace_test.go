//go:build e2e

package e2e_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"switchyard.dev/deploy/dev/stack"
)

// traced waits until the lineage of a request is stored for its organization, and returns it.
func traced(t *testing.T, c client, id string) map[string]any {
	t.Helper()
	var event map[string]any
	waitFor(t, waitTimeout, "the lineage of "+id, func() error {
		a := c.get(t, "/v1/lineage/"+id)
		if a.status != http.StatusOK {
			return fmt.Errorf("status %d", a.status)
		}
		event = a.fields(t, http.StatusOK)
		return nil
	})
	return event
}

// An organization can read the traces of its own requests redacted, support can read them without any content, and no
// other caller can read them. A request can also be replayed.
func TestTraceOfARequest(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization, other := unique("org"), unique("org")
	own, otherOrg := h.service(stack.Gateway, organization), h.service(stack.Gateway, other)
	support := h.anonymous(stack.Gateway).bearer(h.Secrets().Support)
	id, run := unique("req"), unique("run")
	body := `{"model":"sandbox","messages":[{"role":"user","content":"write to ada@example.com, card 4111 1111 1111 1111"}],"metadata":{"case":"e2e"}}`
	asked := own.with("X-Request-Id", id, "X-Run-Id", run).post(t, chatPath, body)
	asked.want(t, http.StatusOK)
	event := traced(t, own, id)
	sent, said := sha256.Sum256([]byte(body)), sha256.Sum256(asked.body)
	for field, want := range map[string]any{
		"request_digest": hex.EncodeToString(sent[:]), "response_digest": hex.EncodeToString(said[:]), "run_id": run, "provider": "sandbox",
	} {
		if event[field] != want {
			t.Errorf("lineage: %s is %v, want %v", field, event[field], want)
		}
	}
	if event["policy_version"] == "" || event["price_version"] == nil {
		t.Errorf("lineage: policy version %v, price version %v, want both", event["policy_version"], event["price_version"])
	}

	list := own.get(t, "/v1/traces?request_id="+id)
	list.want(t, http.StatusOK)
	if !strings.Contains(string(list.body), "write to [email], card [card]") {
		t.Errorf("traces lack the redacted text: %s", shorten(list.body))
	}
	for _, private := range []string{"4111 1111", "ada@"} {
		if strings.Contains(string(list.body), private) {
			t.Errorf("traces contain %s", private)
		}
	}
	trace := support.get(t, "/v1/support/trace/"+id)
	if fields := trace.fields(t, http.StatusOK, "attempts", "usage"); fields["organization_id"] != organization || fields["captured"] != true || strings.Contains(string(trace.body), "write to") {
		t.Errorf("support: %s", shorten(trace.body))
	}
	packet := own.get(t, "/v1/replay/"+id)
	if packet.want(t, http.StatusOK); !strings.Contains(string(packet.body), `"request":`+body) {
		t.Errorf("the packet does not hold the request unchanged: %s", shorten(packet.body))
	}
	for _, path := range []string{"/v1/lineage/", "/v1/replay/"} {
		otherOrg.get(t, path+id).refused(t, http.StatusNotFound, "not_found", "")
		support.get(t, path+id).want(t, http.StatusForbidden)
		h.anonymous(stack.Gateway).get(t, path+id).want(t, http.StatusUnauthorized)
	}
	otherOrg.post(t, "/v1/replay/"+id, object{}).refused(t, http.StatusNotFound, "not_found", "")
	own.get(t, "/v1/support/trace/"+id).want(t, http.StatusForbidden)
	if list := otherOrg.get(t, "/v1/traces"); strings.Contains(string(list.body), id) {
		t.Error("another organization sees the trace")
	}

	again := unique("req")
	replayed := own.with("X-Request-Id", again).post(t, "/v1/replay/"+id, object{}).fields(t, http.StatusOK, "answer", "usage")
	if replayed["request_id"] != again || replayed["replay_of"] != id {
		t.Errorf("replay: %v", replayed)
	}
	if parent := traced(t, own, again); parent["parent_request_id"] != id || parent["parent_kind"] != "replay" || parent["run_id"] != nil {
		t.Errorf("lineage of the replay: %v", parent)
	}
	h.awaitRecorded(t, organization, "", "completed", 2)
}

// A trace that one replica recorded can be read at the other, and outlives a restart.
func TestTracesOutliveReplicas(t *testing.T) {
	t.Parallel()
	h := pairOfGateways(t)
	organization := unique("org")
	gateways := h.gateways(organization)
	id := unique("req")
	gateways[0].with("X-Request-Id", id).post(t, chatPath, ask("sandbox", "keep this")).want(t, http.StatusOK)
	if err := h.Restart(t.Context(), string(stack.Gateway)); err != nil { // Before it ends, it stores the traces that it holds.
		t.Fatal(err)
	}
	for _, gateway := range gateways {
		traced(t, gateway, id)
	}
	replayed := gateways[1].post(t, "/v1/replay/"+id, object{}).fields(t, http.StatusOK, "answer")
	if !strings.Contains(fmt.Sprint(replayed["answer"]), "keep this") {
		t.Errorf("the replay doesn't repeat the request: %v", replayed)
	}
}

// slowProbe is a vendor that only TestProbes slows down.
var slowProbe = addVendor(vendor{name: "plodding", dialect: "openai", model: "plodding-model"})

// Probes spend money, so only operators may start them, and only one runs at a time over all replicas.
func TestProbes(t *testing.T) {
	t.Parallel()
	h := pairOfGateways(t)
	first := h.operator(stack.Gateway)
	second := first
	second.base = h.URL(string(secondGateway))
	report := first.get(t, "/v1/canary").fields(t, http.StatusOK, "cases", "usage", "golden_set_version")
	if report["verdict"] != "pass" || report["exit_code"] != 0.0 {
		t.Errorf("canary probe: %v", report)
	}
	same := second.post(t, "/v1/canary/consistency", object{"prompt": "hello", "count": 3}).fields(t, http.StatusOK, "samples")
	if same["distinct"] != 1.0 || same["agreement"] != 1.0 {
		t.Errorf("consistency probe: %v", same)
	}
	alive := first.get(t, "/v1/models/liveness?provider=sandbox").fields(t, http.StatusOK, "models")
	if alive["all_alive"] != true {
		t.Errorf("liveness probe: %v", alive)
	}
	waitFor(t, waitTimeout, "the rows of the probes, which open transactions delay", func() error {
		marked := first.get(t, "/v1/usage?organization_id=switchyard-probes&limit=200")
		if n := strings.Count(string(marked.body), `"operation":"probe"`); n < 7 {
			return fmt.Errorf("%d rows are marked as probes: %s", n, shorten(marked.body))
		}
		return nil
	})
	for _, path := range []string{"/v1/canary", "/v1/models/liveness"} {
		h.service(stack.Gateway, unique("org")).get(t, path).refused(t, http.StatusForbidden, "forbidden", "")
		h.anonymous(stack.Gateway).get(t, path).want(t, http.StatusUnauthorized)
	}

	// While the probe of a slow model runs, both replicas refuse another.
	h.script(t, stack.FakeProvider, rule{Match: slowProbe.match(), Action: object{"delay_ms": 3000}})
	slow := make(chan error, 1)
	go func() {
		for { // Repeat while the other probe runs.
			a, err := first.try(t, http.MethodPost, "/v1/canary/consistency", object{"prompt": "hello", "count": 2, "model": slowProbe.model})
			if err == nil && a.status == http.StatusConflict {
				continue
			}
			if err == nil && a.status != http.StatusOK {
				err = errors.New(string(a.body))
			}
			slow <- err
			return
		}
	}()
	waitFor(t, waitTimeout, "a second probe is refused", func() error {
		if a := second.get(t, "/v1/models/liveness?provider=sandbox"); a.status != http.StatusConflict {
			return fmt.Errorf("status %d, want 409", a.status)
		}
		return nil
	})
	if err := <-slow; err != nil {
		t.Error(err)
	}
}
