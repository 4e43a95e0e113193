package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"switchyard.dev/services/platform/netguard"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

const (
	// tokenTimeout bounds one request to a token server, from the lookup to the last byte.
	tokenTimeout = 5 * time.Second
	// maxTokenResponse bounds what is read of a token server's response, maxToken a token itself, in bytes.
	maxTokenResponse, maxToken = 64 << 10, 16 << 10
	// minPause is the least time between two requests of a replica to a token server for one endpoint, unless the token
	// expires earlier.
	minPause = time.Second
	// defaultLifetime is for servers that don't say one; minLifetime and maxLifetime bound what they say.
	defaultLifetime, minLifetime, maxLifetime = 5 * time.Minute, 2 * minPause, 24 * time.Hour
	// renewAhead is how long before its expiry a token is renewed; a short-lived one after three quarters of its life.
	renewAhead = time.Minute
	// maxSources bounds for how many endpoints tokens are cached.
	maxSources = 10_000
)

// Tokens gets access tokens by client credentials (RFC 6749, section 4.4) and caches one for each endpoint. One request
// at a time is made for an endpoint. It is safe for concurrent use.
type Tokens struct {
	client *http.Client
	now    func() time.Time

	mu      sync.Mutex
	sources map[delivery.ID]*source
}

// NewTokens returns Tokens whose requests go through guard and follow no redirect.
func NewTokens(guard *netguard.Guard, now func() time.Time) *Tokens {
	client := guard.Client(tokenTimeout, netguard.TransportOptions{MaxIdlePerHost: 1, ResponseHeader: tokenTimeout})
	client.Transport = bounded{client.Transport}
	return &Tokens{client: client, now: now, sources: make(map[delivery.ID]*source)}
}

// Close closes idle connections.
func (t *Tokens) Close() { t.client.CloseIdleConnections() }

// Get returns a token for the endpoint, whose Auth is of the kind OAuth2. refused is the token that the endpoint has
// just answered with 401, or zero: another one is then requested, unless the last request was less than a second ago.
// While a token that is about to expire is being renewed, and when that fails, it is still returned.
func (t *Tokens) Get(ctx context.Context, endpoint delivery.ID, a Auth, refused secret.Value) (secret.Value, error) {
	s := t.source(endpoint, a)
	present := s.read()
	switch now := t.now(); {
	case !present.due(now, refused):
		return present.result(now, refused)
	case present.usable(now, refused):
		select {
		case s.turn <- struct{}{}:
		default: // Another delivery renews it.
			return present.token, nil
		}
	default:
		select {
		case s.turn <- struct{}{}:
		case <-ctx.Done():
			return secret.Value{}, fmt.Errorf("wait for a token: %w", ctx.Err())
		}
	}
	defer func() { <-s.turn }()
	if present = s.read(); present.due(t.now(), refused) {
		next := present.after(t.fetch(ctx, a))
		if next.err != nil && ctx.Err() != nil { // The delivery's time is over, which says nothing about the server.
			return secret.Value{}, next.err
		}
		present = next
		s.write(present)
	}
	return present.result(t.now(), refused)
}

// source returns the cached source of an endpoint, or a new one if its Auth has changed.
func (t *Tokens) source(endpoint delivery.ID, a Auth) *source {
	config := sha256.Sum256([]byte(strings.Join([]string{
		a.TokenURL, a.ClientID, strings.Join(a.Scopes, " "), a.Audience, a.Style, a.Secret.Reveal(),
	}, "\x00")))
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.sources[endpoint]; s != nil && s.config == config {
		return s
	}
	if len(t.sources) >= maxSources {
		clear(t.sources)
	}
	s := &source{config: config, turn: make(chan struct{}, 1)}
	t.sources[endpoint] = s
	return s
}

// source is the token of one endpoint.
type source struct {
	config [sha256.Size]byte
	// turn is held by the one who asks the server.
	turn chan struct{}

	mu    sync.Mutex
	state state
}

func (s *source) read() state {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

func (s *source) write(next state) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = next
}

