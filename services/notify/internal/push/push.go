// Package push is the web_push channel: the devices that can be pushed to, what
// a message becomes for them, each push, and the pages of a broadcast.
// internal/api calls its Registry; internal/app registers its Sender and its
// Transport with packages send and dispatch; internal/postgres keeps its devices.
package push

import (
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/platform/apierr"
)

// Reasons of refusals.
const (
	ReasonPlatformReserved apierr.Reason = "platform_reserved"
	ReasonSubscription     apierr.Reason = "subscription_invalid"
	ReasonTooLarge         apierr.Reason = "push_too_large"
)

// ErrNotFound says that a device doesn't exist or belongs to another organization or user.
var ErrNotFound = apierr.NotFound("subscription")

// Status says whether a device is pushed to.
type Status string

// The states of a device.
const (
	Active Status = "active"
	// Quarantined: its push service said that it subscribed with another key.
	// Nothing is sent until it registers again.
	Quarantined Status = "quarantined"
)

// Device is a registered device, without what would let anyone push to it.
type Device struct {
	ID           uuid.UUID
	Organization string
	// User is empty for a device of no user, Site for one of no particular part of
	// the organization.
	User, Site string
	Platform   string
	// Origin is its push service.
	Origin string
	// KeyID names the VAPID key that its browser subscribed with.
	KeyID     string
	Status    Status
	ExpiresAt *time.Time
	// LastDeliveredAt is when a push was last taken, to the minute; nil for never.
	LastDeliveredAt      *time.Time
	CreatedAt, UpdatedAt time.Time
}

// Registration is a device as it is to be stored.
type Registration struct {
	Organization, User, Site string
	Origin                   string
	// Digest of the endpoint is what makes it one device.
	Digest []byte
	// Sealed are its endpoint and keys.
	Sealed    []byte
	KeyID     string
	ExpiresAt *time.Time
}

// DeviceQuery asks for a page of devices, newest first.
type DeviceQuery struct {
	Organization string
	// User and Site narrow the page where they are not empty.
	User, Site string
	// Before is the id that the page is below; the nil id begins at the newest.
	Before uuid.UUID
	Limit  int
}

// Target names a device as its caller sees it.
type Target struct {
	ID           uuid.UUID
	Organization string
	// User, when not empty, must be the device's.
	User string
}

// Shown is what one send showed to a user, or to all users if it was a broadcast.
type Shown struct {
	// Seq places it in the history.
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

// HistoryQuery asks for a page of the history, newest first.
type HistoryQuery struct {
	Organization string
	// User and Site narrow the page where they are not empty.
	User, Site string
	// Before is the Seq that the page is below; zero begins at the newest.
	Before int64
	Limit  int
}
