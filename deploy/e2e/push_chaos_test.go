//go:build e2e

package e2e_test

import (
	"fmt"
	"testing"

	"switchyard.dev/deploy/dev/stack"
)

// A broadcast survives the kill of both replicas while it runs: every device gets it, and none twice unless the log
// says so.
func TestBroadcastSurvivesKills(t *testing.T) {
	t.Parallel()
	h := pushStack(t)
	organization := unique("org")
	const devices = 400
	var browsers []subscriber
	for range devices {
		b := h.browser(t, organization)
		h.register(t, organization, b)
		browsers = append(browsers, b)
	}
	otherDevice := h.browser(t, unique("org"))
	// Slow enough for the kills to come before the end.
	h.script(t, stack.FakePush, rule{Match: object{"path": "/push/*"}, Action: object{"delay_ms": 100}})
	defer h.clearScript(t)
	id := h.push(t, organization, object{"broadcast": true})
	for _, replica := range []string{string(stack.Notify), secondNotify} {
		seen := h.arrived(t, browsers)
		waitFor(t, waitTimeout, "pushes arrive", func() error {
			if now := h.arrived(t, browsers); now < seen+devices/8 && now < devices {
				return fmt.Errorf("%d of %d", now, devices)
			}
			return nil
		})
		if err := h.Kill(replica); err != nil {
			t.Fatal(err)
		}
		if err := h.Restart(t.Context(), replica); err != nil {
			t.Fatal(err)
		}
	}
	log := h.pushEnded(t, organization, id)
	c := log.Channels[0]
	want := c
	want.Targeted, want.Delivered, want.Failed = devices, devices, 0
	same(t, want, c)
	if log.Status != "delivered" {
		t.Errorf("status %s, want delivered", log.Status)
	}
	doubled := 0
	for i, b := range browsers {
		switch got := h.pushed(t, b); len(got) {
		case 0:
			t.Errorf("device %d got nothing", i)
		case 1:
			if got[0].content(t).ID != id {
				t.Errorf("device %d got %+v", i, got[0])
			}
		default:
			doubled++
		}
	}
	if doubled > 0 && !c.Duplicated {
		t.Errorf("%d devices got it twice, and the log doesn't say so", doubled)
	}
	if got := h.pushed(t, otherDevice); len(got) != 0 {
		t.Errorf("a device of another organization got %+v", got)
	}
	rows := h.history(t, organization, "")
	if len(rows) != 1 {
		t.Fatalf("%d rows of history, want 1", len(rows))
	}
	row := rows[0]
	row.User, row.Delivered, row.Status = "", 0, "delivered"
	same(t, row, rows[0])
	t.Logf("%d of %d devices got it twice, marked", doubled, devices)
}

// arrived returns how many of the browsers got a message.
func (h *harness) arrived(t *testing.T, browsers []subscriber) (n int) {
	t.Helper()
	var page struct{ Messages []pushMessage }
	h.fake(stack.FakePush).unrecorded(t, "GET", "/_messages?limit=100000", nil).into(t, 200, &page)
	got := map[string]bool{}
	for _, m := range page.Messages {
		got[m.Path] = true
	}
	for _, b := range browsers {
		if got[b.path(t)] {
			n++
		}
	}
	return n
}
