//go:build e2e

package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"switchyard.dev/deploy/dev/stack"
)

// app gives an organization an app for Slack, with a bot token of its own.
func (h *harness) app(t *testing.T, organization string) {
	t.Helper()
	token := "xoxb-" + unique("canarytoken")
	knownSecrets.add("a bot token", token)
	if err := os.WriteFile(filepath.Join(h.State(), "secrets", "notify-slack-apps", organization), []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
}

// conversation returns the id of a channel of Slack that only one test uses.
func conversation() string {
	return "C" + strings.ToUpper(strings.ReplaceAll(unique(""), "-", ""))[:10]
}

// slackCall is a call of Slack's Web API that the fake accepted.
type slackCall struct {
	Method  string `json:"method"`
	Channel string `json:"channel"`
	TS      string `json:"ts"`
	Payload struct {
		Text   string            `json:"text"`
		Blocks []json.RawMessage `json:"blocks"`
	} `json:"payload"`
}

// calls returns the calls about a channel of Slack, in order.
func (h *harness) calls(t *testing.T, channel string) []slackCall {
	t.Helper()
	return slackMessages(t, h, func(c slackCall) bool { return c.Channel == channel })
}

// update updates a send and returns the id of the update.
func (h *harness) update(t *testing.T, organization, id string, body object) string {
	t.Helper()
	var accepted struct {
		ID string `json:"update_id"`
	}
	h.service(stack.Notify, organization).post(t, inboxPath+"/sends/"+id+"/updates", body).into(t, http.StatusAccepted, &accepted)
	return accepted.ID
}

var decide = []object{
	{"id": "approve", "label": "Approve", "style": "primary", "url": "https://app.example.com/decide/7", "value": "7"},
	{"id": "deny", "label": "Deny", "style": "danger", "value": "7"},
}

// A question goes out with buttons, and is answered: every channel shows the answer, in the place of the question where it
// can.
func TestUpdateOnEveryChannel(t *testing.T) {
	t.Parallel()
	h := notifyStack(t)
	organization, to, channel := unique("org"), address("ann"), conversation()
	h.app(t, organization)
	receiver := h.receiver()
	id := h.send(t, organization, object{
		"channels": []string{"slack", "email", "webhook", "in_app"}, "subject": "Deploy <7>?", "message": "It waits & waits.", "actions": decide,
		"target": object{"slack_channel": channel, "email": to, "url": receiver.url(), "user_id": "ann"},
	})
	if first := h.ended(t, organization, id).summary(); first != "slack delivered, ok 200; email delivered, ok 250; webhook delivered, ok 200; in_app delivered, ok" {
		t.Fatalf("the question: %s", first)
	}
	answer := h.update(t, organization, id, object{"message": "Ann said yes."})
	log := h.ended(t, organization, answer)
	if got := log.summary(); got != "slack delivered, ok 200; email delivered, ok 250; webhook delivered, ok 200; in_app delivered, ok" {
		t.Fatalf("the answer: %s", got)
	}
	for _, c := range log.Channels {
		if replaced := c.Channel == "slack" || c.Channel == "in_app"; c.Replaced != replaced {
			t.Errorf("%s replaced %t", c.Channel, c.Replaced)
		}
	}
	calls := h.calls(t, channel)
	if len(calls) != 2 || calls[0].Method != "chat.postMessage" || calls[1].Method != "chat.update" || calls[0].TS != calls[1].TS ||
		len(calls[0].Payload.Blocks) != 2 || len(calls[1].Payload.Blocks) != 0 || calls[1].Payload.Text != "*Deploy &lt;7&gt;?*\nAnn said yes." {
		t.Errorf("Slack got %+v", calls)
	}
	mails := h.mails(t, to)
	if len(mails) != 2 || !strings.Contains(mails[0], "https://app.example.com/decide/7") ||
		!strings.Contains(mails[1], "In-Reply-To: <"+id+"@switchyard.example>") || !strings.Contains(mails[1], "Message-ID: <"+answer+"@") {
		t.Errorf("mails %q", mails)
	}
	posts := receiver.arrivals(t)
	if len(posts) != 2 || !strings.Contains(posts[1].Body, `"updates_notification_id":"`+id+`"`) || !strings.Contains(posts[0].Body, `"value":"7"`) {
		t.Errorf("the receiver got %+v", posts)
	}
	if page := h.inbox(t, organization, "ann"); len(page.Records) != 1 || page.Unread != 1 || page.Records[0].Message != "Ann said yes." {
		t.Errorf("inbox %+v", page)
	}
}

// What Slack does not take yet is not sent any more once there is an answer, and errors of the token wait for a new one.
func TestUpdateGoesInsteadOfWhatWaits(t *testing.T) {
	t.Parallel()
	h := notifyStack(t)
	organization, channel := unique("org"), conversation()
	h.app(t, organization)
	h.script(t, stack.FakeSlack, rule{
		Match: object{"path": "/api/chat.*", "body": channel}, Times: 1, Action: object{"status": 429, "retry_after": "3"},
	})
	id := h.send(t, organization, object{"channels": []string{"slack"}, "message": "Well?", "actions": decide, "target": object{"slack_channel": channel}})
	waitFor(t, waitTimeout, "the refusal of the question", func() error {
		var log sendLog
		h.service(stack.Notify, organization).get(t, inboxPath+"/sends/"+id).into(t, http.StatusOK, &log)
		if len(log.Attempts) == 0 {
			return errors.New("no attempt yet")
		}
		return nil
	})
	answer := h.update(t, organization, id, object{"message": "Never mind."})
	if log := h.ended(t, organization, id); log.Status != "superseded" || log.Channels[0].Status != "superseded" {
		t.Errorf("the question ended as %s: %s", log.Status, log.summary())
	}
	if got := h.ended(t, organization, answer).summary(); got != "slack delivered, ok 200" {
		t.Errorf("the answer ended as %s", got)
	}
	if calls := h.calls(t, channel); len(calls) != 1 || calls[0].Method != "chat.postMessage" || calls[0].Payload.Text != "Never mind." {
		t.Errorf("Slack got %+v", calls)
	}
}

// A push has the buttons that fit, and its update the same tag and the same topic, on every device.
func TestUpdateOfPush(t *testing.T) {
	t.Parallel()
	h := pushStack(t)
	organization := unique("org")
	phone, laptop := h.browser(t, organization), h.browser(t, organization)
	for _, b := range []subscriber{phone, laptop} {
		h.register(t, organization, b, object{"user_id": "ann"})
	}
	id := h.push(t, organization, object{"user_id": "ann", "url": "/decide/7"}, object{"actions": decide})
	h.pushEnded(t, organization, id)
	answer := h.update(t, organization, id, object{"message": "Ann said yes."})
	if log := h.pushEnded(t, organization, answer); log.Status != "delivered" || log.Channels[0].Delivered != 2 {
		t.Errorf("the answer ended as %+v", log)
	}
	for _, b := range []subscriber{phone, laptop} {
		got := h.pushed(t, b)
		if len(got) != 2 {
			t.Fatalf("%d pushes, want 2", len(got))
		}
		question, said := got[0].content(t), got[1].content(t)
		if got[0].Topic == "" || got[0].Topic != got[1].Topic || question.Tag != id || said.Tag != id || said.ID != answer || said.URL != "/decide/7" || said.Title != "Order" {
			t.Errorf("topics %q and %q, contents %+v and %+v", got[0].Topic, got[1].Topic, question, said)
		}
		if len(said.Actions) != 0 {
			t.Errorf("buttons of the answer %v", said.Actions)
		}
		same(t, []map[string]string{{"action": "approve", "title": "Approve", "url": "https://app.example.com/decide/7"}, {"action": "deny", "title": "Deny"}}, question.Actions)
	}
}

// The errors of Slack's Web API, as the log of a send has them.
func TestOutcomesOfSlackApp(t *testing.T) {
	t.Parallel()
	h := notifyStack(t)
	said := func(name string) object { return object{"status": 200, "body": `{"ok":false,"error":"` + name + `"}`} }
	for name, tt := range map[string]struct {
		action object
		times  int
		want   string
	}{
		"no channel": {said("channel_not_found"), 0, "slack failed, permanent channel_not_found 200"},
		"rate":       {object{"status": 429, "retry_after": "1"}, 1, "slack delivered, retry_after rate_limited 429, ok 200"},
		"half done":  {said("fatal_error"), 1, "slack delivered possibly duplicated, unknown fatal_error 200, ok 200"},
		"cut":        {object{"drop": true}, 1, "slack delivered possibly duplicated, unknown connection_reset, ok 200"},
	} {
		t.Run(name, func(t *testing.T) {
			organization, channel := unique("org"), conversation()
			h.app(t, organization)
			h.script(t, stack.FakeSlack, rule{Match: object{"path": "/api/chat.*", "body": channel}, Times: tt.times, Action: tt.action})
			id := h.send(t, organization, object{"channels": []string{"slack"}, "message": "x", "target": object{"slack_channel": channel}})
			if got := h.ended(t, organization, id).summary(); got != tt.want {
				t.Errorf("%s\nwant %s", got, tt.want)
			}
		})
	}
}

// Replicas are killed while questions and their answers are sent: every conversation ends with its answer, and a question
// that stays beside it is marked as possibly duplicated.
func TestKilledNotifyUpdatesAll(t *testing.T) {
	t.Parallel()
	const sends = 40
	h := notifyStack(t)
	organization := unique("org")
	h.app(t, organization)
	ids, answers, channels := make([]string, sends), make([]string, sends), make([]string, sends)
	restart := func(name string) {
		if err := errors.Join(h.Kill(name), h.Restart(t.Context(), name)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range sends {
		channels[i] = conversation()
		ids[i] = h.send(t, organization, object{
			"channels": []string{"slack"}, "message": fmt.Sprint("question ", i), "actions": decide, "target": object{"slack_channel": channels[i]},
		})
	}
	restart(secondNotify)
	for i, id := range ids {
		if i == sends/2 {
			restart(secondNotify)
		}
		answers[i] = h.update(t, organization, id, object{"message": fmt.Sprint("answer ", i)})
	}
	restart(string(stack.Notify))
	for i, id := range answers {
		log := h.ended(t, organization, id)
		if log.Status != "delivered" {
			t.Errorf("answer %d: %s", i, log.summary())
		}
		shown := map[string]string{} // by ts
		for _, c := range h.calls(t, channels[i]) {
			shown[c.TS] = c.Payload.Text
		}
		first := h.ended(t, organization, ids[i])
		answered := false
		for _, text := range shown {
			if text == fmt.Sprint("answer ", i) {
				answered = true
			} else if !log.Channels[0].Doubled && !first.Channels[0].Doubled {
				t.Errorf("question %d stays, and nothing is marked: %v, %s, %s", i, shown, first.summary(), log.summary())
			}
		}
		if !answered {
			t.Errorf("conversation %d shows %v", i, shown)
		}
	}
}
