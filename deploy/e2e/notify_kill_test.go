//go:build e2e

package e2e_test

import (
	"errors"
	"fmt"
	"testing"

	"switchyard.dev/deploy/dev/stack"
)

// A killed replica of notify loses no send, and every duplicate is marked as such.
func TestKilledNotifyLosesNothing(t *testing.T) {
	t.Parallel()
	const sends = 150 // each by two channels
	h := notifyStack(t)
	organization, mark := unique("org"), unique("mark")
	tos, ids := make([]string, sends), make([]string, sends)
	for i := range sends {
		url, _ := h.hook()
		tos[i] = address("kill")
		body := object{"channels": []string{"slack", "email"}, "message": fmt.Sprintf("%s-%d.", mark, i), "target": object{"webhook_url": url, "email": tos[i]}}
		ids[i] = h.send(t, organization, body)
		if i == sends/3 || i == 2*sends/3 {
			// The second replica, because this test calls the first.
			if err := h.Kill(secondNotify); err != nil {
				t.Fatal(err)
			}
			if err := h.Restart(t.Context(), secondNotify); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := h.Kill(string(stack.Notify)); err != nil {
		t.Fatal(err)
	}
	if err := h.Restart(t.Context(), string(stack.Notify)); err != nil {
		t.Fatal(err)
	}
	doubled := 0
	for i, id := range ids {
		log := h.ended(t, organization, id)
		posts, mails := len(h.posts(t, fmt.Sprintf("%s-%d.", mark, i))), len(h.mails(t, tos[i]))
		for n, count := range []int{posts, mails} {
			c := log.Channels[n]
			if c.Status != "delivered" {
				t.Errorf("send %d by %s: %s", i, c.Channel, log.summary())
			}
			if count < 1 || count > 1 && !c.Doubled {
				t.Errorf("send %d by %s: %d arrived, possibly duplicated %t", i, c.Channel, count, c.Doubled)
			}
			doubled += count - 1
		}
	}
	t.Logf("%d sends, %d messages twice, each of them marked", 2*sends, doubled)
}

func TestDrainedNotifyLosesNothing(t *testing.T) {
	t.Parallel()
	const sends = 40
	h := notifyStack(t)
	organization, to := unique("org"), address("drain")
	ids := make([]string, sends)
	for i := range sends {
		ids[i] = h.send(t, organization, object{"channels": []string{"email"}, "message": "x", "target": object{"email": to}})
	}
	if err := errors.Join(h.Terminate(t.Context(), string(stack.Notify)), h.Restart(t.Context(), string(stack.Notify))); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if got := h.ended(t, organization, id).summary(); got != "email delivered, ok 250" {
			t.Errorf("the send ended as %s", got)
		}
	}
	if mails := h.mails(t, to); len(mails) != sends {
		t.Errorf("%d mails, want %d", len(mails), sends)
	}
}
