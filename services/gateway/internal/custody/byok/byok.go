// Package byok keeps the credentials that organizations bring for their providers (bring your own key). A Config is
// what is stored: metadata and how the secret is kept (named by a reference, or sealed), never the plain secret. The
// Manager changes configurations. The Cache of each replica follows those changes and holds the secrets in use in
// memory, for package keyring. Package api calls the Manager; internal/postgres implements the Store.
package byok

import (
	"errors"
	"time"

	"switchyard.dev/services/platform/apierr"
)

// Reasons of refusals.
const (
	ReasonRawKeyRefused           apierr.Reason = "raw_key_refused"
	ReasonSealedCredentialInvalid apierr.Reason = "sealed_credential_invalid" //nolint:gosec // A reason, not a credential.
	ReasonSecretUnresolved        apierr.Reason = "secret_unresolved"
	ReasonProviderUnknown         apierr.Reason = "provider_unknown"
)

// ErrNone is the error if an organization has no active configuration for a provider.
var ErrNone = errors.New("no active configuration")

// Status is the status of a configuration; empty if it never existed.
type Status string

// The statuses. An erased configuration holds no credential and counts as absent everywhere.
const (
	StatusAbsent      Status = ""
	StatusActive      Status = "active"
	StatusDeactivated Status = "deactivated"
	StatusErased      Status = "erased"
)

// Custody is how a secret is kept.
type Custody string

// The custodies.
const (
	CustodyReference Custody = "secret_ref"
	CustodySealed    Custody = "sealed"
)

// Credential is a secret as it is stored, with what may be shown of it.
type Credential struct {
	Custody Custody
	// Reference names the secret, for CustodyReference.
	Reference string
	// KeyID and Ciphertext are the sealed secret, for CustodySealed.
	KeyID      string
	Ciphertext []byte
	// Hint is the end of the secret behind a mask; Fingerprint is its keyed hash.
	Hint, Fingerprint string
}

// Config is an organization's configuration for a provider. Zero times are unknown.
type Config struct {
	// Provider is a canonical name.
	Organization, Provider string
	Status                 Status
	Credential
	// Version is the version of the credential, starting at 1.
	Version int
	// Owner is the principal that is responsible for it, PreviousOwner the one before the last transfer.
	Owner, PreviousOwner                                                  string
	CreatedAt, UpdatedAt, LastUsedAt, RotatedAt, TransferredAt, ExpiresAt time.Time
	// RotationDays is the number of days after which the credential is due for rotation; 0 means never.
	RotationDays int
	// Revision is the topic version of the last change.
	Revision int64
}

// unusedAfter is how long a credential may be unused before it counts as stale.
const unusedAfter = 90 * 24 * time.Hour

// Unused returns the time at or before which a last use makes a credential stale.
func Unused(now time.Time) time.Time { return now.Add(-unusedAfter) }

// Cause is why a credential is stale.
type Cause string

// The causes.
const (
	CauseExpired  Cause = "expired"
	CauseRotation Cause = "rotation_overdue"
	CauseUnused   Cause = "unused"
)

// Staleness returns why the credential is stale, or nil if it is not. It changes nothing: a stale credential stays in
// use until it is replaced or removed.
func (c *Config) Staleness(now time.Time) []Cause {
	var causes []Cause
	if !c.ExpiresAt.IsZero() && !now.Before(c.ExpiresAt) {
		causes = append(causes, CauseExpired)
	}
	if due := c.RotationDue(); !due.IsZero() && !now.Before(due) {
		causes = append(causes, CauseRotation)
	}
	last := c.since()
	if c.LastUsedAt.After(last) {
		last = c.LastUsedAt
	}
	if !last.After(Unused(now)) {
		causes = append(causes, CauseUnused)
	}
	return causes
}

// RotationDue returns when the next rotation is due, or the zero time without a rotation rule.
func (c *Config) RotationDue() time.Time {
	if c.RotationDays == 0 {
		return time.Time{}
	}
	return c.since().Add(time.Duration(c.RotationDays) * 24 * time.Hour)
}

// since returns when the current credential was set.
func (c *Config) since() time.Time {
	if c.RotatedAt.IsZero() {
		return c.CreatedAt
	}
	return c.RotatedAt
}
