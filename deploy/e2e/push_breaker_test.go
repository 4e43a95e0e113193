//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"testing"

	"switchyard.dev/deploy/dev/stack"
)

// breakersOpened returns how often the breakers of web push hosts have opened, over both replicas.
func (h *harness) breakersOpened(t *testing.T) (n int) {
	t.Helper()
	line := regexp.MustCompile(`(?m)^notify_breaker_opened_total\{[^}]*channel="web_push"[^}]*\} (\d+)`)
	for _, member := range []string{string(stack.Notify), secondNotify} {
		at := client{base: h.URL(member), header: http.Header{}}
		for _, found := range line.FindAllSubmatch(at.get(t, "/metrics").want(t, http.StatusOK).body, -1) {
			opened, err := strconv.Atoi(string(found[1]))
			if err != nil {
				t.Fatal(err)
			}
			n += opened
		}
	}
	return n
}

// Notify stops sending to a push service that is down, except for probes. Pushes to other services continue, and all
// that waited arrive when the service is back.
func TestPushServiceThatIsDown(t *testing.T) {
	t.Parallel()
	h := pushStack(t)
	organization := unique("org")
	const devices = 8
	up := h.browser(t, organization)
	h.register(t, organization, up, object{"user_id": "ann"})
	other := h.receiver() // accepts every POST, as a push service does
	for n := range devices {
		b := h.browser(t, organization)
		b.Endpoint = fmt.Sprint(other.url(), "/", n)
		h.register(t, organization, b, object{"user_id": "ann"})
	}
	h.script(t, stack.FakeWebhook, rule{Match: object{"path": other.path + "/*"}, Action: object{"drop": true}})
	before := h.breakersOpened(t)
	id := h.push(t, organization, object{"user_id": "ann"})
	const pauses = 3 // the first opening, and one for each probe that fails
	waitFor(t, waitTimeout, "the breaker opens", func() error {
		if opened := h.breakersOpened(t) - before; opened < pauses {
			return fmt.Errorf("%d times so far", opened)
		}
		return nil
	})
	if got := h.pushed(t, up); len(got) != 1 {
		t.Errorf("the device of the service that is up got %d pushes", len(got))
	}
	if log := h.pushEnded(t, organization, h.push(t, organization, object{"subscription": object{"endpoint": up.Endpoint, "keys": up.Keys}})); log.Status != "delivered" {
		t.Errorf("a push to a service that is up: %+v", log)
	}
	if a := h.fake(stack.FakeWebhook).unrecorded(t, http.MethodDelete, "/_script", nil); a.status >= http.StatusBadRequest {
		t.Fatalf("the script was not cleared: %d %s", a.status, a.body)
	}
	log := h.pushEnded(t, organization, id)
	c := log.Channels[0]
	if log.Status != "delivered" || c.Delivered != devices+1 {
		t.Errorf("log %+v", log)
	}
	// By the retry schedule alone each device would have had four attempts or more by now.
	if c.Attempts > 3*devices {
		t.Errorf("%d attempts for %d devices: the breaker did not stop them", c.Attempts, devices)
	}
}
