package push

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"switchyard.dev/services/notify/internal/webpush"
	"switchyard.dev/services/platform/apierr"
)

// Store persists devices.
type Store interface {
	// Register stores a device, or renews the one with the same digest. created reports which.
	Register(ctx context.Context, r Registration) (device Device, created bool, err error)
	// Devices returns a page, and whether more follow.
	Devices(ctx context.Context, q DeviceQuery) (page []Device, more bool, err error)
	// Delete removes a device, or returns ErrNotFound.
	Delete(ctx context.Context, t Target) error
	// History returns a page of the history, and whether more follows.
	History(ctx context.Context, q HistoryQuery) (page []Shown, more bool, err error)
}

// Box encrypts the endpoint and keys of a device, bound to the device.
type Box interface {
	Seal(text []byte, owner string) []byte
	Open(sealed []byte, owner string) ([]byte, error)
}

// Keys returns the current VAPID keys.
type Keys interface{ Keys() webpush.Keys }

// Registry registers devices.
type Registry struct {
	Store

	hosts webpush.Hosts
	keys  Keys
	box   Box
}

// NewRegistry returns the registry of devices on the push services of hosts.
func NewRegistry(store Store, hosts webpush.Hosts, keys Keys, box Box) *Registry {
	return &Registry{store, hosts, keys, box}
}

// Enrolment is the request of a page to register its browser.
type Enrolment struct {
	Organization, User, Site string
	Platform                 string
	Endpoint                 string
	Keys                     map[string]string
	// KeyID is the id of the VAPID key it subscribed with; empty for the current one.
	KeyID     string
	ExpiresAt *time.Time
	// ByUser reports whether the user registers it with the user's own token or session.
	ByUser bool
}

// platformWeb is the only supported platform.
const platformWeb = "web"

// Enrol registers a browser, or renews its registration.
func (r *Registry) Enrol(ctx context.Context, e Enrolment) (Device, bool, error) {
	if e.Platform != "" && e.Platform != platformWeb {
		return Device{}, false, apierr.New(apierr.KindInvalid, ReasonPlatformReserved,
			"platform: platform_reserved: "+e.Platform+" is reserved, only web is served")
	}
	key, err := r.key(e.KeyID)
	if err != nil {
		return Device{}, false, err
	}
	subscription, err := Subscribe(r.hosts, e.Endpoint, e.Keys)
	if err != nil {
		return Device{}, false, apierr.New(apierr.KindInvalid, ReasonSubscription, "subscription."+err.Error())
	}
	digest := subscription.Endpoint().Digest()
	device, created, err := r.Register(ctx, Registration{
		Organization: e.Organization, User: e.User, Site: e.Site,
		Origin: subscription.Endpoint().Origin(), Digest: digest[:],
		Sealed: r.box.Seal(subscription.Bytes(), owner(e.Organization, digest[:])),
		KeyID:  key.ID(), ExpiresAt: e.ExpiresAt, ByUser: e.ByUser,
	})
	if err != nil {
		return Device{}, false, fmt.Errorf("register device: %w", err)
	}
	return device, created, nil
}

// key returns the VAPID key that a browser reports to have subscribed with.
func (r *Registry) key(id string) (webpush.Key, error) {
	keys := r.keys.Keys()
	if id == "" {
		return keys.Current(), nil
	}
	key, ok := keys.Find(id)
	if !ok {
		return webpush.Key{}, apierr.Invalid("vapid_key_id", "names no key of this service; subscribe again with the key of /v1/push/vapid-public-key")
	}
	return key, nil
}

// CurrentKey returns the VAPID key for new subscriptions.
func (r *Registry) CurrentKey() webpush.Key { return r.keys.Keys().Current() }

// Subscribe validates a browser's subscription. The error names the field and the rule, and never repeats a value.
func Subscribe(hosts webpush.Hosts, endpoint string, keys map[string]string) (webpush.Subscription, error) {
	at, err := hosts.Parse(endpoint)
	if err != nil {
		return webpush.Subscription{}, fmt.Errorf("endpoint: %w", err)
	}
	for _, name := range []string{"p256dh", "auth"} {
		if keys[name] == "" {
			return webpush.Subscription{}, errors.New("keys." + name + ": is required")
		}
	}
	subscription, err := webpush.NewSubscription(at, keys["p256dh"], keys["auth"])
	if e, ok := errors.AsType[*webpush.KeyError](err); ok {
		return webpush.Subscription{}, fmt.Errorf("keys.%s: %s", e.Key, e.Rule)
	}
	return subscription, err
}

// owner returns what the sealed keys of a device are bound to.
func owner(organization string, digest []byte) string {
	return "push_subscription:" + organization + ":" + hex.EncodeToString(digest)
}
