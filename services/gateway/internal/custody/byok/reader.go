package byok

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"switchyard.dev/services/gateway/internal/custody/sealing"
	"switchyard.dev/services/gateway/internal/custody/secretref"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/secret"
)

// readTime bounds reading one secret.
const readTime = 3 * time.Second

// minKey is the shortest secret in characters, shownKey the shortest of which
// the end is shown.
const (
	minKey   = 8
	shownKey = 16
)

// errNotAKey is a secret that no header could carry.
var errNotAKey = errors.New("the secret is no key: want 8 or more printable characters without spaces")

// References reads secrets that are named; see package secretref.
type References interface {
	Read(ctx context.Context, organization, reference string) (secret.Value, error)
}

// Seals opens secrets that are sealed; see package sealing.
type Seals interface {
	Current() (sealing.Public, error)
	Open(id, organization, provider string, sealed []byte) (secret.Value, error)
}

// Reader turns stored credentials into secrets.
type Reader struct {
	References References
	Seals      Seals
	// Fingerprint hashes a secret.
	Fingerprint func(secret.Value) string
}

// Read gives a credential's secret.
func (r *Reader) Read(ctx context.Context, organization, provider string, c Credential) (secret.Value, error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	var value secret.Value
	var err error
	if c.Custody == CustodySealed {
		value, err = r.Seals.Open(c.KeyID, organization, provider, c.Ciphertext)
	} else {
		value, err = r.References.Read(ctx, organization, c.Reference)
	}
	if err != nil {
		return secret.Value{}, err
	}
	if !usable(value.Reveal()) {
		return secret.Value{}, errNotAKey
	}
	return value, nil
}

func usable(key string) bool {
	for i := range len(key) {
		if key[i] <= ' ' || key[i] > '~' {
			return false
		}
	}
	return len(key) >= minKey
}

// gone tells that a secret is not there, or not to be used, rather than that it
// can't be read at the moment.
func gone(err error) bool {
	for _, cause := range []error{secretref.ErrAbsent, secretref.ErrRefused, sealing.ErrInvalid, sealing.ErrUnknownKey, errNotAKey} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

// explain is what who offers a credential is told of one that can't be read.
func explain(err error) error {
	unresolved := func(text string) error {
		return apierr.New(apierr.KindInvalid, ReasonSecretUnresolved, "secret_ref: "+text).Wrap(err)
	}
	sealed := func(text string) error {
		return apierr.New(apierr.KindInvalid, ReasonSealedCredentialInvalid, "sealed: "+text)
	}
	switch {
	case errors.Is(err, secretref.ErrRefused), errors.Is(err, secretref.ErrAbsent):
		return unresolved(strings.TrimPrefix(err.Error(), secretref.ErrRefused.Error()+": "))
	case errors.Is(err, sealing.ErrUnknownKey):
		return sealed("no sealing key has this key_id; GET /v1/byok/sealing-key gives the present one")
	case errors.Is(err, sealing.ErrInvalid):
		return sealed("can't be opened: made for another key, organization or provider, or damaged")
	case errors.Is(err, errNotAKey):
		return apierr.Invalid("credential", errNotAKey.Error())
	}
	e := apierr.New(apierr.KindUnavailable, ReasonSecretUnresolved, "secret_ref: the secret can't be read at the moment")
	e.RetryAfter = time.Second
	return e.Wrap(fmt.Errorf("read secret: %w", err))
}

// hint is the end of a secret behind a mask; of a short one, the mask alone.
func hint(value secret.Value) string {
	const mask = "****"
	text := value.Reveal()
	if len(text) < shownKey {
		return mask
	}
	return mask + text[len(text)-4:]
}

// SealingKey is the key to seal credentials to.
func (c *Custodian) SealingKey() (sealing.Public, error) {
	key, err := c.reader.Seals.Current()
	if errors.Is(err, sealing.ErrNone) {
		e := apierr.New(apierr.KindUnavailable, apierr.ReasonUnavailable, "no sealing key is configured; bring the credential as a secret_ref")
		e.Class = apierr.ClassPolicy // Trying again doesn't help.
		return key, e
	}
	if err != nil {
		return key, apierr.Internal(err)
	}
	return key, nil
}
