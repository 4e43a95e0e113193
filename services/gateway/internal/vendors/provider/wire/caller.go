package wire

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"net/http"
	"strings"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/telemetry"
)

// Caller sends requests to one vendor.
type Caller struct {
	Transport http.RoundTripper
	Classify  Classify
	// Now is the clock for dates in Retry-After.
	Now func() time.Time
	// KeyHeader is the header that carries a key; Authorization carries it with the scheme Bearer.
	KeyHeader string
	// Headers are the operator's, in place of the dialect's own of the same name.
	Headers []provider.Header

	credential provider.Credential
}

// NewCaller returns a Caller for a provider of these settings. keyHeader is the dialect's own header for keys.
func NewCaller(s provider.Settings, keyHeader string, classify Classify) Caller {
	if s.KeyHeader != "" {
		keyHeader = http.CanonicalHeaderKey(s.KeyHeader)
	}
	return Caller{Transport: s.Transport, Classify: classify, Now: time.Now, KeyHeader: keyHeader, Headers: s.Headers}
}

// With returns a Caller for one call with a credential. If the vendor repeats its key, it is removed from errors.
func (c *Caller) With(credential provider.Credential) *Caller {
	call := *c
	call.credential = credential
	return &call
}

const authorization = "Authorization"

// userAgent names the gateway to vendors. A version that is no token (RFC 9110, section 10.1.5) loses its parentheses.
var userAgent = "switchyard/" + strings.Trim(telemetry.Version(), "()")

// authorize adds the operator's headers and the credential to a complete request.
func (c *Caller) authorize(r *http.Request) error {
	h := r.Header
	h["User-Agent"] = []string{userAgent}
	for i := range c.Headers {
		value, err := c.Headers[i].Value()
		if err != nil {
			return &provider.Error{
				Class: apierr.ClassAuth, Text: fmt.Sprintf("the header %s of the provider can't be read", c.Headers[i].Name), Cause: err,
			}
		}
		h[c.Headers[i].Name] = []string{value.Reveal()}
	}
	for name, values := range c.credential.Headers {
		h[name] = append(h[name], values...)
	}
	switch key := c.credential.Key; {
	case c.credential.Signer != nil:
		return c.sign(r)
	case key.IsZero():
	case c.credential.Bearer, c.KeyHeader == authorization:
		h[authorization] = []string{"Bearer " + key.Reveal()}
	default:
		h[c.KeyHeader] = []string{key.Reveal()}
	}
	return nil
}

// summed is a body that adds itself to a hash without being read.
type summed interface{ addTo(h hash.Hash) }

func (c *Caller) sign(r *http.Request) error {
	var sum [sha256.Size]byte
	h := sha256.New()
	if body, ok := r.Body.(summed); ok {
		body.addTo(h)
	}
	h.Sum(sum[:0])
	if err := c.credential.Signer.Sign(r.Context(), r, sum, c.Now()); err != nil {
		return unsigned(r.Context(), err)
	}
	return nil
}

// unsigned returns the error of a request that could not be signed; nothing was sent.
func unsigned(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return Interrupted(ctx, err)
	}
	return &provider.Error{Class: apierr.ClassAuth, Text: "the request can't be signed", Cause: err}
}

// redactor is a signer that removes its secrets from a text: AWS repeats the signed headers of a request that it refuses,
// and the token of a temporary key is one of them.
type redactor interface{ Redact(text string) string }

// redact returns a text without the call's key.
func (c *Caller) redact(text string) string {
	if signer, ok := c.credential.Signer.(redactor); ok {
		text = signer.Redact(text)
	}
	if key := c.credential.Key; !key.IsZero() {
		return strings.ReplaceAll(text, key.Reveal(), "[redacted]")
	}
	return text
}

// holdsSecret reports whether a text contains the call's key.
func (c *Caller) holdsSecret(text string) bool { return c.redact(text) != text }
