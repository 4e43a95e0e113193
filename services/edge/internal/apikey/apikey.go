// Package apikey owns the customers' product keys: their form, their storage as keyed hashes, and their verification
// on every request. Package api calls Verifier for each request and Manager for operators.
package apikey

import (
	"cmp"
	"time"

	"switchyard.dev/services/edge/internal/limit"
	"switchyard.dev/services/platform/apierr"
)

// Permission is what a key allows on the routes of its product: Read, Write, a scope such as "webhooks:endpoints:write",
// or most scopes of an area such as "webhooks:*".
type Permission string

// The permissions that hold for all routes of a product. Neither includes the other.
const (
	Read  Permission = "read"
	Write Permission = "write"
)

// The reasons of refused keys.
const (
	ReasonInvalidKey        apierr.Reason = "invalid_key"
	ReasonProductNotAllowed apierr.Reason = "product_not_allowed"
	ReasonPermissionDenied  apierr.Reason = "permission_denied"
)

// ErrInvalid has the same text for every invalid key, so that guessing does not reveal which keys exist or existed.
var ErrInvalid = apierr.New(apierr.KindUnauthenticated, ReasonInvalidKey,
	"a valid API key is required in the Authorization header, after Bearer")

// Key is the metadata of a product key; only its holder has the key itself.
type Key struct {
	ID           string
	Organization string
	Product      string
	Permissions  []Permission
	Name         string
	Environment  string
	CreatedAt    time.Time
	// ExpiresAt, RevokedAt and LastUsedAt are nil for never. LastUsedAt is accurate to about a minute.
	ExpiresAt, RevokedAt, LastUsedAt *time.Time
	// Limit is the key's own, OrganizationLimit its organization's; the zero Limit means the edge's setting.
	Limit, OrganizationLimit limit.Limit
	Terms                    Terms
	// Plan is the key's own plan, OrganizationPlan its organization's; empty for none.
	Plan, OrganizationPlan string
	// Origin is the first key of the chain of rotations, empty for the first itself; ReplacedBy is the next one, if
	// any.
	Origin, ReplacedBy string
	// Digest is the lookup key, Grants the set of Permissions, Buckets the rate limits of a request, and TermsHeader its
	// caller.HeaderKeyTerms, empty without terms. A Verifier fills them in.
	Digest      Digest
	Grants      Grants
	Buckets     Buckets
	TermsHeader string
}

// Chain returns the id of the first key of the chain of rotations. Limits, terms and quotas count under it, or a rotation
// would double them.
func (k *Key) Chain() string { return cmp.Or(k.Origin, k.ID) }

// Buckets holds the rate limits of a key and of its organization.
type Buckets struct{ Key, Organization limit.Bucket }

// buckets returns the buckets of a key; defaults apply where there is no own limit.
func (k *Key) buckets(defaults Limits) Buckets {
	return Buckets{
		Key:          limit.Bucket{Name: "key " + k.Chain(), Limit: cmp.Or(k.Limit, defaults.Key)},
		Organization: limit.Bucket{Name: "organization " + k.Organization, Limit: cmp.Or(k.OrganizationLimit, defaults.Organization)},
	}
}

// Limits holds the default limits of keys and organizations.
type Limits struct{ Key, Organization limit.Limit }

// Live reports whether the key is valid at a moment.
func (k *Key) Live(now time.Time) bool {
	return k.RevokedAt == nil && (k.ExpiresAt == nil || now.Before(*k.ExpiresAt))
}
