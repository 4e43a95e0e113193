// Package credential reads the credentials of tool servers: secrets that an organization names by reference, or that it
// has sealed to the gateway for one server. It keeps them in memory as package byok keeps those of providers. The secret
// of a client of OAuth it hands to package oauth, and keeps its access tokens by package identity. Package upstream asks
// it for the header of each call.
package credential

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"switchyard.dev/services/gateway/internal/custody/sealing"
	"switchyard.dev/services/gateway/internal/custody/secretref"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/platform/secret"
)

const (
	// refreshAfter is the age at which a referenced secret is read again; keepFor is the age up to which it is used while
	// it can't be read.
	refreshAfter = time.Minute
	keepFor      = time.Hour
	// pauseAfter is how long a secret is not read again after a failure.
	pauseAfter = 2 * time.Second
	// readTime bounds reading a secret.
	readTime = 3 * time.Second
	// maxSecrets is the largest number of secrets in memory; those used last stay.
	maxSecrets = 10_000
)

// errNoHeader is the error of a secret that a header can't carry. It repeats nothing of the secret.
var errNoHeader = errors.New("the secret is not 1 to 8192 printable characters without spaces")

// References reads secrets by reference; see package secretref.
type References interface {
	Read(ctx context.Context, organization, reference string) (secret.Value, error)
}

// Seals opens sealed secrets; see package sealing.
type Seals interface {
	Open(id, organization, provider string, sealed []byte) (secret.Value, error)
}

// Read returns the secret of a server's credential, without the scheme; the zero value for none.
func Read(ctx context.Context, references References, seals Seals, server *toolserver.Server) (secret.Value, error) {
	value, err := open(ctx, references, seals, server)
	if err == nil && !value.IsZero() && !toolserver.FitsHeader(value.Reveal()) {
		err = errNoHeader
	}
	if err != nil {
		return secret.Value{}, err
	}
	return value, nil
}

// open returns the secret of a server's credential, whatever it is.
func open(ctx context.Context, references References, seals Seals, server *toolserver.Server) (secret.Value, error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	switch c := server.Credential; c.Custody {
	case toolserver.CustodyNone:
		return secret.Value{}, nil
	case toolserver.CustodyReference:
		return references.Read(ctx, server.Organization, c.Reference)
	case toolserver.CustodySealed:
		return seals.Open(c.KeyID, server.Organization, toolserver.SealedTo(server.ID), c.Ciphertext)
	default:
		return secret.Value{}, fmt.Errorf("custody %q is unknown", c.Custody)
	}
}

// permanent reports whether a secret does not exist or must not be used, as opposed to being unreadable at the moment.
func permanent(err error) bool {
	for _, cause := range []error{secretref.ErrAbsent, secretref.ErrRefused, sealing.ErrInvalid, sealing.ErrUnknownKey, errNoHeader} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

// Cache holds the secrets in use. Safe for concurrent use.
type Cache struct {
	references References
	seals      Seals
	now        func() time.Time

	// tokens is nil for a cache without clients of OAuth.
	tokens *tokens

	mu      sync.Mutex
	entries *simplelru.LRU[entryKey, *entry]
}

// entryKey identifies a version of a server's registration, so that a change of its credential is a new secret.
type entryKey struct {
	server  toolserver.Key
	version int
}

// entry is a secret. The caller that fills reading reads it; the fields below are guarded by it and by mu.
type entry struct {
	reading chan struct{}

	mu       sync.Mutex
	value    secret.Value // zero for none
	at       time.Time
	failure  error
	failedAt time.Time
}

// NewCache returns an empty Cache.
func NewCache(references References, seals Seals) *Cache {
	entries, _ := simplelru.NewLRU[entryKey, *entry](maxSecrets, nil) // It fails for a size below 1 only.
	return &Cache{references: references, seals: seals, now: time.Now, entries: entries}
}

// Header returns the header that authenticates calls to a server; its name is empty for a server without a credential.
// It does no I/O once a secret is known and young enough. Of several callers, one reads a secret again; the others go on
// with the old one.
func (c *Cache) Header(ctx context.Context, server *toolserver.Server) (name string, value secret.Value, err error) {
	credential := server.Credential
	if credential.Custody == toolserver.CustodyNone {
		return "", secret.Value{}, nil
	}
	if credential.OAuth != nil {
		return c.tokens.header(ctx, server)
	}
	text, err := c.secret(ctx, server)
	if err != nil {
		return "", secret.Value{}, err
	}
	if credential.Scheme != "" {
		text = secret.New(credential.Scheme + " " + text.Reveal())
	}
	return credential.Header, text, nil
}

func (c *Cache) secret(ctx context.Context, server *toolserver.Server) (secret.Value, error) {
	e := c.entry(server)
	sealed := server.Credential.Custody == toolserver.CustodySealed
	value, age := e.present(c.now(), sealed)
	if !value.IsZero() && age <= refreshAfter {
		return value, nil
	}
	select {
	case e.reading <- struct{}{}:
	default:
		if !value.IsZero() && age <= keepFor {
			return value, nil
		}
		select {
		case e.reading <- struct{}{}:
		case <-ctx.Done():
			return secret.Value{}, context.Cause(ctx)
		}
	}
	defer func() { <-e.reading }()
	if value, age = e.present(c.now(), sealed); !value.IsZero() && age <= refreshAfter {
		return value, nil // Another caller has read it meanwhile.
	}
	return c.read(ctx, e, server, value, age)
}

// read reads a secret again. old is the one in use, age its age.
func (c *Cache) read(ctx context.Context, e *entry, server *toolserver.Server, old secret.Value, age time.Duration) (secret.Value, error) {
	usable := !old.IsZero() && age <= keepFor
	if err := e.failedSince(c.now().Add(-pauseAfter)); err != nil {
		if usable {
			return old, nil
		}
		return secret.Value{}, err
	}
	value, err := Read(ctx, c.references, c.seals, server)
	switch {
	case err == nil:
		e.set(value, c.now())
		return value, nil
	case ctx.Err() == nil: // Not the caller's own time.
		e.fail(err, c.now())
	}
	if usable && !permanent(err) {
		return old, nil
	}
	return secret.Value{}, err
}

// entry returns the entry of a server and makes it if needed.
func (c *Cache) entry(server *toolserver.Server) *entry {
	key := entryKey{server.Key(), server.Version}
	c.mu.Lock()
	defer c.mu.Unlock()
	if found, ok := c.entries.Get(key); ok {
		return found
	}
	e := &entry{reading: make(chan struct{}, 1)}
	c.entries.Add(key, e)
	return e
}

// present returns the secret and its age. A sealed secret never changes, and its age is 0.
func (e *entry) present(now time.Time, sealed bool) (secret.Value, time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if sealed {
		return e.value, 0
	}
	return e.value, now.Sub(e.at)
}

func (e *entry) failedSince(since time.Time) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failure == nil || e.failedAt.Before(since) {
		return nil
	}
	return e.failure
}

func (e *entry) set(value secret.Value, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.value, e.at, e.failure = value, now, nil
}

// fail records a failure. A secret that may no longer be used is dropped.
func (e *entry) fail(err error, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.failure, e.failedAt = err, now
	if permanent(err) {
		e.value = secret.Value{}
	}
}