// state is what is known of a token.
type state struct {
	token          secret.Value
	renew, expires time.Time
	// asked is when the last request ended, err its error.
	asked time.Time
	err   error
}

// usable reports whether the token may be sent at now.
func (s state) usable(now time.Time, refused secret.Value) bool {
	if s.token.IsZero() || !now.Before(s.expires) {
		return false
	}
	return refused.IsZero() || !s.token.Equal(refused)
}

// due reports whether the server is to be asked at now.
func (s state) due(now time.Time, refused secret.Value) bool {
	if now.Sub(s.asked) < minPause {
		return false
	}
	return !s.usable(now, refused) || !now.Before(s.renew)
}

// errRefused means that the endpoint refuses a token that has only just been issued.
var errRefused = errors.New("the endpoint refuses a new token")

func (s state) result(now time.Time, refused secret.Value) (secret.Value, error) {
	switch {
	case s.usable(now, refused):
		return s.token, nil
	case s.err != nil:
		return secret.Value{}, s.err
	}
	return secret.Value{}, errRefused
}

// granted is what a token server has answered at a time.
type granted struct {
	at       time.Time
	token    secret.Value
	lifetime time.Duration
	err      error
}

// after returns the state after a request. A failure leaves the token as it is.
func (s state) after(g granted) state {
	s.asked, s.err = g.at, g.err
	if g.err == nil {
		s.token = g.token
		s.expires = g.at.Add(g.lifetime)
		s.renew = s.expires.Add(-min(renewAhead, g.lifetime/4))
	}
	return s
}

// fetch requests a token.
func (t *Tokens) fetch(ctx context.Context, a Auth) granted {
	config := clientcredentials.Config{
		ClientID: a.ClientID, ClientSecret: a.Secret.Reveal(), TokenURL: a.TokenURL, Scopes: a.Scopes, AuthStyle: oauth2.AuthStyleInHeader,
	}
	if a.Style == StylePost {
		config.AuthStyle = oauth2.AuthStyleInParams
	}
	if a.Audience != "" {
		config.EndpointParams = url.Values{"audience": {a.Audience}}
	}
	issued, err := config.Token(context.WithValue(ctx, oauth2.HTTPClient, t.client))
	g := granted{at: t.now()}
	if err != nil {
		g.err = explain(ctx, err)
		return g
	}
	if g.err = checkToken(issued); g.err != nil {
		return g
	}
	g.token, g.lifetime = secret.New(issued.AccessToken), defaultLifetime
	if !issued.Expiry.IsZero() {
		g.lifetime = min(max(time.Until(issued.Expiry), minLifetime), maxLifetime)
	}
	return g
}

// checkToken refuses what can't be sent as a bearer token (RFC 6750, section 2.1).
func checkToken(issued *oauth2.Token) error {
	switch token := issued.AccessToken; {
	case issued.TokenType != "" && !strings.EqualFold(issued.TokenType, "bearer"):
		return errors.New("token server: the token is not a bearer token")
	case len(token) > maxToken:
		return fmt.Errorf("token server: the token is over %d bytes", maxToken)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("token server: the token has spaces, control or non-ASCII characters")
	}
	return nil
}

// explain returns an error without what the server wrote, which may repeat a credential.
func explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("token server: %w", ctx.Err())
	}
	if refusal, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return fmt.Errorf("token server: no token in an answer with status %d", refusal.Response.StatusCode)
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok { // Its URL may hold a credential.
		return fmt.Errorf("token server: %w", wrapped.Err)
	}
	return errors.New("token server: the answer is no token, or did not end in time")
}

// bounded limits how much of a response can be read. It fails on a response that changes the protocol, whose body has
// no end to which a timeout applies.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusSwitchingProtocols {
		_ = response.Body.Close()
		return nil, errors.New("the protocol was changed")
	}
	response.Body = limitedBody{io.LimitReader(response.Body, maxTokenResponse), response.Body}
	return response, nil
}

// CloseIdleConnections closes those of the transport below.
func (b bounded) CloseIdleConnections() {
	if closer, ok := b.next.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

type limitedBody struct {
	io.Reader
	io.Closer
}
