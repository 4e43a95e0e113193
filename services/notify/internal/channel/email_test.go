package channel_test

import (
	"context"
	"errors"
	"mime"
	"net/mail"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/smtp"
)

// mailer keeps what it is given and replies as it is told.
type mailer struct {
	from, to string
	data     []byte
	reply    smtp.Reply
}

func (m *mailer) Send(_ context.Context, from, to string, data []byte) smtp.Reply {
	m.from, m.to, m.data = from, to, data
	return m.reply
}

func newEmail(t *testing.T, m *mailer, unsubscribe string) *channel.EmailSender {
	t.Helper()
	email, err := channel.NewEmail(channel.EmailOptions{
		Mailer: m, Server: "mail.example.com:587", From: "Café <no-reply@shop.example>", UnsubscribeURL: unsubscribe,
		Secrets: func() []string { return []string{"canary-password"} },
	})
	if err != nil {
		t.Fatal(err)
	}
	return email
}

func TestEmailAddresses(t *testing.T) {
	email := newEmail(t, &mailer{}, "")
	for address, ok := range map[string]bool{
		"ann@example.com": true, "a.b+c@sub.example.com": true, "a@[127.0.0.1]": true,
		"": false, "ann": false, "@example.com": false, "ann@": false, "Ann <ann@example.com>": false, "<ann@example.com>": false,
		"ann@example.com, bob@example.com": false, "ann@example.com\r\nBcc: bob@example.com": false, "ann@exa mple.com": false,
		`"a b"@example.com`: false, "änn@example.com": false, "ann@example.com\x00": false, "ann(x)@example.com": false,
		strings.Repeat("a", 65) + "@example.com":                        false,
		"a@" + strings.Repeat("b", 250) + ".com":                        false,
		"ann@example.com>\r\nRCPT TO:<bob@example.com":                  false,
		"ann@example.com\nX: y":                                         false,
		strings.Repeat("a", 64) + "@" + strings.Repeat("b", 60) + ".de": true,
	} {
		_, err := email.Prepare(t.Context(), channel.Message{Text: "x", Target: channel.Target{Email: address}})
		if (err == nil) != ok {
			t.Errorf("%q: %v, want ok %v", address, err, ok)
		}
		if err != nil && !strings.Contains(err.Error(), "channel email: target.email: ") {
			t.Errorf("%q: the error names no field: %v", address, err)
		}
	}
	for _, subject := range []string{"a\r\nBcc: bob@example.com", "a\nb", "a\x00b"} {
		message := channel.Message{Subject: subject, Text: "x", Target: channel.Target{Email: "ann@example.com"}}
		if _, err := email.Prepare(t.Context(), message); err == nil {
			t.Errorf("subject %q was taken", subject)
		}
	}
}

