package byok

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"switchyard.dev/services/gateway/internal/custody/identity"
	"switchyard.dev/services/gateway/internal/custody/sealing"
	"switchyard.dev/services/gateway/internal/custody/secretref"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/secret"
)

// readTime bounds reading one secret.
const readTime = 3 * time.Second

// minKey is the length of the shortest valid secret in characters; shownKey is the length from which the end is shown
// in the hint.
const (
	minKey   = 8
	shownKey = 16
)

// errNotAnIdentity is the error of a secret that is JSON, but none that package identity takes.
var errNotAnIdentity = errors.New("the secret is not an identity of AWS, Azure or Google")

// errNotAKey is the error of a secret that an HTTP header can't carry.
var errNotAKey = errors.New("the secret is not a key: want 8 or more printable characters without spaces")

// References reads secrets by reference; see package secretref.
type References interface {
	Read(ctx context.Context, organization, reference string) (secret.Value, error)
}

// Seals opens sealed secrets; see package sealing.
type Seals interface {
	Current() (sealing.Public, error)
	Open(id, organization, provider string, sealed []byte) (secret.Value, error)
}

// Reader reads the secrets of stored credentials.
type Reader struct {
	References References
	Seals      Seals
	// Fingerprint returns a keyed hash of a secret.
	Fingerprint func(secret.Value) string
}

// Read returns a credential's secret.
func (r *Reader) Read(ctx context.Context, organization, provider string, c Credential) (secret.Value, error) {
	value, err := r.open(ctx, organization, provider, c)
	if err != nil {
		return secret.Value{}, err
	}
	if identity.IsOwn(value) {
		_, err := identity.ParseOwn(value, identity.Config{})
		if err != nil {
			err = fmt.Errorf("%w: %w", errNotAnIdentity, err)
		}
		return value, err
	}
	if !usable(value.Reveal()) {
		return secret.Value{}, errNotAKey
	}
	return value, nil
}

// open returns a credential's secret, whatever it is.
func (r *Reader) open(ctx context.Context, organization, provider string, c Credential) (secret.Value, error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	if c.Custody == CustodySealed {
		return r.Seals.Open(c.KeyID, organization, provider, c.Ciphertext)
	}
	return r.References.Read(ctx, organization, c.Reference)
}

// Accept reads the secret of a credential that a caller offers, and returns the credential with what may be shown of it.
// Errors are *apierr.Error and repeat nothing of the secret.
func (r *Reader) Accept(ctx context.Context, organization, provider string, c Credential) (Credential, error) {
	accepted, _, err := r.accept(ctx, organization, provider, c, r.Read)
	return accepted, err
}

// AcceptBy is Accept for a secret that is neither a key nor an identity: rule returns which rule it breaks, in words that
// repeat nothing of it.
func (r *Reader) AcceptBy(ctx context.Context, organization, provider string, c Credential, rule func(secret.Value) error) (Credential, error) {
	accepted, value, err := r.accept(ctx, organization, provider, c, r.open)
	if err == nil {
		if broken := rule(value); broken != nil {
			return c, apierr.Invalid("credential", broken.Error())
		}
	}
	return accepted, err
}

// AcceptKey is Accept for a credential that must be a key, not an identity.
func (r *Reader) AcceptKey(ctx context.Context, organization, provider string, c Credential) (Credential, error) {
	accepted, value, err := r.accept(ctx, organization, provider, c, r.Read)
	if err == nil && identity.IsOwn(value) {
		return c, explain(errNotAKey)
	}
	return accepted, err
}

// reading is how a secret is read: Read or open.
type reading func(ctx context.Context, organization, provider string, c Credential) (secret.Value, error)

func (r *Reader) accept(ctx context.Context, organization, provider string, c Credential, read reading) (Credential, secret.Value, error) {
	if c.Custody == CustodyReference && LooksRaw(c.Reference) {
		return c, secret.Value{}, RefuseRawKey("secret_ref")
	}
	value, err := read(ctx, organization, provider, c)
	if err != nil {
		return c, secret.Value{}, explain(err)
	}
	c.Hint, c.Fingerprint = hint(value), r.Fingerprint(value)
	return c, value, nil
}

func usable(key string) bool {
	for i := range len(key) {
		if key[i] <= ' ' || key[i] > '~' {
			return false
		}
	}
	return len(key) >= minKey
}

// permanent reports whether a secret does not exist or must not be used, as opposed to being unreadable at the moment.
func permanent(err error) bool {
	for _, cause := range []error{secretref.ErrAbsent, secretref.ErrRefused, sealing.ErrInvalid, sealing.ErrUnknownKey, errNotAKey, errNotAnIdentity} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

// explain converts a read error for the caller that offered the credential.
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
	case errors.Is(err, errNotAnIdentity): // It repeats nothing of the secret.
		return apierr.Invalid("credential", err.Error())
	}
	e := apierr.New(apierr.KindUnavailable, ReasonSecretUnresolved, "secret_ref: the secret can't be read at the moment")
	e.RetryAfter = time.Second
	return e.Wrap(fmt.Errorf("read secret: %w", err))
}

// hint returns the last four characters of a secret behind a mask; for a short secret and for an identity, only the mask.
func hint(value secret.Value) string {
	const mask = "****"
	text := value.Reveal()
	if len(text) < shownKey || identity.IsOwn(value) {
		return mask
	}
	return mask + text[len(text)-4:]
}

// SealingKey returns the key to seal credentials to.
func (m *Manager) SealingKey() (sealing.Public, error) {
	key, err := m.reader.Seals.Current()
	if errors.Is(err, sealing.ErrNone) {
		e := apierr.New(apierr.KindUnavailable, apierr.ReasonUnavailable, "no sealing key is configured; send the credential as a secret_ref")
		e.Class = apierr.ClassPolicy // A retry doesn't help.
		return key, e
	}
	if err != nil {
		return key, apierr.Internal(err)
	}
	return key, nil
}
