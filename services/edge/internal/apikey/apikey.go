// Package apikey owns the customers' product keys: their form, their storage
// as keyed hashes, and the check on every request. The api package calls
// Verifier for each request and Manager for operators.
package apikey

import (
	"cmp"
	"slices"
	"time"

	"switchyard.dev/services/edge/internal/limit"
	"switchyard.dev/services/platform/apierr"
)

// Permission is what a key allows on the routes of its product.
type Permission string

// The permissions. Neither includes the other.
const (
	Read  Permission = "read"
	Write Permission = "write"
)

// Reasons of refused keys.
const (
	ReasonInvalidKey        apierr.Reason = "invalid_key"
	ReasonProductNotAllowed apierr.Reason = "product_not_allowed"
	ReasonPermissionDenied  apierr.Reason = "permission_denied"
)

// Errors of refused keys. ErrInvalid has one text for everything that can be wrong
// with a key, so that guessing keys doesn't reveal which of them exist or once did.
var (
	ErrInvalid = apierr.New(apierr.KindUnauthenticated, ReasonInvalidKey,
		"a valid API key is required in the Authorization header, after Bearer")
	ErrProduct = apierr.New(apierr.KindForbidden, ReasonProductNotAllowed,
		"the product of this API key does not include this operation")
	ErrPermission = apierr.New(apierr.KindForbidden, ReasonPermissionDenied,
		"this API key lacks the permission that this operation needs")
)

// Key is what is known of a product key; the key itself is known to its holder
// alone.
type Key struct {
	ID           string
	Organization string
	Product      string
	Permissions  []Permission
	Name         string
	Environment  string
	CreatedAt    time.Time
	// ExpiresAt, RevokedAt and LastUsedAt are nil for never. LastUsedAt is exact
	// to a minute or so.
	ExpiresAt, RevokedAt, LastUsedAt *time.Time
	// Limit is the key's own, OrganizationLimit its organization's; the zero Limit
	// leaves it to the edge's settings.
	Limit, OrganizationLimit limit.Limit
	// Origin is the first key of the chain of rotations that this one is in, empty
	// for the first itself; ReplacedBy the next one, if there is one.
	Origin, ReplacedBy string
	// Digest is what the key is found by, Buckets what a request with it is taken
	// from. A Verifier fills them in.
	Digest  Digest
	Buckets Buckets
}

// Buckets are the rate limits of a key and of its organization.
type Buckets struct{ Key, Organization limit.Bucket }

// buckets of a key where the edge's settings bound what has no limit of its own.
// A key shares the bucket with those it replaces, or a rotation would double it.
func (k *Key) buckets(defaults Limits) Buckets {
	origin := cmp.Or(k.Origin, k.ID)
	return Buckets{
		Key:          limit.Bucket{Name: "key " + origin, Limit: cmp.Or(k.Limit, defaults.Key)},
		Organization: limit.Bucket{Name: "organization " + k.Organization, Limit: cmp.Or(k.OrganizationLimit, defaults.Organization)},
	}
}

// Limits are those of keys and organizations that have none of their own.
type Limits struct{ Key, Organization limit.Limit }

// Live reports whether the key is good at a moment.
func (k *Key) Live(now time.Time) bool {
	return k.RevokedAt == nil && (k.ExpiresAt == nil || now.Before(*k.ExpiresAt))
}

// May decides whether the key opens an operation of the given products that
// needs a permission: ErrProduct, then ErrPermission, or nil.
func (k *Key) May(products []string, need Permission) error {
	switch {
	case !slices.Contains(products, k.Product):
		return ErrProduct
	case !slices.Contains(k.Permissions, need):
		return ErrPermission
	}
	return nil
}
