package channel

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	netmail "net/mail"
	"net/url"
	"strings"

	"github.com/wneessen/go-mail"

	"switchyard.dev/services/notify/internal/inbox"
	"switchyard.dev/services/notify/internal/smtp"
)

// maxAddress and maxLocal bound an address and the part before its @ (RFC 5321, 4.5.3.1), in bytes.
const maxAddress, maxLocal = 254, 64

// The classes of a mail server's refusals.
const (
	classSender    Class = "sender_refused"
	classRecipient Class = "recipient_refused"
	classMessage   Class = "message_refused"
	classTransient Class = "smtp_4xx"
)

// Mailer sends mails, as smtp.Pool does.
type Mailer interface {
	Send(ctx context.Context, from, to string, data []byte) smtp.Reply
}

// EmailOptions configures an EmailSender.
type EmailOptions struct {
	Mailer Mailer
	// Server is the mail server's address, host:port.
	Server string
	// From is the sender, such as `Shop <no-reply@shop.example>`.
	From string
	// UnsubscribeURL is an https URL for unsubscribing by one click (RFC 8058). The placeholders {organization_id},
	// {notification_id} and {email} in it are replaced. When it is empty, mails have no such headers.
	UnsubscribeURL string
	// Secrets returns the secrets that a server's reply must not bring into the log.
	Secrets func() []string
}

// EmailSender is the email channel. It is Sender and Transport.
type EmailSender struct {
	o    EmailOptions
	from *netmail.Address
}

// NewEmail returns the email channel. It fails if From is not an address.
func NewEmail(o EmailOptions) (*EmailSender, error) {
	from, err := netmail.ParseAddress(o.From)
	if err != nil || !isASCII(from.Address) {
		return nil, fmt.Errorf("sender of emails %q: want an address, with a name or without", o.From)
	}
	return &EmailSender{o: o, from: from}, nil
}

// emailWork is the stored form of a message. With a Secret the log keeps no text of the server's reply.
type emailWork struct {
	To      string `json:"to"`
	Subject string `json:"subject,omitempty"`
	Text    string `json:"text"`
	Secret  string `json:"secret,omitempty"`
}

// Channel returns Email.
func (*EmailSender) Channel() Name { return Email }

// Prepare implements Sender.
func (s *EmailSender) Prepare(_ context.Context, m Message) (Work, error) {
	to := m.Target.Email
	if to == "" {
		return Work{}, NotAccepted(Email, "target.email", "required")
	}
	if !isAddress(to) {
		return Work{}, NotAccepted(Email, "target.email", "must be one address such as ann@example.com, without a name, in ASCII")
	}
	if strings.ContainsAny(m.Subject, "\r\n\x00") { // The contract refuses it too.
		return Work{}, NotAccepted(Email, "subject", "must be one line")
	}
	text, shown := withLinks(m.Text, m.Private().Actions)
	body, err := json.Marshal(emailWork{To: to, Subject: m.Subject, Text: text, Secret: m.Secret}) //nolint:gosec // G117: it is sealed before it is stored.
	if err != nil {
		return Work{}, fmt.Errorf("encode email work: %w", err)
	}
	return Work{Channel: Email, Body: body, Destination: "smtp://" + s.o.Server, ActionsShown: shown}, nil
}

// withLinks returns a text with the actions that lead somewhere, each as a line of its label and one of its URL. The
// others can't be shown.
func withLinks(text string, actions []inbox.Action) (linked string, shown int) {
	var b strings.Builder
	b.WriteString(text)
	for _, a := range actions {
		if a.URL != "" {
			b.WriteString("\n\n" + a.Label + ":\n" + a.URL)
			shown++
		}
	}
	return b.String(), shown
}

// isAddress reports whether text is an address and nothing else. It is false for a local part that needs quotes: such
// addresses are not in use, and parsers disagree on them.
func isAddress(text string) bool {
	parsed, err := netmail.ParseAddress(text)
	if err != nil || parsed.Name != "" || parsed.Address != text || len(text) > maxAddress || !isASCII(text) {
		return false
	}
	local, domain, _ := strings.Cut(text, "@")
	return len(local) <= maxLocal && domain != "" && !strings.ContainsAny(text, "\"<>(),;: \\")
}

func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

