package channel_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/inbox"
	"switchyard.dev/services/notify/internal/smtp"
	"switchyard.dev/services/platform/apierr"
)

const canarySecret = "canary-secret-0123456789"

// secretMessage returns a message with the placeholder in each field that may have it, and in the text, which may not.
func secretMessage(target channel.Target) channel.Message {
	target.URL, target.Data = "https://shop.example/x/{secret}", []byte(`{"at":"https://shop.example/{secret}"}`)
	return channel.Message{
		ID: uuid.New(), Organization: "acme", Text: "{secret} is no URL", Secret: canarySecret, Target: target,
		Actions: []inbox.Action{{ID: "open", Label: "Open", URL: "https://shop.example/y/{secret}"}},
	}
}

// Only work for one person contains the message's secret.
func TestSecretReachesOnePerson(t *testing.T) {
	slack := channel.NewSlack(channel.SlackOptions{
		API: "https://slack.com/api", Tokens: secrets(t, "acme", "xoxb-1"), URLs: secrets(t, "acme", "https://hooks.slack.com/services/T0/B0/x"),
	})
	webhook := channel.NewDirectWebhook(channel.DirectOptions{Checker: checker(t), Secrets: secrets(t, "acme", "s")})
	for name, tt := range map[string]struct {
		sender channel.Sender
		target channel.Target
		has    bool
	}{
		"an email":                  {newEmail(t, &mailer{}, ""), channel.Target{Email: "ann@example.com"}, true},
		"a person in Slack":         {slack, channel.Target{SlackChannel: "U0123ABC"}, true},
		"a person of a grid":        {slack, channel.Target{SlackChannel: "W012A3CDE"}, true},
		"a direct message in Slack": {slack, channel.Target{SlackChannel: "D0123ABC"}, true},
		"a conversation in Slack":   {slack, channel.Target{SlackChannel: "C0123ABC"}, false},
		"a private one":             {slack, channel.Target{SlackChannel: "G0123ABC"}, false},
		"an incoming webhook":       {slack, channel.Target{}, false},
		"a record":                  {channel.InAppSender{}, channel.Target{User: "ann"}, false},
		"a webhook":                 {webhook, channel.Target{}, false},
	} {
		m := secretMessage(tt.target)
		work, err := channel.NewRegistry(false, tt.sender).Prepare(t.Context(), []channel.Name{tt.sender.Channel()}, m)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		whole := fmt.Sprintf("%s %+v %s", work[0].Body, work[0].Record, work[0].Record.Data)
		if strings.Contains(whole, canarySecret) != tt.has || strings.Contains(whole, "/{secret}") {
			t.Errorf("%s: %s", name, whole)
		}
		if tt.has && !strings.Contains(whole, "https://shop.example/y/"+canarySecret) {
			t.Errorf("%s lacks the link: %s", name, whole)
		}
	}
	m := secretMessage(channel.Target{User: "ann"})
	m.Secret = ""
	if work, err := (channel.InAppSender{}).Prepare(t.Context(), m); err != nil || work.Record.URL != m.Target.URL || string(work.Record.Data) != string(m.Target.Data) {
		t.Errorf("a message without a secret: %+v, %v", work.Record, err)
	}
}

// Private and Public don't change the message, because the work of each channel is prepared from it.
func TestSecretDoesNotChangeTheMessage(t *testing.T) {
	m := secretMessage(channel.Target{})
	before := fmt.Sprintf("%+v", m)
	_, _ = m.Private(), m.Public()
	if after := fmt.Sprintf("%+v", m); after != before {
		t.Errorf("%s became %s", before, after)
	}
	if p := m.Public(); p.Secret != "" || p.Target.Data != nil || p.Target.URL != "https://shop.example/x/" || p.Actions[0].URL != "https://shop.example/y/" {
		t.Errorf("the public message is %+v", p)
	}
}

// If a mail server repeats the link in its reply, the log has it without the secret.
func TestSecretStaysOutOfTheLog(t *testing.T) {
	mails := &mailer{reply: smtp.Reply{Stage: smtp.StageSent, Code: 554, Err: errors.New("refused"), Text: "spam: https://shop.example/y/" + canarySecret}}
	email := newEmail(t, mails, "")
	work, err := email.Prepare(t.Context(), secretMessage(channel.Target{Email: "ann@example.com"}))
	if err != nil {
		t.Fatal(err)
	}
	if o := email.Deliver(t.Context(), channel.Task{Work: work.Body}); strings.Contains(o.Detail, canarySecret) || !strings.Contains(o.Detail, "spam") {
		t.Errorf("the log says %q", o.Detail)
	}
	if !strings.Contains(strings.ReplaceAll(string(mails.data), "=\r\n", ""), canarySecret) {
		t.Errorf("the mail is %s", mails.data)
	}
	var stored map[string]any
	if err := json.Unmarshal(work.Body, &stored); err != nil || stored["secret"] != canarySecret {
		t.Errorf("the work is %s, %v", work.Body, err)
	}
}

// A button's URL is checked without the placeholder.
func TestSecretURLIsChecked(t *testing.T) {
	m := secretMessage(channel.Target{User: "ann"})
	m.Actions[0].URL = "javascript:{secret}"
	_, err := channel.NewRegistry(false, channel.InAppSender{}).Prepare(t.Context(), []channel.Name{channel.InApp}, m)
	if e, ok := errors.AsType[*apierr.Error](err); !ok || !strings.Contains(e.Text, "actions[0].url") {
		t.Errorf("error %v", err)
	}
}
