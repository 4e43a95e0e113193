package channel_test

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/inbox"
	"switchyard.dev/services/notify/internal/smtp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares a wire form with its file in testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

var (
	firstID  = uuid.MustParse("0199a0c0-0000-7000-8000-000000000001")
	updateID = uuid.MustParse("0199a0c0-0000-7000-8000-000000000002")
	accepted = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
)

// hostileMessage is a message whose texts try to be markup on every channel.
func hostileMessage(target channel.Target) channel.Message {
	return channel.Message{
		ID: firstID, Organization: "acme", Subject: `Run "rm" <!channel> & more`, Target: target,
		Text: "*bold* <https://evil.example|safe> & <script>alert(1)</script>\n.\nBcc: bob@example.com",
		Actions: []inbox.Action{
			{ID: "approve", Label: "Approve <b>&amp;", Style: "primary", URL: "https://a.example/?d=1&t=ä", Value: `{"d":"x"}`},
			{ID: "deny", Label: "Deny *now*", Style: "danger", Value: "opaque"},
			{ID: "later", Label: "Later", Style: "default"},
		},
	}
}

// updateOf is what a message says from now on, without buttons.
func updateOf(m channel.Message) channel.Message {
	m.ID, m.Updates, m.Text, m.Actions = updateID, m.ID, "Approved by <ann> & done", nil
	return m
}

func prepare(t *testing.T, sender channel.Sender, m channel.Message, shown int) channel.Work {
	t.Helper()
	work, err := channel.NewRegistry(false, sender).Prepare(t.Context(), []channel.Name{sender.Channel()}, m)
	if err != nil {
		t.Fatal(err)
	}
	if work[0].ActionsShown != shown {
		t.Errorf("%d actions are shown, want %d", work[0].ActionsShown, shown)
	}
	return work[0]
}

// recorded is what a server was sent.
type recorded struct {
	head string
	body []byte
}

// recorder serves an answer and keeps the last request.
func recorder(t *testing.T, answer string) (got *recorded, url, address string) {
	t.Helper()
	got = &recorded{}
	url, address = serve(t, func(w http.ResponseWriter, r *http.Request) {
		got.body, _ = io.ReadAll(r.Body)
		got.head = fmt.Sprintf("%s %s\nContent-Type: %s\nAuthorization: %s\n\n", r.Method, r.URL.Path, r.Header.Get("Content-Type"), r.Header.Get("Authorization"))
		_, _ = io.WriteString(w, answer)
	})
	return got, url, address
}

func (r *recorded) bytes() []byte { return append([]byte(r.head), append(r.body, '\n')...) }

func TestSlackWire(t *testing.T) {
	got, url, address := recorder(t, `{"ok":true,"channel":"D0000001","ts":"1503435956.000247","message":{"text":"`+strings.Repeat("x", 40_000)+`"}}`)
	slack := channel.NewSlack(channel.SlackOptions{
		Origins: []string{url}, API: url + "/api", Tokens: secrets(t, "acme", "xoxb-token\n"), Poster: poster(t, 5*time.Second, address),
	})
	hook := hostileMessage(channel.Target{WebhookURL: url + "/services/T/B/x"})
	app := hostileMessage(channel.Target{SlackChannel: "U0000001"})
	tests := []struct {
		name      string
		m         channel.Message
		shown     int
		reference string
		want      channel.Outcome
	}{
		{"slack_webhook", hook, 3, "", channel.Delivered(200)},
		{"slack_webhook_update", updateOf(hook), 0, "", channel.Delivered(200)},
		{"slack_app", app, 3, "", channel.Outcome{Kind: channel.OK, Status: 200, Reference: "D0000001:1503435956.000247"}},
		{"slack_app_update", updateOf(app), 0, "D0000001:1503435956.000247", channel.Outcome{Kind: channel.OK, Status: 200, Replaced: true}},
		{"slack_app_first", updateOf(app), 0, "", channel.Outcome{Kind: channel.OK, Status: 200, Reference: "D0000001:1503435956.000247"}},
	}
	for _, tt := range tests {
		work := prepare(t, slack, tt.m, tt.shown)
		o := slack.Deliver(t.Context(), channel.Task{Work: work.Body, Organization: "acme", Update: tt.m.Updates != uuid.Nil, Reference: tt.reference})
		if o != tt.want {
			t.Errorf("%s: outcome %+v, want %+v", tt.name, o, tt.want)
		}
		golden(t, tt.name, got.bytes())
		if bytes.Contains(work.Body, []byte("xoxb")) || strings.Contains(work.Lane+work.Destination, "xoxb") {
			t.Errorf("%s: the token is in the work", tt.name)
		}
	}
}

func TestEmailWire(t *testing.T) {
	m := &mailer{reply: smtp.Reply{Code: 250}}
	email := newEmail(t, m, "")
	first := hostileMessage(channel.Target{Email: "ann@example.com"})
	work := prepare(t, email, first, 1)
	o := email.Deliver(t.Context(), channel.Task{Notification: firstID, Work: work.Body, AcceptedAt: accepted})
	golden(t, "email", m.data)
	work = prepare(t, email, updateOf(first), 0)
	again := email.Deliver(t.Context(), channel.Task{Notification: updateID, Work: work.Body, AcceptedAt: accepted, Update: true, Reference: o.Reference})
	golden(t, "email_update", m.data)
	if again != channel.Delivered(250) {
		t.Errorf("outcome %+v of an update, want that of a further mail", again)
	}
}

func TestWebhookWire(t *testing.T) {
	got, url, address := recorder(t, "")
	webhook := channel.NewDirectWebhook(channel.DirectOptions{
		Checker: checker(t, address), Secrets: secrets(t, "acme", "s"), Poster: poster(t, 5*time.Second, address), Now: time.Now,
	})
	first := hostileMessage(channel.Target{URL: url + "/x", Data: []byte(`{"a":1}`)})
	for name, m := range map[string]channel.Message{"webhook": first, "webhook_update": updateOf(first)} {
		work := prepare(t, webhook, m, len(m.Actions))
		if o := webhook.Deliver(t.Context(), channel.Task{Notification: m.ID, Organization: "acme", Work: work.Body}); o != channel.Delivered(200) {
			t.Fatalf("%s: outcome %+v", name, o)
		}
		golden(t, name, append(bytes.ReplaceAll(got.body, []byte(url), []byte("http://receiver")), '\n'))
	}
	own := first
	own.Target.Payload = []byte(`{"mine":1}`)
	prepare(t, webhook, own, 0)
}

func TestInAppKeepsActions(t *testing.T) {
	m := hostileMessage(channel.Target{User: "ann"})
	if diff := cmp.Diff(m.Actions, prepare(t, channel.InAppSender{}, m, 3).Record.Actions); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
}
