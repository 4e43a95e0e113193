package usertoken

import (
	"cmp"
	"crypto/ed25519"
	"maps"
	"slices"
	"time"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/limit"
)

// Policy is all that decides about tokens but the tokens themselves.
type Policy struct {
	// Position is the number of the last change that it includes.
	Position int64
	// Keys are in the order of SignsFrom.
	Keys []PublicKey
	// Revoked are the last revocations of users, and of all users of an organization.
	Revoked map[Holder]Revocation
	// Origins and Limits are those of organizations that have their own.
	Origins map[string][]string
	Limits  map[string]limit.Limit
}

// Holder is a user of an organization, or all of them if User is empty.
type Holder struct{ Organization, User string }

// Revocation has the tokens refused that were issued before.
type Revocation struct {
	// Position is the revocation's own in the feed.
	Position int64
	At       time.Time
}

// rules are a Policy in the form in which it is looked up. They are not changed once they are in use.
type rules struct {
	policy Policy
	keys   map[string]verifyingKey
	// origins are those of any organization.
	origins map[string]struct{}
}

// verifyingKey verifies until a moment, or without end if that is zero.
type verifyingKey struct {
	key   ed25519.PublicKey
	until time.Time
}

func newRules(p Policy) *rules {
	r := &rules{policy: p, keys: make(map[string]verifyingKey, len(p.Keys)), origins: make(map[string]struct{})}
	for i, k := range p.Keys {
		v := verifyingKey{key: k.Key}
		if i+1 < len(p.Keys) {
			v.until = ends(p.Keys[i+1].SignsFrom)
		}
		r.keys[k.ID] = v
	}
	for origins := range maps.Values(p.Origins) {
		for _, origin := range origins {
			r.origins[origin] = struct{}{}
		}
	}
	return r
}

// key returns the key of this id if it still verifies.
func (r *rules) key(id string, now time.Time) (ed25519.PublicKey, bool) {
	k, ok := r.keys[id]
	return k.key, ok && (k.until.IsZero() || now.Before(k.until))
}

// published returns the keys that verify.
func (r *rules) published(now time.Time) []PublicKey {
	return slices.DeleteFunc(slices.Clone(r.policy.Keys), func(k PublicKey) bool {
		_, ok := r.key(k.ID, now)
		return !ok
	})
}

// valid reports whether a token, whose signature is known to be right, is valid at a moment.
func (r *rules) valid(t *Token, now time.Time) bool {
	if _, ok := r.key(t.key, now); !ok {
		return false
	}
	return now.Before(t.Expires) && !t.Issued.After(now.Add(skew)) && !r.revoked(t)
}

// revoked reports whether a token was issued before a revocation that concerns it. Positions say so to the instant; times
// do for tokens from before a restored backup, after which positions repeat.
func (r *rules) revoked(t *Token) bool {
	for _, holder := range [...]Holder{{t.Organization, ""}, {t.Organization, t.User}} {
		last, ok := r.policy.Revoked[holder]
		if ok && (t.position < last.Position || t.Issued.Add(skew).Before(last.At)) {
			return true
		}
	}
	return false
}

// allows reports whether pages of an origin may call with a token.
func (r *rules) allows(t *Token, origin string) bool {
	return slices.Contains(r.policy.Origins[t.Organization], origin) && (len(t.origins) == 0 || slices.Contains(t.origins, origin))
}

// buckets returns the rate limits of a token: of its user, who has the default limit of a key, and of its organization.
func (r *rules) buckets(t *Token, defaults apikey.Limits) apikey.Buckets {
	return apikey.Buckets{
		Key: limit.Bucket{Name: t.userBucket, Limit: defaults.Key},
		Organization: limit.Bucket{
			Name: t.organizationBucket, Limit: cmp.Or(r.policy.Limits[t.Organization], defaults.Organization),
		},
	}
}
