package apikey

import (
	"slices"
	"strings"

	"switchyard.dev/services/platform/apierr"
)

// The areas of scopes, their first part.
const (
	areaAI            = "ai"
	areaAlerts        = "alerts"
	areaNotifications = "notifications"
	areaWebhooks      = "webhooks"
)

// explicit are the ends of scopes that nothing but the scope itself grants: neither Write nor the whole area. A key that
// was made before such a scope existed must not gain it; who names the approvers decides, too.
var explicit = []string{":decide", ":mint", ":approvers:write"}

// MintTokens is the scope that mints and revokes tokens of end users.
const MintTokens Permission = "notifications:tokens:mint"

// DecideOwn is the scope with which the user of a token decides on approvals of the user's groups. A key can give it to
// tokens, but can't decide with it.
const DecideOwn Permission = "ai:decisions:decide"

// whole ends the name of all scopes of an area, as in "webhooks:*".
const whole = ":*"

// scopes are all scopes, area:resource:action, in the order of their bits. Each has a route.
var scopes = []Permission{
	"ai:approvals:decide", "ai:approvals:read", "ai:approvals:write",
	"ai:approvers:read", "ai:approvers:write",
	"ai:audio:invoke",
	"ai:batches:read", "ai:batches:write",
	"ai:chat:invoke",
	DecideOwn,
	"ai:embeddings:invoke",
	"ai:files:read", "ai:files:write",
	"ai:images:invoke",
	"ai:models:read",
	"ai:moderations:invoke",
	"ai:rerank:invoke",
	"ai:responses:read", "ai:responses:write",
	"ai:runs:read", "ai:runs:write",
	"ai:sessions:read", "ai:sessions:write",
	"ai:tools:invoke",
	"ai:usage:read",
	"ai:vision:invoke",
	"alerts:rules:read", "alerts:rules:write",
	"notifications:inbox:read", "notifications:inbox:write",
	"notifications:push:read", "notifications:push:write",
	"notifications:sends:read", "notifications:sends:write",
	MintTokens,
	"webhooks:deliveries:read", "webhooks:deliveries:write",
	"webhooks:endpoints:read", "webhooks:endpoints:write",
	"webhooks:event_types:read", "webhooks:event_types:write",
	"webhooks:events:write",
	"webhooks:replays:read", "webhooks:replays:write",
}

// Scopes returns all scopes, sorted.
func Scopes() []Permission { return slices.Clone(scopes) }

// IsScope reports whether p is one scope, not a whole area.
func (p Permission) IsScope() bool { return slices.Contains(scopes, p) }

// Explicit reports whether p is a scope that nothing but itself grants.
func (p Permission) Explicit() bool {
	return slices.ContainsFunc(explicit, func(action string) bool { return strings.HasSuffix(string(p), action) })
}

// endUser are the scopes that a token of an end user may have: each of their routes acts on one user's own records.
var endUser = []Permission{
	DecideOwn,
	"notifications:inbox:read", "notifications:inbox:write", "notifications:push:read", "notifications:push:write",
}

// EndUserScopes returns the scopes that a token of an end user may have, sorted.
func EndUserScopes() []Permission { return slices.Clone(endUser) }

// ForEndUsers reports whether p is a scope that a token of an end user may have.
func (p Permission) ForEndUsers() bool { return slices.Contains(endUser, p) }

// Give reports whether the holder of the grants may give a scope to a token of an end user: the holder must have it itself,
// by its name or area, or by the permission that opens its routes, which is named as its action.
func (g Grants) Give(scope Permission) bool {
	action := scope[strings.LastIndexByte(string(scope), ':')+1:]
	return scope.ForEndUsers() && g&(scope.grants()|action.grants()) != 0
}

// Grants is a set of permissions: one bit for Read, for Write and for each scope.
type Grants uint64

// grants returns the set that a permission stands for; empty if it is unknown.
func (p Permission) grants() (set Grants) {
	if p == Read {
		return 1
	}
	if p == Write {
		return 1 << 1
	}
	area, all := strings.CutSuffix(string(p), whole)
	for i, scope := range scopes {
		if of, _, _ := strings.Cut(string(scope), ":"); p == scope || all && of == area && !scope.Explicit() {
			set |= 1 << (i + 2)
		}
	}
	return set
}

// GrantsOf returns the union of permissions. Those that this release does not know grant nothing.
func GrantsOf(permissions []Permission) (set Grants) {
	for _, p := range permissions {
		set |= p.grants()
	}
	return set
}

// checkPermissions refuses no permission and unknown ones. It repeats none of them: a key may be among them by mistake.
func checkPermissions(permissions []Permission) error {
	if len(permissions) > 0 && !slices.ContainsFunc(permissions, func(p Permission) bool { return p.grants() == 0 }) {
		return nil
	}
	known := []string{string(Read), string(Write), areaAI + whole, areaAlerts + whole, areaNotifications + whole, areaWebhooks + whole}
	for _, scope := range scopes {
		known = append(known, string(scope))
	}
	return apierr.Invalid("permissions", "must hold one or more of "+strings.Join(known, ", "))
}

// Need is what a route requires of a key. NewNeed creates it.
type Need struct {
	products      []string
	any           Grants
	denied, other *apierr.Error // for too few permissions, for another product
}

// NewNeed returns the need for a key of one of the products that has the permission or the scope. An empty permission
// requires the scope.
func NewNeed(products []string, permission, scope Permission) Need {
	text := "this API key lacks the permission that this operation needs: " + string(scope)
	if permission != "" {
		text += " or " + string(permission)
	}
	return Need{
		products: products, any: permission.grants() | scope.grants(),
		denied: apierr.New(apierr.KindForbidden, ReasonPermissionDenied, text),
		other: apierr.New(apierr.KindForbidden, ReasonProductNotAllowed,
			"the product of this API key does not include this operation: it needs a key of product "+alternatives(products)),
	}
}

// alternatives joins names to "a, b or c".
func alternatives(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// May returns nil if the key meets a need, and otherwise a forbidden error. It does not allocate. Only a key from a
// Verifier has Grants.
func (k *Key) May(need Need) error {
	if !slices.Contains(need.products, k.Product) {
		return need.other
	}
	return need.MetBy(k.Grants)
}

// MetBy returns nil if grants are enough for a need, whatever the product, and otherwise a forbidden error.
func (n Need) MetBy(grants Grants) error {
	if grants&n.any == 0 {
		return n.denied
	}
	return nil
}

// ScopeGrants returns the union of scopes. It reports false if one of them is not a scope or a whole area, such as
// Read.
func ScopeGrants(scopes []Permission) (set Grants, ok bool) {
	for _, p := range scopes {
		if p == Read || p == Write || p.grants() == 0 {
			return 0, false
		}
		set |= p.grants()
	}
	return set, true
}
