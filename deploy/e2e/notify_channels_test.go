//go:build e2e

package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"switchyard.dev/deploy/dev/stack"
)

// hook returns an incoming webhook of the fake Slack that only one test uses.
func (h *harness) hook() (url, path string) {
	path = "/services/T1/B1/" + strings.ReplaceAll(unique("canaryhook"), "-", "")
	knownSecrets.add("a Slack URL", path)
	return h.FakeURL(stack.FakeSlack) + path, path
}

// sendLog is the delivery log of a send.
type sendLog struct {
	ID       string `json:"notification_id"`
	Status   string `json:"status"`
	Channels []struct {
		Channel    string  `json:"channel"`
		Status     string  `json:"status"`
		Outcome    *string `json:"outcome"`
		Attempts   int     `json:"attempts"`
		LastError  *string `json:"last_error"`
		DeliveryID *string `json:"delivery_id"`
		Doubled    bool    `json:"possibly_duplicated"`
		Replaced   bool    `json:"replaced"`
	} `json:"channels"`
	Attempts []sendAttempt `json:"attempts"`
}

type sendAttempt struct {
	Channel string   `json:"channel"`
	Number  int      `json:"number"`
	Outcome string   `json:"outcome"`
	Code    *int     `json:"response_code"`
	Error   *string  `json:"error"`
	After   *float64 `json:"retry_after_seconds"`
	Detail  *string  `json:"detail"`
}

