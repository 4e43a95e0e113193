package upstream

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/gateway/internal/mcp/oauth"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/platform/panics"
	"switchyard.dev/services/platform/secret"
)

// pauseAfter is how long a server isn't asked again for its version after that has failed.
const pauseAfter = time.Second

// peerKey identifies a peer. Organizations share no session of a server for all of them: its state may be theirs.
type peerKey struct {
	server     toolserver.Key
	version    int
	asker      string
	credential [sha256.Size]byte
	// asks are the capabilities that sessions are shown of their client; empty for none.
	asks string
}

// peer is a server as one organization calls it, with one credential.
type peer struct {
	key     peerKey
	label   string // the server's, for the log
	link    link
	lastUse atomic.Int64 // Unix nanoseconds
	// session is nil until the server's version is known.
	session atomic.Pointer[session]

	// turn is full while one caller asks for the version. failure and the fields behind it are of the last one.
	turn     chan struct{}
	failure  error
	failedAt time.Time
	// failedWith is the header that was refused; nil where it can't be replaced.
	failedWith *header

	// renew has the header replaced that the server refused; nil where there is no other. It reports whether it did.
	renew func(ctx context.Context, refused *header) (bool, error)
}

// session is what is known of a server: its version, and in a legacy one the session.
type session struct {
	version string
	// modern reports whether there are no sessions; id is empty for a legacy server without.
	modern bool
	id     string
	about  About
	// logs reports whether the server of a session can be asked for log messages, severities for how many levels, from the
	// most severe one on, it was asked.
	logs       bool
	severities atomic.Int64
}

// link is a way to a server.
type link interface {
	// send sends a request and returns the response. Messages that come before it are passed to the conversation. The
	// error is *Error, or errEnded.
	send(ctx context.Context, s *session, r *request, talk *conversation) (response, error)
	// notify sends a message that has no response.
	notify(ctx context.Context, s *session, n *request) error
	// end tells the server that a session has ended.
	end(ctx context.Context, s *session)
	// cancelsByNotice reports whether a request that is given up must be cancelled by a notice.
	cancelsByNotice(s *session) bool
	// close frees what the link holds.
	close()
}

// header is a credential's header; name is empty for none.
type header struct {
	name  string
	value secret.Value
}