// Deliver implements Transport.
func (s *EmailSender) Deliver(ctx context.Context, t Task) Outcome {
	var work emailWork
	if err := json.Unmarshal(t.Work, &work); err != nil {
		return Unsent(Failed(ClassUnreadable, 0, ""))
	}
	data, err := s.compose(t, work)
	if err != nil {
		return Unsent(Failed(classMessage, 0, "the message can't be encoded"))
	}
	reply := s.o.Mailer.Send(ctx, s.from.Address, work.To, data)
	var secrets []string
	if s.o.Secrets != nil {
		secrets = s.o.Secrets()
	}
	o := emailOutcome(reply, work.Secret != "", secrets)
	if o.Kind == OK && t.Reference == "" {
		o.Reference = s.messageID(t)
	}
	return o
}

// messageID returns the Message-ID of a notification, without angle brackets.
func (s *EmailSender) messageID(t Task) string {
	_, domain, _ := strings.Cut(s.from.Address, "@")
	return t.Notification.String() + "@" + domain
}

// compose returns the mail. It is the same for each attempt, so that a receiver can detect a repeat by its
// Message-ID.
func (s *EmailSender) compose(t Task, work emailWork) ([]byte, error) {
	m := mail.NewMsg(mail.WithNoDefaultUserAgent(), mail.WithEncoding(mail.EncodingQP))
	if err := m.From(s.from.String()); err != nil {
		return nil, fmt.Errorf("sender: %w", err)
	}
	if err := m.To(work.To); err != nil {
		return nil, fmt.Errorf("recipient: %w", err)
	}
	m.Subject(work.Subject)
	m.SetDateWithValue(t.AcceptedAt.UTC())
	m.SetMessageIDWithValue(s.messageID(t))
	if t.Reference != "" { // An update belongs to the thread of the first mail.
		m.SetGenHeader(mail.HeaderInReplyTo, "<"+t.Reference+">")
		m.SetGenHeader(mail.HeaderReferences, "<"+t.Reference+">")
	}
	m.SetGenHeader("Auto-Submitted", "auto-generated")
	if link := s.unsubscribe(t, work.To); link != "" {
		m.SetGenHeader(mail.HeaderListUnsubscribe, "<"+link+">")
		m.SetGenHeader(mail.HeaderListUnsubscribePost, "List-Unsubscribe=One-Click")
	}
	m.SetBodyString(mail.TypeTextPlain, work.Text)
	var text bytes.Buffer
	if _, err := m.WriteTo(&text); err != nil {
		return nil, fmt.Errorf("write message: %w", err)
	}
	return text.Bytes(), nil
}

func (s *EmailSender) unsubscribe(t Task, to string) string {
	return strings.NewReplacer(
		"{organization_id}", url.QueryEscape(t.Organization),
		"{notification_id}", t.Notification.String(),
		"{email}", url.QueryEscape(to),
	).Replace(s.o.UnsubscribeURL)
}

// emailOutcome returns the outcome of a reply (RFC 5321, 4.2.1; RFC 3463). Of the reply to a private mail it keeps the
// codes only: the text may quote the mail, broken into lines and encoded in any way.
func emailOutcome(r smtp.Reply, private bool, secrets []string) Outcome {
	o := emailKind(r)
	switch {
	case o.Kind == OK:
	case private:
		o.Detail = r.Enhanced
	default:
		o.Detail = Detail(r.Enhanced+" "+r.Text, secrets...)
	}
	o.Untested = r.Unasked()
	return o
}

func emailKind(r smtp.Reply) Outcome {
	switch {
	case r.Sent():
		return Delivered(r.Code)
	case r.Unknown():
		return Lost(unanswered(r))
	case r.Denied():
		return Denied(ClassCredential, r.Code, false)
	case r.Code == 0 || r.Stage == smtp.StageConnect || r.Code == 421:
		o := Retry(unanswered(r), r.Code, 0)
		// All organizations use the server: a failure that may be due to one customer's address or text must not
		// count for the others.
		o.HostFailed = r.Stage < smtp.StageRecipient
		return o
	case !r.Permanent():
		return Retry(classTransient, r.Code, 0)
	case r.Stage == smtp.StageSender:
		return Failed(classSender, r.Code, "")
	case r.Stage == smtp.StageRecipient:
		return Failed(classRecipient, r.Code, "")
	}
	return Failed(classMessage, r.Code, "")
}

// unanswered returns the class of a mail that the server did not decide on.
func unanswered(r smtp.Reply) Class {
	switch {
	case r.Code != 0:
		return classTransient
	case r.TLS():
		return ClassTLS
	case r.Timeout():
		return ClassTimeout
	case r.Stage == smtp.StageConnect:
		return ClassConnect
	}
	return ClassReset
}
