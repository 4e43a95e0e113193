//go:build e2e

package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"testing"

	"switchyard.dev/deploy/dev/stack"
	"switchyard.dev/deploy/dev/store"
)

// compareDeliveries compares the accepted deliveries with the receiver's log: each must be in it, and no more may have
// arrived again than were in flight at a kill.
func (s *soak) compareDeliveries(t *testing.T, results *resultTable, kills []kill) {
	t.Helper()
	var status map[string]string
	s.drained(t, "deliveries", func() error {
		status = s.deliveryStatus(t)
		for id := range s.deliveries {
			if status[id] != "delivered" {
				return fmt.Errorf("%s is %q", id, status[id])
			}
		}
		return nil
	})
	delivered := 0
	for id := range s.deliveries {
		if status[id] == "delivered" {
			delivered++
		}
	}
	results.exactly("deliveries accepted, delivered by their record", len(s.deliveries), delivered)
	times, arrivals, unsigned := map[string]int{}, 0, 0
	for _, to := range []receiver{s.direct, s.fanOut} {
		for _, one := range to.arrivals(t) {
			arrivals++
			times[one.ID]++
			if one.Signature != "valid" {
				unsigned++
			}
		}
	}
	arrived, unknownIDs := 0, len(times)
	for id := range s.deliveries {
		if times[id] > 0 {
			arrived, unknownIDs = arrived+1, unknownIDs-1
		}
	}
	results.exactly("deliveries accepted, in the receiver's log", len(s.deliveries), arrived)
	results.exactly("arrivals of deliveries that were not accepted", 0, unknownIDs)
	results.exactly("arrivals without a valid signature", 0, unsigned)
	lost := countKills(kills, string(stack.WebhookEgress)) + countKills(kills, store.Postgres)
	results.atMost("arrivals again, under the same id (in flight at a kill)", lost*chaosInFlight, arrivals-len(times))
}

// deliveryStatus returns the status of each delivery of the organization, by id.
func (s *soak) deliveryStatus(t *testing.T) map[string]string {
	t.Helper()
	status := map[string]string{}
	pages(t, s.egress, deliveryPath+"?limit=200", func(page struct {
		Deliveries []delivery `json:"deliveries"`
		Next       string     `json:"next_cursor"`
	},
	) string {
		for _, d := range page.Deliveries {
			status[d.ID] = d.Status
		}
		return page.Next
	})
	return status
}

// compareSends checks that every channel of every send has an outcome, that its message is at the third party, and that
// a message that came twice is marked.
func (s *soak) compareSends(t *testing.T, results *resultTable) {
	t.Helper()
	logs := s.sendLogs(t)
	got := map[string]map[string]int{"slack": s.slackGot(t), "email": s.mailGot(t), "webhook": s.webhookGot(t), "web_push": s.pushGot(t)}
	accepted, delivered := map[string]int{}, map[string]int{}
	arrived, doubled, unmarked := map[string]int{}, 0, 0
	for id, one := range s.sends {
		for _, channel := range one.channels {
			accepted[channel]++
			status, marked := logs[id].channel(channel)
			if status == "delivered" {
				delivered[channel]++
			}
			key := one.mark
			if channel == "web_push" {
				key = id // by which a service worker recognizes a repeat
			}
			n := got[channel][key]
			if n > 0 {
				arrived[channel]++
			}
			if n > 1 && channel != "webhook" { // a webhook that is repeated keeps its id, as every delivery does
				doubled++
				if !marked {
					unmarked++
				}
			}
		}
	}
	for _, channel := range []string{"in_app", "slack", "email", "webhook", "web_push"} {
		results.exactly(channel+" accepted, delivered by the log", accepted[channel], delivered[channel])
		if got[channel] != nil {
			results.exactly(channel+" accepted, at the third party", accepted[channel], arrived[channel])
		}
	}
	results.exactly(fmt.Sprintf("messages that came twice (%d), without the mark", doubled), 0, unmarked)
}

// channel returns the status of a send by one of its channels, "" where the log doesn't have it.
func (l sendLog) channel(name string) (status string, doubled bool) {
	for _, c := range l.Channels {
		if c.Channel == name {
			return c.Status, c.Doubled
		}
	}
	return "", false
}

