package provider

import (
	"context"
	"crypto/sha256"
	"net/http"
	"time"

	"switchyard.dev/services/platform/secret"
)

// Credential authenticates a call. The zero Credential is for a provider that needs none (a local server, the sandbox).
type Credential struct {
	// Name is the credential's name in the pool of its provider, and Weight its share of the pool's requests relative to the
	// others; zero where the provider has only one credential.
	Name   string
	Weight int
	// Key is an API key or, if Bearer is set, an access token.
	Key secret.Value
	// Bearer reports that Key goes into "Authorization: Bearer", whatever header the dialect has for keys.
	Bearer bool
	// Headers are further headers that the vendor wants with this kind of credential; may be nil.
	Headers http.Header
	// Signer signs each request instead of a key; nil for every credential that has one.
	Signer Signer
	// Refused tells the identity behind the credential that the vendor refused it; nil for a key.
	Refused func(e *Error)
	// Source is "fleet" or "byok".
	Source string
	// Fingerprint is a keyed hash of the key or, where the key changes by itself, of the identity. It is safe to store and
	// to show.
	Fingerprint string
}

// Signer signs requests, as AWS requires. Safe for concurrent use.
type Signer interface {
	// Sign adds the headers of a signature to a request that nothing changes afterwards. sum is the SHA-256 of the body.
	Sign(ctx context.Context, r *http.Request, sum [sha256.Size]byte, at time.Time) error
}

// Header is a header that an operator adds to the calls of a provider.
type Header struct {
	Name string
	// Value returns the present value; the error is that of a file that can't be read.
	Value func() (secret.Value, error)
}