// summary returns a text with the status of each channel and its attempts.
func (l sendLog) summary() string {
	var lines []string
	for _, c := range l.Channels {
		line := c.Channel + " " + c.Status
		if c.Doubled {
			line += " possibly duplicated"
		}
		for _, a := range l.Attempts {
			if a.Channel != c.Channel {
				continue
			}
			line += ", " + a.Outcome
			if a.Error != nil {
				line += " " + *a.Error
			}
			if a.Code != nil {
				line += fmt.Sprint(" ", *a.Code)
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "; ")
}

// send sends a notification and returns its id.
func (h *harness) send(t *testing.T, organization string, body object) string {
	t.Helper()
	var accepted struct {
		ID string `json:"notification_id"`
	}
	h.service(stack.Notify, organization).post(t, notifyPath, body).into(t, http.StatusAccepted, &accepted)
	return accepted.ID
}

// ended waits until a send has ended, and returns its log.
func (h *harness) ended(t *testing.T, organization, id string) (log sendLog) {
	t.Helper()
	waitFor(t, waitTimeout, "the end of send "+id, func() error {
		log = sendLog{}
		h.service(stack.Notify, organization).get(t, inboxPath+"/sends/"+id+"?limit=200").into(t, http.StatusOK, &log)
		if log.Status == "pending" {
			return fmt.Errorf("still %s", log.summary())
		}
		return nil
	})
	return log
}

// mails returns the messages that the fake mail server accepted for an address.
func (h *harness) mails(t *testing.T, to string) []string {
	t.Helper()
	var page struct {
		Messages []struct {
			TLS  bool   `json:"tls"`
			Data string `json:"data"`
		} `json:"messages"`
	}
	h.fake(stack.FakeMailbox).unrecorded(t, http.MethodGet, "/_messages?limit=100000&to="+to, nil).into(t, http.StatusOK, &page)
	var texts []string
	for _, m := range page.Messages {
		if !m.TLS {
			t.Error("a mail came over a connection without TLS")
		}
		texts = append(texts, m.Data)
	}
	return texts
}

// slackPost is a message that the fake Slack accepted.
type slackPost struct {
	Time    time.Time `json:"time"`
	Payload struct {
		Text string `json:"text"`
	} `json:"payload"`
}

// posts returns the Slack messages whose text has a part.
func (h *harness) posts(t *testing.T, part string) []slackPost {
	t.Helper()
	return slackMessages(t, h, func(m slackPost) bool { return strings.Contains(m.Payload.Text, part) })
}

// slackMessages returns the messages that the fake Slack accepted and that are selected, in order.
func slackMessages[M any](t *testing.T, h *harness, selects func(M) bool) []M {
	t.Helper()
	var page struct {
		Messages []M `json:"messages"`
	}
	h.fake(stack.FakeSlack).unrecorded(t, http.MethodGet, "/_messages?limit=100000", nil).into(t, http.StatusOK, &page)
	return slices.DeleteFunc(page.Messages, func(m M) bool { return !selects(m) })
}

func address(name string) string { return strings.ReplaceAll(unique(name), "-", ".") + "@example.com" }

func TestOneSendByFourChannels(t *testing.T) {
	t.Parallel()
	h := notifyStack(t)
	organization, to, mark := unique("org"), address("ann"), unique("mark")
	url, _ := h.hook()
	receiver := h.receiver()
	id := h.send(t, organization, object{
		"channels": []string{"slack", "email", "webhook", "in_app"}, "subject": "Order 7", "message": mark + " & <shipped>",
		"target": object{"webhook_url": url, "email": to, "url": receiver.url(), "user_id": "ann", "payload": json.RawMessage(`{"a":1}`)},
	})
	log := h.ended(t, organization, id)
	if got := log.summary(); log.Status != "delivered" ||
		got != "slack delivered, ok 200; email delivered, ok 250; webhook delivered, ok 200; in_app delivered, ok" {
		t.Errorf("the send is %s: %s", log.Status, got)
	}
	if posts := h.posts(t, mark); len(posts) != 1 || posts[0].Payload.Text != "*Order 7*\n"+mark+" &amp; &lt;shipped&gt;" {
		t.Errorf("Slack got %+v", posts)
	}
	if mails := h.mails(t, to); len(mails) != 1 || !strings.Contains(mails[0], "Message-ID: <"+id+"@switchyard.example>") ||
		!strings.Contains(mails[0], "List-Unsubscribe-Post: List-Unsubscribe=One-Click") {
		t.Errorf("mails %q", mails)
	}
	arrived := receiver.arrivals(t)
	if len(arrived) != 1 {
		t.Fatalf("the receiver got %d deliveries, want 1; the log says %s", len(arrived), log.summary())
	}
	want := arrived[0]
	want.Body, want.Signature, want.ID = `{"a":1}`, "valid", *log.Channels[2].DeliveryID
	same(t, want, arrived[0])
	if page := h.inbox(t, organization, "ann"); len(page.Records) != 1 {
		t.Errorf("inbox %+v", page)
	}
	other := h.service(stack.Notify, unique("org"))
	other.get(t, inboxPath+"/sends/"+id).want(t, http.StatusNotFound)
}

func TestOutcomesByChannel(t *testing.T) {
	t.Parallel()
	h := notifyStack(t)
	slack := func(path string, action object, times int) (stack.Fake, rule) {
		return stack.FakeSlack, rule{Match: object{"path": path}, Times: times, Action: action}
	}
	tests := map[string]struct {
		channel string
		method  string // SMTP command of a mail's fault
		action  object
		times   int
		want    string
	}{
		"slack: no service":       {"slack", "", object{"status": 404}, 0, "slack failed, auth no_service 404"},
		"slack: archived":         {"slack", "", object{"status": 410}, 0, "slack failed, permanent channel_is_archived 410"},
		"slack: invalid payload":  {"slack", "", object{"status": 400}, 0, "slack failed, permanent invalid_payload 400"},
		"slack: rate":             {"slack", "", object{"status": 429, "retry_after": "1"}, 1, "slack delivered, retry_after rate_limited 429, ok 200"},
		"slack: broken":           {"slack", "", object{"status": 500}, 1, "slack delivered, retry_after http_5xx 500, ok 200"},
		"slack: redirect":         {"slack", "", object{"redirect": "https://example.com/"}, 0, "slack failed, permanent http_3xx 302"},
		"slack: cut":              {"slack", "", object{"drop": true}, 1, "slack delivered possibly duplicated, unknown connection_reset, ok 200"},
		"slack: silence":          {"slack", "", object{"delay_ms": 3000}, 1, "slack delivered possibly duplicated, unknown timeout, ok 200"},
		"email: no such mailbox":  {"email", "RCPT", object{"status": 550}, 0, "email failed, permanent recipient_refused 550"},
		"email: grey listed":      {"email", "RCPT", object{"status": 451}, 2, "email delivered, retry_after smtp_4xx 451, retry_after smtp_4xx 451, ok 250"},
		"email: 4xx, 5.x.x":       {"email", "RCPT", object{"status": 451, "body": "5.7.1 greylisted, try again later"}, 1, "email delivered, retry_after smtp_4xx 451, ok 250"},
		"email: 5xx, 4.x.x":       {"email", "RCPT", object{"status": 550, "body": "4.7.1 no"}, 0, "email failed, permanent recipient_refused 550"},
		"email: closing":          {"email", "RCPT", object{"status": 421}, 1, "email delivered, retry_after smtp_4xx 421, ok 250"},
		"email: cut before":       {"email", "RCPT", object{"drop": true}, 1, "email delivered, retry_after connection_reset, ok 250"},
		"email: given up":         {"email", "RCPT", object{"status": 452}, 0, "email failed" + strings.Repeat(", retry_after smtp_4xx 452", 6)},
		"email: taken, no answer": {"email", "DATA", object{"half_close": true}, 1, "email delivered possibly duplicated, unknown connection_reset, ok 250"},
		"webhook: gone":           {"webhook", "", object{"status": 410}, 0, "webhook failed, permanent http_4xx 410"},
		"webhook: broken, mended": {"webhook", "", object{"status": 500}, 1, "webhook delivered, ok 200"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			organization, to := unique("org"), address("bob")
			url, path := h.hook()
			receiver := h.receiver()
			target := object{"webhook_url": url, "email": to, "url": receiver.url()}
			switch tt.channel {
			case "slack":
				fake, r := slack(path, tt.action, tt.times)
				h.script(t, fake, r)
			case "email":
				match := object{"method": tt.method, "path": to}
				if tt.method == "DATA" {
					match["path"] = "*" // the path of DATA is the sender's address
				}
				h.script(t, stack.FakeMailbox, rule{Match: match, Times: tt.times, Action: tt.action})
			case "webhook":
				h.script(t, stack.FakeWebhook, rule{Match: object{"path": receiver.path}, Times: tt.times, Action: tt.action})
			}
			log := h.ended(t, organization, h.send(t, organization, object{"channels": []string{tt.channel}, "message": "x", "target": target}))
			if got := log.summary(); got != tt.want {
				t.Errorf("%s\nwant %s", got, tt.want)
			}
			if strings.Contains(tt.want, "taken, no answer") && len(h.mails(t, to)) != 2 {
				t.Errorf("mails %q, want two", h.mails(t, to))
			}
		})
	}
}

func TestRefusalsNameChannelAndField(t *testing.T) {
	t.Parallel()
	h := notifyStack(t)
	notify := h.service(stack.Notify, unique("org"))
	url, _ := h.hook()
	for want, body := range map[string]object{
		"channel slack: target.webhook_url: required":               {"channels": []string{"slack"}},
		"channel slack: target.webhook_url: must be":                {"channels": []string{"slack"}, "target": object{"webhook_url": "https://evil.example/services/T1/B1/x"}},
		"channel email: target.email: required":                     {"channels": []string{"in_app", "email"}, "target": object{"webhook_url": url}},
		"channel email: target.email: must be":                      {"channels": []string{"email"}, "target": object{"email": "Ann <ann@example.com>"}},
		"channel webhook: target.url: required":                     {"channels": []string{"slack", "webhook"}, "target": object{"webhook_url": url}},
		"channel webhook: target.url: the host has an address":      {"channels": []string{"webhook"}, "target": object{"url": "http://169.254.169.254/"}},
		"channel webhook: target.payload: must be":                  {"channels": []string{"webhook"}, "target": object{"url": "https://example.com", "payload": []int{1}}},
		"channel web_push: web_push_disabled: web push is off; NOT": {"channels": []string{"web_push"}, "target": object{"user_id": "ann"}},
		"channels[0]: ": {"channels": []string{"sms"}},
	} {
		a := notify.post(t, notifyPath, body.with(object{"message": "x"})).want(t, http.StatusBadRequest)
		var document map[string]string
		if err := json.Unmarshal(a.body, &document); err != nil || len(document) != 1 || !strings.Contains(document["error"], want) {
			t.Errorf("%s, want the one field with %q", a.body, want)
		}
	}
	if page := h.inbox(t, notify.header.Get("X-Organization-Id"), ""); len(page.Records) != 0 {
		t.Errorf("a refused send left records: %+v", page.Records)
	}
}

func TestSendIsRepeatedByItsKey(t *testing.T) {
	t.Parallel()
	h := notifyStack(t)
	organization, to := unique("org"), address("cat")
	notify := h.service(stack.Notify, organization).with("Idempotency-Key", unique("key"))
	body := object{"channels": []string{"email"}, "message": "once", "target": object{"email": to}}
	first := notify.post(t, notifyPath, body).want(t, http.StatusAccepted)
	again := notify.post(t, notifyPath, body).want(t, http.StatusOK)
	if string(first.body) != string(again.body) || again.header.Get("Idempotent-Replayed") != "true" || first.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("%s, then %s", first.body, again.body)
	}
	notify.post(t, notifyPath, body.with(object{"message": "twice"})).want(t, http.StatusUnprocessableEntity)
	var accepted struct {
		ID string `json:"notification_id"`
	}
	first.into(t, http.StatusAccepted, &accepted)
	h.ended(t, organization, accepted.ID)
	if mails := h.mails(t, to); len(mails) != 1 {
		t.Errorf("%d mails", len(mails))
	}
}