// peer returns the peer for a server, whose sessions are shown capabilities, and makes it if needed.
func (c *Client) peer(ctx context.Context, server *toolserver.Server, asker string, asks json.RawMessage) (*peer, error) {
	credential, err := c.credential(ctx, server)
	if err != nil {
		return nil, err
	}
	key := peerKey{server: server.Key(), version: server.Version, asker: asker, asks: string(asks)}
	renewed := server.Credential.OAuth != nil
	if !renewed { // A session goes on with the next token of the same client.
		key.credential = sha256.Sum256([]byte(credential.name + "\x00" + credential.value.Reveal()))
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	key = c.shared(key)
	if p, ok := c.peers.Get(key); ok {
		p.lastUse.Store(now.UnixNano())
		if l, ok := p.link.(*httpLink); ok && renewed && !l.credential.Load().value.Equal(credential.value) {
			l.credential.Store(&credential)
		}
		return p, nil
	}
	way, err := c.link(server, credential)
	if err != nil {
		return nil, err
	}
	p := &peer{key: key, label: server.ID, link: way, turn: make(chan struct{}, 1)}
	if l, ok := way.(*httpLink); ok && renewed {
		p.renew = func(ctx context.Context, refused *header) (bool, error) { return c.renew(ctx, server, l, refused) }
	}
	p.lastUse.Store(now.UnixNano())
	c.keep(key, p)
	return p, nil
}

// organization returns the organization that the session counts for: the caller's, because a server may serve all
// organizations, or else the server's.
func (k *peerKey) organization() string { return cmp.Or(k.asker, k.server.Organization) }

// keep adds a peer. If the organization already has maxOrganizationPeers, its least recently used peer is removed
// first. The caller holds mu.
func (c *Client) keep(key peerKey, p *peer) {
	organization := key.organization()
	if c.peersOf[organization] >= maxOrganizationPeers {
		for _, old := range c.peers.Keys() { // Least recently used first.
			if old.organization() == organization {
				c.peers.Remove(old)
				break
			}
		}
	}
	c.peers.Add(key, p)
	c.peersOf[organization]++
}

// shared returns the key of the peer that serves a key: what may be asked makes no difference to a modern server. The
// caller holds mu.
func (c *Client) shared(key peerKey) peerKey {
	plain := key
	plain.asks = ""
	if p, ok := c.peers.Peek(plain); ok {
		if s := p.session.Load(); s != nil && s.modern {
			return plain
		}
	}
	return key
}

// credential returns the header that authenticates calls to a server.
func (c *Client) credential(ctx context.Context, server *toolserver.Server) (header, error) {
	if c.options.Credentials == nil || server.Credential.Custody == toolserver.CustodyNone || server.Command != "" {
		return header{}, nil
	}
	name, value, err := c.options.Credentials.Header(ctx, server)
	if err == nil && name != "" && ReservedHeader(name) {
		err = errors.New("the credential's header is one of the client's own")
	}
	if shown, ok := errors.AsType[*oauth.Error](err); ok {
		return header{}, &Error{Cause: CauseUnauthorized, Text: "no access token can be had: " + shown.Text, Err: err}
	}
	if err != nil {
		return header{}, &Error{Cause: CauseAuthentication, Text: "the server's credential can't be read", Err: err}
	}
	return header{http.CanonicalHeaderKey(name), value}, nil
}

// link returns the way to a server.
func (c *Client) link(server *toolserver.Server, credential header) (link, error) {
	if server.Command != "" {
		return &pipeLink{commands: c.commands, name: server.Command, changed: func() { c.changed(server.Key()) }}, nil
	}
	at, err := c.guard.CheckSecureURL(server.URL)
	if err != nil {
		return nil, failed(context.Background(), err, false)
	}
	l := &httpLink{transport: c.transport, url: at}
	l.credential.Store(&credential)
	return l, nil
}

// renew replaces an access token that a server refused. It reports whether there is another one.
func (c *Client) renew(ctx context.Context, server *toolserver.Server, l *httpLink, refused *header) (bool, error) {
	if present := l.credential.Load(); present != refused && !present.value.Equal(refused.value) {
		return true, nil // Another call has replaced it.
	}
	if !c.options.Credentials.Refused(server, refused.value) {
		return false, nil
	}
	next, err := c.credential(ctx, server)
	if err != nil {
		return false, err
	}
	l.credential.Store(&next)
	return !next.value.Equal(refused.value), nil
}

// used returns the header that requests of a peer carry now; nil where it can't be replaced.
func (p *peer) used() *header {
	if l, ok := p.link.(*httpLink); ok && p.renew != nil {
		return l.credential.Load()
	}
	return nil
}

// renewed reports whether a request of a peer that failed is to be made once more, with another access token: the server
// has refused the one before, and carried nothing out. again is true of one that was made once more already.
func (p *peer) renewed(ctx context.Context, refused *header, again bool, err error) (bool, error) {
	e, ok := errors.AsType[*Error](err)
	if !ok || again || refused == nil || e.Status != http.StatusUnauthorized || e.Sent {
		return false, err
	}
	again, failure := p.renew(ctx, refused)
	if failure != nil {
		return false, failure
	}
	return again, err
}

// end ends the session of a peer that is forgotten. The caller holds mu.
func (c *Client) end(key peerKey, p *peer) {
	organization := key.organization()
	if c.peersOf[organization]--; c.peersOf[organization] == 0 {
		delete(c.peersOf, organization)
	}
	if s := p.session.Swap(nil); s != nil {
		c.later(func(ctx context.Context) { p.link.end(ctx, s) })
	}
	p.link.close()
}

// Forget drops what is known of a server, so that the next call asks anew. Calls in flight go on.
func (c *Client) Forget(server toolserver.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range c.peers.Keys() {
		if key.server == server {
			c.peers.Remove(key)
		}
	}
}

// sweep drops the peers that were not used for idleAfter.
func (c *Client) sweep(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p, ok := c.peers.GetOldest(); ok && now.Sub(time.Unix(0, p.lastUse.Load())) >= idleAfter; _, p, ok = c.peers.GetOldest() {
		c.peers.RemoveOldest()
	}
}

// later sends a notice soon, if Run runs and not too many wait.
func (c *Client) later(n notice) {
	select {
	case c.notices <- n:
	default:
	}
}

// Run sends notices, drops sessions that are not used and owns the local commands, until ctx ends. It then ends the
// commands.
func (c *Client) Run(ctx context.Context) error {
	var group errgroup.Group
	group.Go(panics.Guard(func() error { return c.commands.run(ctx) }))
	var sending errgroup.Group
	sending.SetLimit(notifiers)
	sweep := time.NewTicker(sweepEach)
	defer sweep.Stop()
	for {
		select {
		case n := <-c.notices:
			sending.Go(panics.Guard(func() error {
				bounded, cancel := context.WithTimeout(ctx, noticeTime)
				defer cancel()
				n(bounded)
				return nil
			}))
		case now := <-sweep.C:
			c.sweep(now)
		case <-ctx.Done():
			err := sending.Wait()
			return errors.Join(err, group.Wait())
		}
	}
}

// host returns a URL's host and port for spans.
func host(u *url.URL) (name, port string) {
	if port = u.Port(); port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Hostname(), port
}
