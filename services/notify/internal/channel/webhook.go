package channel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/inbox"
	"switchyard.dev/services/platform/jsoncheck"
	"switchyard.dev/services/platform/netguard"
)

// maxPayload bounds a webhook's body, in bytes.
const maxPayload = 512 << 10

// eventType is the event type of webhooks for notifications.
const eventType = "notification"

// URLChecker parses a URL from a request and refuses targets that must not be called.
type URLChecker interface {
	CheckURL(raw string) (*url.URL, error)
}

// webhookWork is the stored form of a message.
type webhookWork struct {
	URL     string          `json:"url"`
	Payload json.RawMessage `json:"payload"`
}

// notice is the default payload.
type notice struct {
	NotificationID string          `json:"notification_id"`
	Updates        string          `json:"updates_notification_id,omitempty"`
	Subject        string          `json:"subject"`
	Message        string          `json:"message"`
	URL            string          `json:"url"`
	Data           json.RawMessage `json:"data"`
	Actions        []inbox.Action  `json:"actions,omitempty"`
}

// prepareWebhook checks a message's URL and payload, and encodes them. A payload of the caller's own shows no actions.
func prepareWebhook(checker URLChecker, m Message) (work Work, target *url.URL, err error) {
	work.Channel, m = Webhook, m.Public()
	if m.Target.URL == "" {
		return work, nil, NotAccepted(Webhook, "target.url", "required")
	}
	target, err = checker.CheckURL(m.Target.URL)
	if refusal, refused := errors.AsType[*netguard.Refusal](err); refused {
		return work, nil, NotAccepted(Webhook, "target.url", refusal.Text+" ("+refusal.Rule+")")
	}
	if err != nil {
		return work, nil, fmt.Errorf("check webhook URL: %w", err)
	}
	payload := m.Target.Payload
	if rule := checkPayload(payload); rule != "" {
		return work, nil, NotAccepted(Webhook, "target.payload", rule)
	}
	if len(payload) == 0 {
		if payload, err = defaultPayload(m); err != nil {
			return work, nil, err
		}
		work.ActionsShown = len(m.Actions)
	}
	work.Body, err = encodeWebhook(target.String(), payload)
	return work, target, err
}

// encodeWebhook stores the payload byte for byte; json.Marshal of a raw message would compact it.
func encodeWebhook(target string, payload []byte) ([]byte, error) {
	quoted, err := json.Marshal(target)
	if err != nil {
		return nil, fmt.Errorf("encode webhook work: %w", err)
	}
	return bytes.Join([][]byte{[]byte(`{"url":`), quoted, []byte(`,"payload":`), payload, []byte("}")}, nil), nil
}

func defaultPayload(m Message) ([]byte, error) {
	if rule := CheckData(m.Target.Data); rule != "" {
		return nil, NotAccepted(Webhook, "target.data", rule)
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	n := notice{
		NotificationID: m.ID.String(), Subject: m.Subject, Message: m.Text, URL: m.Target.URL, Data: m.Target.Data, Actions: m.Actions,
	}
	if m.Updates != uuid.Nil {
		n.Updates = m.Updates.String()
	}
	if err := encoder.Encode(n); err != nil {
		return nil, fmt.Errorf("encode webhook payload: %w", err)
	}
	return bytes.TrimSpace(text.Bytes()), nil
}

// checkPayload returns the rule that a payload violates, or "".
func checkPayload(payload []byte) string {
	switch {
	case len(payload) == 0:
		return ""
	case len(payload) > maxPayload:
		return fmt.Sprintf("must not be larger than %d bytes", maxPayload)
	}
	return jsoncheck.ObjectRule(payload)
}

// DirectOptions configures a DirectWebhook.
type DirectOptions struct {
	Checker URLChecker
	Poster  *Poster
	// Secrets holds the signing secrets by organization.
	Secrets Directory
	Now     func() time.Time
}

// DirectWebhook is the webhook channel without webhook egress: it posts directly, with the same signatures and guard.
// It is Sender and Transport.
type DirectWebhook struct{ o DirectOptions }

// NewDirectWebhook returns the channel.
func NewDirectWebhook(o DirectOptions) *DirectWebhook { return &DirectWebhook{o} }

// Channel returns Webhook.
func (*DirectWebhook) Channel() Name { return Webhook }

// Prepare implements Sender. It refuses organizations without a secret: their receivers could not verify the sender.
func (d *DirectWebhook) Prepare(_ context.Context, m Message) (Work, error) {
	work, target, err := prepareWebhook(d.o.Checker, m)
	if err != nil {
		return Work{}, err
	}
	if _, err := d.o.Secrets.Of(m.Organization); err != nil {
		return Work{}, NotAccepted(Webhook, "organization_id", "has no signing secret to sign webhooks with")
	}
	work.Destination, work.Lane = target.Scheme+"://"+target.Host, laneOf(target.EscapedPath())
	return work, nil
}

// Deliver implements Transport.
func (d *DirectWebhook) Deliver(ctx context.Context, t Task) Outcome {
	var work webhookWork
	if err := json.Unmarshal(t.Work, &work); err != nil {
		return Unsent(Failed(ClassUnreadable, 0, ""))
	}
	signing, err := d.o.Secrets.Of(t.Organization)
	if err != nil {
		return Unsent(Retry(ClassMissing, 0, time.Minute))
	}
	header := signed(signing, t, d.o.Now(), work.Payload)
	answer := d.o.Poster.Post(ctx, work.URL, header, work.Payload)
	outcome := answer.Outcome()
	if outcome.Kind != OK {
		key := signing.Reveal()
		outcome.Detail = Detail(string(answer.Body), key, strings.TrimPrefix(key, standardPrefix), work.URL)
	}
	return outcome
}
