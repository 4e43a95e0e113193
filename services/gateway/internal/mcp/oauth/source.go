package oauth

import (
	"context"
	"sync"
	"time"

	"switchyard.dev/services/gateway/internal/custody/identity"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/platform/secret"
)

// keepMetadata is how long metadata is used. It is read anew after each failure.
const keepMetadata = time.Hour

// Source exchanges a client's secret for access tokens of one server. It implements identity.Source. Safe for concurrent
// use.
type Source struct {
	client *Client
	url    string
	oauth  toolserver.OAuth
	// secret reads the client's secret. It is read for each exchange, so that replacing it is the rotation.
	secret func(ctx context.Context) (secret.Value, error)

	mu    sync.Mutex
	found *endpoint // nil for none
	at    time.Time
}

// Source returns the source of the tokens of a server whose credential is a client of OAuth.
func (c *Client) Source(server *toolserver.Server, read func(ctx context.Context) (secret.Value, error)) *Source {
	return &Source{client: c, url: server.URL, oauth: *server.Credential.OAuth, secret: read}
}

// Forget makes the next exchange read metadata anew.
func (s *Source) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found = nil
}

// Exchange implements identity.Source. Its error is an *Error.
func (s *Source) Exchange(ctx context.Context) (identity.Grant, error) {
	value, err := s.secret(ctx)
	if err != nil {
		return identity.Grant{}, &Error{Text: "the client's secret can't be read", Err: err}
	}
	at, err := s.endpoint(ctx)
	if err != nil {
		return identity.Grant{}, err
	}
	granted, err := s.client.ask(ctx, at, &s.oauth, value)
	if err != nil {
		s.Forget()
	}
	return granted, err
}

// endpoint returns the token endpoint, from metadata that is young enough.
func (s *Source) endpoint(ctx context.Context) (*endpoint, error) {
	if found := s.known(time.Now()); found != nil {
		return found, nil
	}
	found, err := s.client.discover(ctx, s.url, &s.oauth)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found, s.at = &found, time.Now()
	return s.found, nil
}

func (s *Source) known(now time.Time) *endpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.found == nil || now.Sub(s.at) > keepMetadata {
		return nil
	}
	return s.found
}
