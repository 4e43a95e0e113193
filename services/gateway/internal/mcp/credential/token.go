package credential

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"switchyard.dev/services/gateway/internal/custody/identity"
	"switchyard.dev/services/gateway/internal/mcp/oauth"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/secret"
)

// dropEvery is the shortest time between two tokens of a server that are replaced because it refused them.
const dropEvery = 10 * time.Second

// errNoClients is the error of a client of OAuth in a gateway that has none.
var errNoClients = errors.New("this gateway is no client of OAuth")

// tokens hold the access tokens of the servers in use, each once a replica.
type tokens struct {
	client     *oauth.Client
	identities *identity.Manager
	read       func(ctx context.Context, server *toolserver.Server) (secret.Value, error)

	mu      sync.Mutex
	entries *simplelru.LRU[entryKey, *client]
}

// client is the gateway as a client of OAuth for one server.
type client struct {
	identity *identity.Identity
	source   *oauth.Source

	mu      sync.Mutex
	dropped time.Time
}

// UseTokens makes the cache get access tokens for servers whose credential is a client of OAuth. It is called before the
// cache is used.
func (c *Cache) UseTokens(client *oauth.Client, identities *identity.Manager) {
	c.tokens = newTokens(client, identities, func(ctx context.Context, server *toolserver.Server) (secret.Value, error) {
		return open(ctx, c.references, c.seals, server)
	})
}

func newTokens(
	of *oauth.Client, identities *identity.Manager, read func(context.Context, *toolserver.Server) (secret.Value, error),
) *tokens {
	entries, _ := simplelru.NewLRU[entryKey, *client](maxSecrets, nil) // It fails for a size below 1 only.
	return &tokens{client: of, identities: identities, read: read, entries: entries}
}

// header returns the header with the present token. It waits only where there is none.
func (t *tokens) header(ctx context.Context, server *toolserver.Server) (name string, value secret.Value, err error) {
	if t == nil {
		return "", secret.Value{}, errNoClients
	}
	credential, err := t.of(server).identity.Credential(ctx)
	if err != nil {
		return "", secret.Value{}, err
	}
	return server.Credential.Header, bearer(credential), nil
}

func bearer(c provider.Credential) secret.Value { return secret.New("Bearer " + c.Key.Reveal()) }

// of returns the client for a server and makes it if needed. The one for the version before is forgotten.
func (t *tokens) of(server *toolserver.Server) *client {
	k := entryKey{server.Key(), server.Version}
	t.mu.Lock()
	defer t.mu.Unlock()
	if found, ok := t.entries.Get(k); ok {
		return found
	}
	t.entries.Remove(entryKey{server.Key(), server.Version - 1})
	of := *server
	source := t.client.Source(&of, func(ctx context.Context) (secret.Value, error) { return t.read(ctx, &of) })
	made := &client{source: source}
	made.identity = t.identities.Client(server.Organization, fmt.Sprintf("%q %q %d", server.Organization, server.ID, server.Version), source)
	t.entries.Add(k, made)
	return made
}

// Refused notes that a server refused a header of Header. It reports whether another token may be had, which the next
// Header waits for. A token that has just been had is kept, as are those that are refused again soon, so that a server
// that refuses all of them causes no storm.
func (c *Cache) Refused(server *toolserver.Server, refused secret.Value) bool {
	if server.Credential.OAuth == nil || c.tokens == nil {
		return false
	}
	of := c.tokens.of(server)
	present, ok := of.identity.Current()
	if !ok || !bearer(present).Equal(refused) {
		return true // Another call has replaced it.
	}
	if !of.mayDrop(c.now()) {
		return false
	}
	of.source.Forget()
	of.identity.Drop(present)
	_, kept := of.identity.Current()
	return !kept
}

func (of *client) mayDrop(now time.Time) bool {
	of.mu.Lock()
	defer of.mu.Unlock()
	if now.Sub(of.dropped) < dropEvery {
		return false
	}
	of.dropped = now
	return true
}
