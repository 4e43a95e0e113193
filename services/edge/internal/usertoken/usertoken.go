// Package usertoken owns the tokens with which a browser or a device of an end user calls without a product key: JSON
// Web Tokens (RFC 7519) that are signed with Ed25519 (RFC 8037), for one user of an organization, for at most an hour.
//
// Manager, in the role control, mints and revokes tokens, rotates the keys that sign, and keeps the web origins of
// organizations. Verifier, in the role serve, checks tokens without I/O: a Watcher keeps what it needs in memory.
package usertoken

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/screen"
)

const (
	// prefix begins every token, before its JWS in compact serialization (RFC 7515, section 7.1). It tells a token from
	// a product key, and lets secret scanners find one.
	prefix = "swt_"
	// maxText bounds a token in bytes; the longest that Mint makes is shorter.
	maxText = 6 << 10
	// The header and claims that all tokens have. The type keeps another JWT of the same keys from passing for a token
	// (RFC 8725, section 3.11).
	typ      = "switchyard-user+jwt"
	issuer   = "switchyard-edge"
	audience = "switchyard-product"
	// MaxLife bounds how long a token is valid.
	MaxLife = time.Hour
	// skew is how far the clocks of replicas may differ.
	skew = 10 * time.Second
	// MaxTokenOrigins bounds the origins of a token.
	MaxTokenOrigins = 8
)

// The reasons of refused tokens.
const (
	ReasonInvalidToken     apierr.Reason = "invalid_token"
	ReasonOriginNotAllowed apierr.Reason = "origin_not_allowed"
)

// The errors of refused tokens. ErrInvalid is the same for every token that is not valid, so that it does not help a
// forger.
var (
	ErrInvalid = apierr.New(apierr.KindUnauthenticated, ReasonInvalidToken,
		"the token is not valid, or not any more; have another one minted")
	ErrScope = apierr.New(apierr.KindForbidden, apikey.ReasonPermissionDenied,
		"the scopes of this token do not include this operation")
	ErrUser = apierr.New(apierr.KindForbidden, caller.ReasonIdentityMismatch,
		"user_id: differs from the user of the token")
	ErrBeyondKey = apierr.New(apierr.KindForbidden, apikey.ReasonPermissionDenied,
		"scopes: this API key may give only scopes that it has itself, or whose permission it has")
	ErrOrigin = apierr.New(apierr.KindForbidden, ReasonOriginNotAllowed,
		"pages of this origin may not call; the organization's origins, and those of a token, allow it")
)

// claims are the payload of a token. Issued and Expires are Unix seconds (RFC 7519, section 4.1). Position is that of the
// feed, which orders tokens and revocations without a clock.
type claims struct {
	Issuer       string              `json:"iss"`
	Audience     string              `json:"aud"`
	User         string              `json:"sub"`
	Issued       int64               `json:"iat"`
	Expires      int64               `json:"exp"`
	ID           string              `json:"jti"`
	Position     int64               `json:"pos"`
	Organization string              `json:"organization"`
	Owner        string              `json:"owner,omitempty"`
	Scopes       []apikey.Permission `json:"scopes"`
	Origins      []string            `json:"origins,omitempty"`
	// Verified is absent from tokens of early releases, which verify no user. Tokens of some later releases have Verified
	// and Owner; they verify no user either.
	Verified bool `json:"user_verified,omitempty"`
}

// Token is what a valid token says. It must not be changed.
type Token struct {
	ID, Organization, User string
	// Owner is empty if the token names none.
	Owner string
	// Verified reports whether calls with the token prove that its user calls, see Request.
	Verified bool
	// Issued and Expires are whole seconds.
	Issued, Expires time.Time
	// origins narrow those of the organization; none does not.
	origins  []string
	grants   apikey.Grants
	position int64
	// key is the id of the key that signed. userBucket and organizationBucket are the names of the rate limits.
	key, userBucket, organizationBucket string
}

// token returns what the claims of a token say that a key has signed.
func (c *claims) token(key string) *Token {
	return &Token{
		ID: c.ID, Organization: c.Organization, User: c.User, Owner: c.Owner, Verified: c.Verified && c.Owner == "",
		Issued: time.Unix(c.Issued, 0), Expires: time.Unix(c.Expires, 0),
		origins: c.Origins, grants: apikey.GrantsOf(slices.DeleteFunc(c.Scopes, func(p apikey.Permission) bool { return !p.ForEndUsers() })),
		position: c.Position, key: key, userBucket: "user " + c.Organization + " " + c.User, organizationBucket: "organization " + c.Organization,
	}
}

// sound reports whether the claims are complete and those of a token.
func (c *claims) sound() bool {
	return c.Issuer == issuer && c.Audience == audience && c.User != "" && c.Organization != "" && c.ID != "" &&
		c.Issued > 0 && c.Expires > c.Issued && c.Expires-c.Issued <= int64(MaxLife/time.Second)
}

// May returns nil if the token's scopes meet the need of a route, and otherwise ErrScope.
func (t *Token) May(need apikey.Need) error {
	if need.MetBy(t.grants) != nil {
		return ErrScope
	}
	return nil
}

// Request is what a token is minted of.
type Request struct {
	Organization, User string
	// Owner is optional. Scopes are some of apikey.EndUserScopes. Origins narrow those of the organization; optional.
	Owner   string
	Scopes  []apikey.Permission
	Origins []string
	// Verified says that the minter may let the token's holder decide on approvals. A minter without that right could
	// otherwise register its own device as the user's, and decide with the links pushed to it. If Owner is set, Verified
	// has no effect: owners name their own users, but approvals belong to the whole organization.
	Verified bool
	// Life is how long the token is valid, in whole seconds.
	Life time.Duration
}

// check returns the rule that a request violates.
func (r Request) check() error {
	if err := checkID("organization_id", r.Organization); err != nil {
		return err
	}
	if err := checkID("user_id", r.User); err != nil {
		return err
	}
	if r.Owner != "" {
		if err := checkID("owner_id", r.Owner); err != nil {
			return err
		}
	}
	switch {
	case len(r.Scopes) == 0 || slices.ContainsFunc(r.Scopes, func(p apikey.Permission) bool { return !p.ForEndUsers() }):
		return apierr.Invalid("scopes", "must hold one or more of the scopes for end users: "+scopeNames())
	case len(r.Scopes) > len(apikey.EndUserScopes()):
		return apierr.Invalid("scopes", "must name each scope once")
	case r.Owner != "" && slices.Contains(r.Scopes, apikey.DecideOwn):
		return apierr.Invalid("scopes", "must not hold "+string(apikey.DecideOwn)+" with an owner_id: approvals are the whole organization's")
	case r.Life < time.Second || r.Life > MaxLife:
		return apierr.Invalid("ttl_seconds", fmt.Sprintf("must be from 1 to %d", MaxLife/time.Second))
	}
	return checkOrigins(r.Origins, MaxTokenOrigins)
}

func scopeNames() string {
	names := make([]string, 0, len(apikey.EndUserScopes()))
	for _, scope := range apikey.EndUserScopes() {
		names = append(names, string(scope))
	}
	return strings.Join(names, ", ")
}

// checkID checks an identifier by the rule of the identity headers, in which the edge passes it on.
func checkID(field, id string) error {
	switch {
	case id == "" || !caller.Printable(id):
		return apierr.Invalid(field, "must be printable ASCII without spaces, 1 to 256 characters")
	case screen.IDLooksLikeKey(id) || screen.HasKeyForm(id):
		return apierr.Invalid(field, "seems to hold a key; send an identifier")
	}
	return nil
}
