package apikey

import (
	"context"
	"strings"
	"time"
)

// Verifier finds the key of each request. It is safe for concurrent use. A Watcher keeps its cache current.
type Verifier struct {
	pepper *Pepper
	cache  *cache
	calls  *calls
}

// NewVerifier returns a Verifier that caches up to size known keys and as many unknown ones. While the loader fails,
// a known key stays valid for staleFor beyond the minute for which it is fresh. limits are the default limits of keys
// and organizations.
func NewVerifier(pepper *Pepper, loader Loader, size int, staleFor time.Duration, limits Limits) *Verifier {
	return &Verifier{pepper: pepper, cache: newCache(loader, size, staleFor, limits), calls: newCalls()}
}

// Verify returns the valid key of an Authorization header (RFC 6750, section 2.1). The error is ErrInvalid if there
// is none, and an unavailable apierr if the lookup fails. A cached key costs no I/O and no allocation.
func (v *Verifier) Verify(ctx context.Context, authorization string) (*Key, error) {
	scheme, text, found := strings.Cut(authorization, " ")
	if !found || !strings.EqualFold(scheme, "Bearer") || !WellFormed(text) {
		return nil, ErrInvalid
	}
	key, err := v.cache.get(ctx, v.pepper.Digest(text))
	if err != nil {
		return nil, err
	}
	if key == nil || !key.Live(time.Now()) {
		return nil, ErrInvalid
	}
	return key, nil
}

// Forget removes the key of this digest from the cache, and marks its running calls for review.
func (v *Verifier) Forget(digest Digest) {
	v.cache.forget(digest)
	v.calls.suspect(digest)
}

// forgetAll is Forget for every digest.
func (v *Verifier) forgetAll() {
	v.cache.forgetAll()
	v.calls.suspectAll()
}
