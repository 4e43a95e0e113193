package usertoken

import (
	"crypto/sha256"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"

	"switchyard.dev/services/edge/internal/apikey"
)

// remembered bounds how many tokens are cached, so that their signatures are not checked with each call.
const remembered = 10_000

// Verifier checks the token of each request. It is safe for concurrent use. It knows no key before Use is called; a
// Watcher calls that.
type Verifier struct {
	limits apikey.Limits
	rules  atomic.Pointer[rules]
	cache  cache
	calls  calls
}

// NewVerifier returns a Verifier. limits are the default limits of keys, which hold for users, and of organizations.
func NewVerifier(limits apikey.Limits) *Verifier {
	v := &Verifier{limits: limits, cache: cache{known: make(map[digest]*Token)}, calls: calls{running: make(map[*call]struct{})}}
	v.rules.Store(newRules(Policy{}))
	return v
}

// Use puts a policy in force, and ends the running calls of tokens that it revokes.
func (v *Verifier) Use(p Policy) {
	r := newRules(p)
	v.rules.Store(r)
	v.calls.review(r, time.Now())
}

// Presented returns the token of an Authorization header (RFC 6750, section 2.1); ok is false if it holds none. It
// neither allocates nor checks the token.
func Presented(authorization string) (text string, ok bool) {
	scheme, text, found := strings.Cut(authorization, " ")
	return text, found && strings.EqualFold(scheme, "Bearer") && strings.HasPrefix(text, prefix)
}

// Verify returns what a token says, or ErrInvalid.
func (v *Verifier) Verify(text string) (*Token, error) {
	if len(text) > maxText {
		return nil, ErrInvalid
	}
	r, now, id := v.rules.Load(), time.Now(), digest(sha256.Sum256([]byte(text)))
	t := v.cache.get(id)
	if t == nil {
		if t = r.parse(text, now); t == nil {
			return nil, ErrInvalid
		}
		v.cache.put(id, t)
	}
	if !r.valid(t, now) {
		return nil, ErrInvalid
	}
	return t, nil
}

// algorithms are those that a token may be signed with.
var algorithms = []jose.SignatureAlgorithm{jose.EdDSA}

// parse returns what a token says whose signature is right, nil if it is wrong or the token is no such one.
func (r *rules) parse(text string, now time.Time) *Token {
	signed, err := jose.ParseSignedCompact(strings.TrimPrefix(text, prefix), algorithms)
	if err != nil || len(signed.Signatures) != 1 {
		return nil
	}
	header := signed.Signatures[0].Protected
	key, ok := r.key(header.KeyID, now)
	if !ok || header.ExtraHeaders[jose.HeaderType] != typ {
		return nil
	}
	payload, err := signed.Verify(key)
	if err != nil {
		return nil
	}
	var c claims
	if json.Unmarshal(payload, &c) != nil || !c.sound() { // this package refuses members that come twice
		return nil
	}
	return c.token(header.KeyID)
}

// Buckets returns the rate limits of a token.
func (v *Verifier) Buckets(t *Token) apikey.Buckets { return v.rules.Load().buckets(t, v.limits) }

// AllowsOrigin reports whether pages of an origin may call with a token, or with any if it is nil.
func (v *Verifier) AllowsOrigin(t *Token, origin string) bool {
	r := v.rules.Load()
	if t == nil {
		_, ok := r.origins[origin]
		return ok
	}
	return r.allows(t, origin)
}

// Keys returns the public keys that verify tokens, as a JSON Web Key Set (RFC 7517).
func (v *Verifier) Keys() jose.JSONWebKeySet { return keySet(v.rules.Load().published(time.Now())) }

// digest identifies a token in memory, where the token itself is not kept.
type digest [sha256.Size]byte

// cache holds tokens whose signature was right.
type cache struct {
	mu    sync.Mutex
	known map[digest]*Token
}

func (c *cache) get(id digest) *Token {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[id]
}

// put adds a token. It makes room in map order, which is arbitrary.
func (c *cache) put(id digest, t *Token) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for victim := range c.known {
		if len(c.known) < remembered {
			break
		}
		delete(c.known, victim)
	}
	c.known[id] = t
}
