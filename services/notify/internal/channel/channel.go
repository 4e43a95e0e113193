// Package channel owns the ways to reach people. A channel is available when a Sender for it is registered;
// internal/app registers the configured ones. Package send asks them for the work that a message means.
package channel

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/inbox"
	"switchyard.dev/services/platform/apierr"
)

// Name is the name of a channel on the wire.
type Name string

// The channels of the contract.
const (
	Slack   Name = "slack"
	Email   Name = "email"
	Webhook Name = "webhook"
	InApp   Name = "in_app"
	WebPush Name = "web_push"
)

// The reasons of refusals.
const (
	ReasonNotAccepted     apierr.Reason = "channel_not_accepted"
	ReasonNotConfigured   apierr.Reason = "channel_not_configured"
	ReasonWebPushDisabled apierr.Reason = "web_push_disabled"
)

// WebPushSetting is the setting that enables web push.
const WebPushSetting = "NOTIFY_WEB_PUSH_ENABLED"

// Message is a notification with its target.
type Message struct {
	// ID is the id of the notification.
	ID           uuid.UUID
	Organization string
	Subject      string
	Text         string
	// Actions are its buttons.
	Actions []inbox.Action
	Target  Target
	// Secret is for the message's one recipient; empty for none. {secret} is its placeholder in the URLs and the data.
	// A Sender prepares the Private message if it sends only to that recipient, otherwise the Public one.
	Secret string
	// Updates is the notification that the message updates; the nil id if it is no update.
	Updates uuid.UUID
}

// First returns the id of the notification that the message belongs to: its own, or that which it updates.
func (m Message) First() uuid.UUID {
	if m.Updates != uuid.Nil {
		return m.Updates
	}
	return m.ID
}

// Target holds the target fields of all channels; each channel reads its own. Its JSON is stored, sealed, to make
// updates with.
type Target struct {
	// WebhookURL is Slack's incoming webhook, a credential; empty for the organization's own.
	WebhookURL string `json:"webhook_url,omitempty"`
	// SlackChannel is where the organization's app for Slack posts; empty for an incoming webhook.
	SlackChannel string `json:"slack_channel,omitempty"`
	// URL is what a click opens, and what the webhook channel posts to.
	URL string `json:"url,omitempty"`
	// Payload is the JSON object that the webhook channel posts; empty for the default payload.
	Payload []byte `json:"-"`
	// Email is the recipient's address.
	Email string `json:"email,omitempty"`
	// User is the recipient; empty for the whole organization.
	User string `json:"user,omitempty"`
	// Broadcast selects every device of the organization.
	Broadcast bool `json:"broadcast,omitempty"`
	// Subscription is a device that is not registered; nil for none.
	Subscription *Subscription `json:"subscription,omitempty"`
	// Site narrows devices to a part of the organization; empty for all.
	Site string `json:"site,omitempty"`
	// Data is a JSON object that is passed on unchanged.
	Data []byte `json:"data,omitempty"`
	// TTL is how long a push service keeps the message; nil for the default.
	TTL *time.Duration `json:"ttl,omitempty"`
	// Urgency and Topic of a push (RFC 8030); empty for none.
	Urgency string `json:"urgency,omitempty"`
	Topic   string `json:"topic,omitempty"`
}

// Subscription is a device as its browser describes it. All of it is a credential.
type Subscription struct {
	Endpoint string            `json:"endpoint"`
	Keys     map[string]string `json:"keys"`
}

// Work is what accepting a message stores for one channel.
type Work struct {
	Channel Name
	// Record is stored in its inbox by the same transaction, which delivers it: in_app only.
	Record inbox.Draft
	// Body is what the channel's Transport needs, the same for all recipients. It may hold a credential, so it is
	// stored sealed.
	Body []byte
	// Destination is the scheme, host and port of the receiver, for the breaker.
	Destination string
	// Lane identifies the URL or channel at the destination. Messages of one lane share a circuit and, if the channel
	// has one, a rate limit. Lane is empty for registered devices, and if the destination is the operator's own server.
	Lane string
	// Truncated reports whether the text was shortened to the channel's limit.
	Truncated bool
	// ActionsShown is how many of the message's actions the channel shows.
	ActionsShown int
	// Audience selects registered devices; nil for the one recipient in Body.
	Audience *Audience
}

// Audience selects registered devices of an organization: those of a user or, for a broadcast, all of them.
type Audience struct {
	User      string
	Broadcast bool
	// Site narrows the selection; empty for all.
	Site string
}

// Sender prepares the work of one channel.
type Sender interface {
	// Channel returns the name of the channel.
	Channel() Name
	// Prepare returns the work of a message, or the NotAccepted error that names the field of its target which the
	// channel cannot use. It makes no network calls.
	Prepare(ctx context.Context, m Message) (Work, error)
}

// NotAccepted returns the refusal of a message because of a target field. The rule must not repeat the value, which
// may be a credential.
func NotAccepted(name Name, field, rule string) error {
	return apierr.New(apierr.KindInvalid, ReasonNotAccepted, fmt.Sprintf("channel %s: %s: %s", name, field, rule))
}

// Registry holds the senders of the configured channels.
type Registry struct {
	senders map[Name]Sender
	webPush bool
}

// NewRegistry returns a registry of senders. webPush reports whether web push is enabled; the refusal of the channel
// depends on it.
func NewRegistry(webPush bool, senders ...Sender) Registry {
	r := Registry{senders: make(map[Name]Sender, len(senders)), webPush: webPush}
	for _, s := range senders {
		r.senders[s.Channel()] = s
	}
	return r
}

// Prepare returns the work of each named channel, in order, or the error of the first one that refuses: a message is
// accepted for all or none.
func (r Registry) Prepare(ctx context.Context, names []Name, m Message) ([]Work, error) {
	if err := checkActions(m.Public().Actions); err != nil {
		return nil, err
	}
	works := make([]Work, 0, len(names))
	for _, name := range names {
		sender, ok := r.senders[name]
		if !ok {
			return nil, r.missing(name)
		}
		work, err := sender.Prepare(ctx, m)
		if err != nil {
			return nil, fmt.Errorf("prepare %s: %w", name, err)
		}
		works = append(works, work)
	}
	return works, nil
}

func (r Registry) missing(name Name) error {
	reason, text := ReasonNotConfigured, "this service has no sender for it configured"
	if name == WebPush && !r.webPush {
		reason, text = ReasonWebPushDisabled, "web push is off; "+WebPushSetting+"=true switches it on"
	}
	return apierr.New(apierr.KindInvalid, reason, fmt.Sprintf("channel %s: %s: %s", name, reason, text))
}
