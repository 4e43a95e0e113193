package channel_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

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

// quoted returns how receivers quote a message with the secret: as it is, as the line of the mail that broke it, and in
// encodings that no search for the secret finds.
func quoted() map[string]string {
	return map[string]string{
		"as it is":               canarySecret,
		"a broken line":          canarySecret[:14] + "=\r\n" + canarySecret[14:],
		"a broken line in words": canarySecret[:14] + "= " + canarySecret[14:],
		"quoted-printable":       strings.ReplaceAll(canarySecret, "-", "=2D"),
		"percent-encoded":        strings.ReplaceAll(canarySecret, "-", "%2D"),
		"in base64":              base64.StdEncoding.EncodeToString([]byte(canarySecret)),
		"cut near its end":       canarySecret[:len(canarySecret)-2],
		"spread":                 strings.Join(strings.Split(canarySecret, ""), " "),
	}
}

// A receiver of a private message may quote it in its answer. The log has the codes of the answer, and none of its text.
func TestAnswersToPrivateMessagesStayOutOfTheLog(t *testing.T) {
	var said string
	url, address := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"ok": false, "error": said})
	})
	mails := &mailer{}
	slack := channel.NewSlack(channel.SlackOptions{API: url, Tokens: secrets(t, "acme", "xoxb-canary-token"), Poster: poster(t, time.Second, address)})
	for name, tt := range map[string]struct {
		sender interface {
			channel.Sender
			channel.Transport
		}
		target channel.Target
		want   channel.Outcome
		public string
	}{
		"email":            {newEmail(t, mails, ""), channel.Target{Email: "ann@example.com"}, channel.Failed("message_refused", 554, "5.7.1"), "5.7.1 spam: "},
		"Slack, by an app": {slack, channel.Target{SlackChannel: "U0123ABC"}, channel.Failed("slack_refused", 200, ""), "spam: "},
	} {
		for form, quote := range quoted() {
			said = "spam: https://shop.example/y/" + quote
			mails.reply = smtp.Reply{Stage: smtp.StageSent, Code: 554, Enhanced: "5.7.1", Err: errors.New("refused"), Text: said}
			m := secretMessage(tt.target)
			private, err := tt.sender.Prepare(t.Context(), m)
			if err != nil {
				t.Fatal(err)
			}
			if o := tt.sender.Deliver(t.Context(), channel.Task{Organization: "acme", Work: private.Body}); o != tt.want {
				t.Errorf("%s, %s: %+v, want %+v", name, form, o, tt.want)
			}
			m.Secret = ""
			public, err := tt.sender.Prepare(t.Context(), m)
			if err != nil {
				t.Fatal(err)
			}
			if o := tt.sender.Deliver(t.Context(), channel.Task{Organization: "acme", Work: public.Body}); !strings.HasPrefix(o.Detail, tt.public) {
				t.Errorf("%s without a secret: %+v, want the text", name, o)
			}
		}
	}
}

// The mail has the secret, and so has its sealed work.
func TestSecretIsSent(t *testing.T) {
	mails := &mailer{}
	email := newEmail(t, mails, "")
	work, err := email.Prepare(t.Context(), secretMessage(channel.Target{Email: "ann@example.com"}))
	if err != nil {
		t.Fatal(err)
	}
	_ = email.Deliver(t.Context(), channel.Task{Work: work.Body})
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
