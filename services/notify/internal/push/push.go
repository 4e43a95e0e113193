// Package push is the web_push channel: the registered devices, the content of a message, each push, and the pages of
// a broadcast. internal/api calls its Registry; internal/app registers its Sender and its Transport with packages
// send and dispatch; internal/postgres stores its devices.
package push

import (
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/platform/apierr"
)

// The reasons of refusals.
const (
	ReasonPlatformReserved apierr.Reason = "platform_reserved"
	ReasonSubscription     apierr.Reason = "subscription_invalid"
	ReasonTooLarge         apierr.Reason = "push_too_large"
)

// ErrNotFound reports that a device does not exist or belongs to another organization or user.
var ErrNotFound = apierr.NotFound("subscription")

// Status reports whether a device receives pushes.
type Status string

// The states of a device.
const (
	Active Status = "active"
	// Quarantined means that the push service reported a subscription with another key. Nothing is sent until the
	// device registers again.
	Quarantined Status = "quarantined"
)

// Device is a registered device, without the data needed to push to it.
type Device struct {
	ID           uuid.UUID
	Organization string
	// User is empty for a device of no user, Site for one of no particular part of the organization.
	User, Site string
	Platform   string
	// Origin is that of its push service.
	Origin string
	// KeyID is the id of the VAPID key that its browser subscribed with.
	KeyID     string
	Status    Status
	ExpiresAt *time.Time
	// ByUser reports whether its user registered it with the user's own token or session. Only such a device gets the
	// secrets of messages.
	ByUser bool
	// LastDeliveredAt is when a push was last accepted, to the minute; nil for never.
	LastDeliveredAt      *time.Time
	CreatedAt, UpdatedAt time.Time
}

// Registration is a device to be stored.
type Registration struct {
	Organization, User, Site string
	Origin                   string
	// Digest of the endpoint identifies the device.
	Digest []byte
	// Sealed holds its endpoint and keys, encrypted.
	Sealed    []byte
	KeyID     string
	ExpiresAt *time.Time
	ByUser    bool
}

// DeviceQuery is a request for a page of devices, newest first.
type DeviceQuery struct {
	Organization string
	// Every selects all organizations; then Organization is empty.
	Every bool
	// User and Site narrow the page unless they are empty.
	User, Site string
	// Before is the id that the page is below; the nil id begins at the newest.
	Before uuid.UUID
	Limit  int
}

// Target identifies a device within its caller's scope.
type Target struct {
	ID           uuid.UUID
	Organization string
	// User, when not empty, must be the device's.
	User string
}

// Shown is an entry of the history: what one send showed to a user, or to all users for a broadcast.
type Shown struct {
	// Seq is its position in the history.
	Seq       int64
	Send      uuid.UUID
	User      string
	Site      string
	Title     string
	Body      string
	URL       string
	Data      []byte
	Status    string
	Delivered int
	CreatedAt time.Time
}

// HistoryQuery is a request for a page of the history, newest first.
type HistoryQuery struct {
	Organization string
	// User and Site narrow the page unless they are empty.
	User, Site string
	// Before is the Seq that the page is below; zero begins at the newest.
	Before int64
	Limit  int
}
