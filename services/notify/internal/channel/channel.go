// Package channel owns the ways to reach people. A channel is offered when a
// Sender for it is registered; internal/app registers those that are configured,
// package send asks them what a message means for their channel.
package channel

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/inbox"
	"switchyard.dev/services/platform/apierr"
)

// Name is a channel's name on the wire.
type Name string

// The channels of the contract.
const (
	Slack   Name = "slack"
	Email   Name = "email"
	Webhook Name = "webhook"
	InApp   Name = "in_app"
	WebPush Name = "web_push"
)

// Reasons of refusals.
const (
	ReasonNotAccepted     apierr.Reason = "channel_not_accepted"
	ReasonNotConfigured   apierr.Reason = "channel_not_configured"
	ReasonWebPushDisabled apierr.Reason = "web_push_disabled"
)

// WebPushSetting switches web push on.
const WebPushSetting = "NOTIFY_WEB_PUSH_ENABLED"

// Message is what to tell, and where.
type Message struct {
	// ID of the notification.
	ID           uuid.UUID
	Organization string
	Subject      string
	Text         string
	Target       Target
}

// Target holds the fields of all channels; each reads its own.
type Target struct {
	// WebhookURL is Slack's incoming webhook, a credential; empty for the organization's own.
	WebhookURL string
	// URL is what a click opens, and what the webhook channel posts to.
	URL string
	// Payload is the JSON object that the webhook channel posts, empty for one of the message.
	Payload []byte
	// Email is an address.
	Email string
	// User to tell; empty for the whole organization.
	User string
	// Broadcast names every device of the organization.
	Broadcast bool
	// Subscription is a device that is not stored; nil for none.
	Subscription *Subscription
	// Site narrows devices to a part of the organization; empty for all.
	Site string
	// Data is a JSON object handed on untouched.
	Data []byte
	// TTL is how long a push service keeps the message; nil when not said.
	TTL *time.Duration
	// Urgency and Topic of a push (RFC 8030); empty when not said.
	Urgency, Topic string
}

// Subscription is a device as its browser describes it. All of it is a credential.
type Subscription struct {
	Endpoint string
	Keys     map[string]string
}

// Work is what accepting a message commits for one channel.
type Work struct {
	Channel Name
	// Record is stored in its inbox by the commit itself, which delivers it: in_app only.
	Record inbox.Draft
	// Body is what the channel's Transport needs, the same for all recipients. It
	// may hold a credential: it is stored sealed.
	Body []byte
	// Destination is the scheme, host and port that it goes to, for the breaker.
	Destination string
	// Lane is what shares one rate; empty for none.
	Lane string
	// Truncated: the text was shortened to what the channel takes.
	Truncated bool
	// Audience are the stored devices to tell; nil for the one recipient in Body.
	Audience *Audience
}

// Audience selects stored devices of an organization: those of a user, or, in a
// broadcast, all of them.
type Audience struct {
	User      string
	Broadcast bool
	// Site narrows it; empty for all.
	Site string
}

// Sender is one channel.
type Sender interface {
	// Channel is the name it sends for.
	Channel() Name
	// Prepare gives the work of a message, or the NotAccepted error that says
	// which field of its target the channel can't take.
	// Nothing is looked up over the network.
	Prepare(ctx context.Context, m Message) (Work, error)
}

// NotAccepted refuses a message because of a field of its target. The rule must
// not repeat the value, which may be a credential.
func NotAccepted(name Name, field, rule string) error {
	return apierr.New(apierr.KindInvalid, ReasonNotAccepted, fmt.Sprintf("channel %s: %s: %s", name, field, rule))
}

// Registry holds the senders of the configured channels.
type Registry struct {
	senders map[Name]Sender
	webPush bool
}

// NewRegistry returns a registry of senders. webPush reports whether the operator
// switched web push on; the refusal of the channel depends on it.
func NewRegistry(webPush bool, senders ...Sender) Registry {
	r := Registry{senders: make(map[Name]Sender, len(senders)), webPush: webPush}
	for _, s := range senders {
		r.senders[s.Channel()] = s
	}
	return r
}

// Prepare gives the work of each channel named, in their order, or the error of
// the first that refuses: nothing is half accepted.
func (r Registry) Prepare(ctx context.Context, names []Name, m Message) ([]Work, error) {
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
