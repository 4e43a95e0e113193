//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"testing"

	"switchyard.dev/deploy/dev/stack"
)

// Without control customers' calls go on, and operators get 503 until it is back, with every key as it was.
func TestKillControl(t *testing.T) {
	t.Parallel()
	h := breakable.get(t)
	organization := unique("org")
	k := h.key(t, organization, "ai", "read")
	ai, operator := h.anonymous(stack.Edge).bearer(k.Key), h.operator(stack.Edge)
	ai.post(t, chatRoute, ask("sandbox", "hello")).want(t, http.StatusOK)
	if err := h.Kill(string(stack.Control)); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		ai.post(t, chatRoute, ask("sandbox", "hello")).want(t, http.StatusOK)
		waitFor(t, waitTimeout, "503 for operators", func() error { // A connection to it may break first.
			if a := operator.get(t, "/admin/v1/keys/"+k.ID); a.status != http.StatusServiceUnavailable {
				return fmt.Errorf("answered %d: %s", a.status, shorten(a.body))
			}
			return nil
		})
	}
	if err := h.Restart(t.Context(), string(stack.Control)); err != nil {
		t.Fatal(err)
	}
	operator.get(t, "/admin/v1/keys/"+k.ID).want(t, http.StatusOK)
	operator.do(t, http.MethodDelete, "/admin/v1/keys/"+k.ID, nil).want(t, http.StatusNoContent)
	ai.post(t, chatRoute, ask("sandbox", "hello")).want(t, http.StatusUnauthorized)
	h.awaitCount(t, organization, "llm_requests", 6)
}

// Control answers by itself as through the edge, and to operators only. The edge relays nothing else of it.
func TestControlByItself(t *testing.T) {
	t.Parallel()
	h := use(t)
	k := h.key(t, unique("org"), "ai", "read")
	path := "/admin/v1/keys/" + k.ID
	h.operator(stack.Control).get(t, path).want(t, http.StatusOK)
	for name, c := range map[string]client{"nobody": h.anonymous(stack.Control), "a customer": h.anonymous(stack.Control).bearer(k.Key)} {
		if a := c.get(t, path); a.status != http.StatusUnauthorized {
			t.Errorf("%s: answered %d, want 401", name, a.status)
		}
	}
	h.service(stack.Control, "").get(t, path).refused(t, http.StatusForbidden, "forbidden", "")
	control := h.anonymous(stack.Control)
	for _, open := range []string{"/health", "/health/live", "/health/ready", "/metrics"} {
		control.get(t, open).want(t, http.StatusOK)
	}
	control.post(t, chatRoute, ask("sandbox", "hello")).want(t, http.StatusNotFound)
	h.anonymous(stack.Edge).get(t, "/admin/v1/../../metrics").want(t, http.StatusNotFound)
}
