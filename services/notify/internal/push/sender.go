package push

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/webpush"
	"switchyard.dev/services/platform/apierr"
)

// DefaultTTL is how long push services keep a message without a TTL. It is not zero, which some of them refuse.
const DefaultTTL = 24 * time.Hour

// Limits bounds a push's content.
type Limits struct {
	// Content is the limit in bytes of JSON, at most webpush.MaxPlaintext.
	Content int
	// Refuse makes larger messages fail, instead of shortening their text.
	Refuse bool
}

// Sender prepares messages for the web_push channel.
type Sender struct {
	hosts  webpush.Hosts
	keys   Keys
	limits Limits
}

// NewSender returns the channel for devices on the push services of hosts.
func NewSender(hosts webpush.Hosts, keys Keys, limits Limits) *Sender {
	return &Sender{hosts, keys, limits}
}

// Channel returns WebPush.
func (*Sender) Channel() channel.Name { return channel.WebPush }

func refuse(field, rule string) error { return channel.NotAccepted(channel.WebPush, field, rule) }

// tooLarge returns the refusal of a message that does not fit.
func (s *Sender) tooLarge(what string) error {
	return apierr.New(apierr.KindTooLarge, ReasonTooLarge,
		fmt.Sprintf("channel %s: %s: a push holds %d bytes of JSON", channel.WebPush, what, s.limits.Content))
}

// Prepare returns the work of a message: its content, once for all devices, and its audience.
func (s *Sender) Prepare(_ context.Context, m channel.Message) (channel.Work, error) {
	private, secret := m.Private(), m.Secret != "" && m.Target.User != ""
	m = m.Public()
	if err := s.check(m.Target); err != nil {
		return channel.Work{}, err
	}
	fitted, err := s.fit(m)
	if err != nil {
		return channel.Work{}, err
	}
	w := work{
		Content: fitted.Content, User: m.Target.User, TTL: int(DefaultTTL.Seconds()), Urgency: string(webpush.UrgencyNormal),
		Topic: topic(m), Tag: m.Target.Topic, Broadcast: m.Target.Broadcast,
	}
	if secret {
		own, err := s.fit(private)
		if err != nil {
			return channel.Work{}, err
		}
		w.Private = own.Content
	}
	if w.Tag == "" && m.Updates != uuid.Nil {
		w.Tag = m.Updates.String()
	}
	if m.Target.TTL != nil {
		w.TTL = int(m.Target.TTL.Seconds())
	}
	if m.Target.Urgency != "" {
		w.Urgency = m.Target.Urgency
	}
	out := channel.Work{Channel: channel.WebPush, Truncated: fitted.Shortened, ActionsShown: fitted.Actions}
	if device := m.Target.Subscription; device != nil {
		subscription, err := Subscribe(s.hosts, device.Endpoint, device.Keys)
		if err != nil {
			return channel.Work{}, refuse("target.subscription", err.Error())
		}
		w.Subscription, w.KeyID = subscription.Bytes(), s.keys.Keys().Current().ID()
		digest := subscription.Endpoint().Digest()
		out.Destination, out.Lane = subscription.Endpoint().Origin(), hex.EncodeToString(digest[:16])
	} else {
		out.Audience = &channel.Audience{User: m.Target.User, Broadcast: m.Target.Broadcast, Site: m.Target.Site}
	}
	out.Body = w.bytes()
	return out, nil
}

// fit returns the content of a message, or an error if the message is too large.
func (s *Sender) fit(m channel.Message) (Fitted, error) {
	fitted, err := NewContent(m, s.limits.Content)
	switch {
	case err != nil:
		return fitted, s.tooLarge("target.data: with subject and target.url leaves no room for the text")
	case fitted.Shortened && s.limits.Refuse:
		return fitted, s.tooLarge("message: is too long")
	}
	return fitted, nil
}

// topic returns the topic of a message on the wire; empty for none. A caller's topic is hashed with the organization
// and the site, so that organizations and sites don't replace each other's messages on one device. A message that is
// likely to be updated, and its updates, share a topic made from its id, so that a device that was offline gets only
// the last. Every topic has 22 characters of base64url, because Apple refuses topics that it can't decode.
func topic(m channel.Message) string {
	switch {
	case m.Target.Topic != "":
		sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", m.Organization, m.Target.Site, m.Target.Topic))
		return base64.RawURLEncoding.EncodeToString(sum[:16])
	case m.Updates == uuid.Nil && len(m.Actions) == 0:
		return ""
	}
	first := m.First()
	return base64.RawURLEncoding.EncodeToString(first[:])
}

// check validates the target's fields.
func (s *Sender) check(t channel.Target) error {
	selectors := 0
	for _, given := range []bool{t.User != "", t.Broadcast, t.Subscription != nil} {
		if given {
			selectors++
		}
	}
	if selectors != 1 {
		return refuse("target", "must have exactly one of user_id, broadcast and subscription")
	}
	if rule := channel.CheckLink(t.URL); rule != "" {
		return refuse("target.url", rule)
	}
	if rule := channel.CheckData(t.Data); rule != "" {
		return refuse("target.data", rule)
	}
	return nil
}