// sendLogs waits for the end of every send and returns the logs, by id.
func (s *soak) sendLogs(t *testing.T) map[string]sendLog {
	t.Helper()
	logs := map[string]sendLog{}
	for id := range s.sends {
		s.drained(t, "send "+id, func() error {
			var log sendLog
			s.inbox.unrecorded(t, http.MethodGet, sendsPath+id+"?limit=200", nil).into(t, http.StatusOK, &log)
			logs[id] = log
			if log.Status == "pending" {
				return errors.New(log.summary())
			}
			return nil
		})
	}
	return logs
}

// compareInboxes compares each user's unread count with what was sent and marked read, and with the records that are
// listed.
func (s *soak) compareInboxes(t *testing.T, results *resultTable) {
	t.Helper()
	sent, of := map[string]int{}, map[string]string{}
	for _, one := range s.sends {
		sent[one.user]++
	}
	unread, listed, exact := map[string]int{}, map[string]int{}, 0
	for n := range soakUsers {
		user := soakUser(n)
		pages(t, s.inbox, inboxPath+"?limit=200&user_id="+user, func(page inboxPage) string {
			unread[user] = page.Unread
			for _, r := range page.Records {
				of[r.ID] = user
				if !r.Read {
					listed[user]++
				}
			}
			return page.NextCursor
		})
	}
	wanted, found := 0, 0
	for id := range s.read {
		sent[of[id]]--
	}
	for user, n := range sent {
		wanted, found = wanted+n, found+unread[user]
		if unread[user] == n && listed[user] == n {
			exact++
		} else {
			t.Logf("%s: %d unread, %d listed, want %d", user, unread[user], listed[user], n)
		}
	}
	results.exactly("unread notifications of all users", wanted, found)
	results.exactly("users whose count and list are exact", len(sent), exact)
}

// sendMark matches the mark of a send in a message.
var sendMark = regexp.MustCompile(`\[(send-\d+)\]`)

// journal returns everything that a fake has received.
func journal[M any](t *testing.T, h *harness, fake stack.Fake) []M {
	t.Helper()
	var page struct {
		Messages []M `json:"messages"`
		Total    int `json:"total"`
	}
	h.fake(fake).unrecorded(t, http.MethodGet, "/_messages?limit=100000", nil).into(t, http.StatusOK, &page)
	if page.Total != len(page.Messages) {
		t.Fatalf("%s has forgotten %d of its %d messages: the soak is too long for it", fake, page.Total-len(page.Messages), page.Total)
	}
	return page.Messages
}

func countMarks(texts []string) map[string]int {
	times := map[string]int{}
	for _, text := range texts {
		if found := sendMark.FindString(text); found != "" {
			times[found]++
		}
	}
	return times
}

// The messages of each send that third parties received: how many, by the send's mark, or by its id for web push.

func (s *soak) slackGot(t *testing.T) map[string]int {
	t.Helper()
	var texts []string
	for _, m := range journal[slackPost](t, s.harness, stack.FakeSlack) {
		texts = append(texts, m.Payload.Text)
	}
	return countMarks(texts)
}

func (s *soak) mailGot(t *testing.T) map[string]int {
	t.Helper()
	var texts []string
	for _, m := range journal[struct {
		Data string `json:"data"`
	}](t, s.harness, stack.FakeMailbox) {
		texts = append(texts, m.Data)
	}
	return countMarks(texts)
}

func (s *soak) webhookGot(t *testing.T) map[string]int {
	t.Helper()
	var texts []string
	for _, a := range s.notified.arrivals(t) {
		texts = append(texts, a.Body)
	}
	return countMarks(texts)
}

func (s *soak) pushGot(t *testing.T) map[string]int {
	t.Helper()
	times := map[string]int{}
	for _, m := range journal[pushMessage](t, s.harness, stack.FakePush) {
		var content struct {
			ID string `json:"notification_id"`
		}
		if err := json.Unmarshal([]byte(m.Plaintext), &content); err != nil {
			t.Errorf("a push that no browser can read: %v: %s", err, m.Failed)
		}
		times[content.ID]++
	}
	return times
}