func TestEmailMessage(t *testing.T) {
	m := &mailer{reply: smtp.Reply{Code: 250}}
	email := newEmail(t, m, "https://shop.example/u?o={organization_id}&n={notification_id}&e={email}")
	id := uuid.MustParse("0199a0c0-0000-7000-8000-000000000001")
	subject := "Grüße =?utf-8?q?x?= " + strings.Repeat("long ", 30)
	text := "Hello ann,\n.\n..\nFrom here: é\r\nBcc: bob@example.com\n"
	work, err := email.Prepare(t.Context(), channel.Message{ID: id, Subject: subject, Text: text, Target: channel.Target{Email: "ann+x@example.com"}})
	if err != nil {
		t.Fatal(err)
	}
	task := channel.Task{Notification: id, Organization: "a&b", Work: work.Body, AcceptedAt: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	if o := email.Deliver(t.Context(), task); o.Kind != channel.OK || o.Reference != id.String()+"@shop.example" {
		t.Fatalf("outcome %+v", o)
	}
	first := string(m.data)
	task.Number = 2
	_ = email.Deliver(t.Context(), task)
	if string(m.data) != first {
		t.Errorf("a repeat is another message:\n%s\n%s", first, m.data)
	}
	read, err := mail.ReadMessage(strings.NewReader(first))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"Message-Id":            "<" + id.String() + "@shop.example>",
		"Date":                  "Fri, 01 May 2026 12:00:00 +0000",
		"To":                    "<ann+x@example.com>",
		"Auto-Submitted":        "auto-generated",
		"List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
		"List-Unsubscribe":      "<https://shop.example/u?o=a%26b&n=" + id.String() + "&e=ann%2Bx%40example.com>",
		"Bcc":                   "",
		"Mime-Version":          "1.0",
	} {
		if got := strings.Join(read.Header[name], "|"); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	decoded, err := new(mime.WordDecoder).DecodeHeader(read.Header.Get("Subject"))
	if err != nil || strings.TrimSpace(decoded) != strings.TrimSpace(subject) {
		t.Errorf("subject %q, %v", decoded, err)
	}
	if m.from != "no-reply@shop.example" || m.to != "ann+x@example.com" {
		t.Errorf("envelope %s to %s", m.from, m.to)
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(first, "\r\n"), "\r\n") {
		if len(line) > 998 || strings.ContainsAny(line, "\r\n") {
			t.Errorf("a line that no server takes: %q", line)
		}
	}
}

func TestEmailOutcomes(t *testing.T) {
	refused := errors.New("refused")
	reply := func(code int, enhanced string, stage smtp.Stage) smtp.Reply {
		return smtp.Reply{Code: code, Enhanced: enhanced, Text: "said canary-password", Stage: stage, Err: refused}
	}
	said := func(o channel.Outcome, enhanced string) channel.Outcome {
		o.Detail = strings.TrimSpace(enhanced + " said [redacted]")
		return o
	}
	tests := map[string]struct {
		reply smtp.Reply
		want  channel.Outcome
	}{
		"taken":             {smtp.Reply{Code: 250, Stage: smtp.StageSent}, channel.Delivered(250)},
		"no such mailbox":   {reply(550, "5.1.1", smtp.StageRecipient), said(channel.Failed("recipient_refused", 550, ""), "5.1.1")},
		"sender refused":    {reply(550, "5.7.1", smtp.StageSender), said(channel.Failed("sender_refused", 550, ""), "5.7.1")},
		"message refused":   {reply(554, "", smtp.StageSent), said(channel.Failed("message_refused", 554, ""), "")},
		"4xx, 5 enhanced":   {reply(451, "5.7.1", smtp.StageRecipient), said(channel.Retry("smtp_4xx", 451, 0), "5.7.1")},
		"4xx of the sender": {reply(450, "5.1.1", smtp.StageSender), said(channel.Retry("smtp_4xx", 450, 0), "5.1.1")},
		"4xx of the text":   {reply(452, "5.3.1", smtp.StageSent), said(channel.Retry("smtp_4xx", 452, 0), "5.3.1")},
		"5xx, 4 enhanced":   {reply(550, "4.7.1", smtp.StageRecipient), said(channel.Failed("recipient_refused", 550, ""), "4.7.1")},
		"552 for 452":       {reply(552, "5.2.2", smtp.StageRecipient), said(channel.Retry("smtp_4xx", 552, 0), "5.2.2")},
		"too large":         {reply(552, "5.3.4", smtp.StageSender), said(channel.Failed("sender_refused", 552, ""), "5.3.4")},
		"login put off":     {reply(454, "5.7.0", smtp.StageConnect), said(hostFailed(channel.Retry("smtp_4xx", 454, 0)), "5.7.0")},
		"grey listed":       {reply(451, "4.7.1", smtp.StageRecipient), said(channel.Retry("smtp_4xx", 451, 0), "4.7.1")},
		"closing":           {reply(421, "4.3.2", smtp.StageSender), said(hostFailed(channel.Retry("smtp_4xx", 421, 0)), "4.3.2")},
		"not greeted":       {reply(554, "", smtp.StageConnect), said(hostFailed(channel.Retry("smtp_4xx", 554, 0)), "")},
		"login refused":     {reply(535, "5.7.8", smtp.StageConnect), said(channel.Denied(channel.ClassCredential, 535, false), "5.7.8")},
		"no connection":     {smtp.Reply{Stage: smtp.StageConnect, Err: refused}, hostFailed(channel.Retry(channel.ClassConnect, 0, 0))},
		"cut at the sender": {smtp.Reply{Stage: smtp.StageSender, Err: refused}, hostFailed(channel.Retry(channel.ClassReset, 0, 0))},
		// These may come of one customer's address or text.
		"cut before it":         {smtp.Reply{Stage: smtp.StageRecipient, Err: refused}, channel.Retry(channel.ClassReset, 0, 0)},
		"closing at an address": {reply(421, "4.7.0", smtp.StageRecipient), said(channel.Retry("smtp_4xx", 421, 0), "4.7.0")},
		"cut after it":          {smtp.Reply{Stage: smtp.StageSent, Err: refused}, channel.Lost(channel.ClassReset)},
		"time out after it":     {smtp.Reply{Stage: smtp.StageSent, Err: context.DeadlineExceeded}, channel.Lost(channel.ClassTimeout)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			email := newEmail(t, &mailer{reply: tt.reply}, "")
			work, err := email.Prepare(t.Context(), channel.Message{Text: "x", Target: channel.Target{Email: "ann@example.com"}})
			if err != nil {
				t.Fatal(err)
			}
			if got := email.Deliver(t.Context(), channel.Task{Work: work.Body, Update: true, Reference: "x@shop.example"}); got != tt.want {
				t.Errorf("outcome %+v, want %+v", got, tt.want)
			}
		})
	}
}
