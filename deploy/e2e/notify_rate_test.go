//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"switchyard.dev/deploy/dev/stack"
)

// Without Redis, and for a moment after Redis is back without its data, each of two replicas sends at most one message a
// second to one URL by itself; with Redis they do so together. Answers of 429 in between lose no message.
func TestSlackRate(t *testing.T) {
	h := notifyStack(t)
	const replicas, almost = 2, 900 * time.Millisecond
	t.Run("without Redis", func(t *testing.T) {
		h.withoutRedis(t)
		h.checkSpacing(t, h.sendBurst(t), replicas, almost)
	})
	t.Run("with Redis that came back", func(t *testing.T) {
		h.checkSpacing(t, h.sendBurst(t), replicas, almost)
		h.checkSpacing(t, h.sendBurst(t), 1, almost) // the first batch took longer than that moment
	})
}

// sendBurst sends several messages to one URL by both replicas, and returns the messages that Slack accepted.
func (h *harness) sendBurst(t *testing.T) []slackPost {
	t.Helper()
	const messages = 4
	organization, mark := unique("org"), unique("mark")
	url, path := h.hook()
	h.script(t, stack.FakeSlack, rule{Match: object{"path": path}, Times: 2, Action: object{"status": 429, "retry_after": "1"}})
	first, second := h.service(stack.Notify, organization), h.service(stack.Notify, organization)
	second.base = h.URL(secondNotify)
	var ids []string
	for i := range messages {
		var accepted struct {
			ID string `json:"notification_id"`
		}
		[]client{first, second}[i%2].post(t, notifyPath, object{"channels": []string{"slack"}, "message": fmt.Sprint(mark, " ", i), "target": object{"webhook_url": url}}).
			into(t, http.StatusAccepted, &accepted)
		ids = append(ids, accepted.ID)
	}
	for _, id := range ids {
		if log := h.ended(t, organization, id); log.Status != "delivered" {
			t.Errorf("the send is %s: %s", log.Status, log.summary())
		}
	}
	posts := h.posts(t, mark)
	if len(posts) != messages {
		t.Errorf("%d messages arrived, want %d", len(posts), messages)
	}
	return posts
}

// checkSpacing fails the test if more than most messages arrived within a time.
func (h *harness) checkSpacing(t *testing.T, posts []slackPost, most int, within time.Duration) {
	t.Helper()
	for i := most; i < len(posts); i++ {
		if gap := posts[i].Time.Sub(posts[i-most].Time); gap < within {
			t.Errorf("message %d came %s after the one %d before it", i, gap, most)
		}
	}
}
