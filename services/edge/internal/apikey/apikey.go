// Package apikey owns the customers' product keys: their form, their storage
// as keyed hashes, and the check on every request. The api package calls
// Verifier for each request and Book for operators.
package apikey

import (
	"slices"
	"time"

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

// One text for whatever is wrong with a key: whoever tries keys must not learn
// which of them exist or once did.
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
}

// Live tells whether the key is good at a moment.
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
