package toolserver

import (
	"context"
	"net/url"
	"strings"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/netguard"
	"switchyard.dev/services/platform/secret"
)

// Authentication is how a client of OAuth authenticates at the token endpoint.
type Authentication string

// The ways. AuthenticationSecret is by a secret, in the way that the authorization server's metadata says.
const (
	AuthenticationSecret Authentication = ""
	AuthenticationBasic  Authentication = "client_secret_basic"
	AuthenticationPost   Authentication = "client_secret_post"
	AuthenticationKey    Authentication = "private_key_jwt"
)

// OAuth is the gateway as a client of OAuth 2.1 at a server's authorization server. The credential's secret is then the
// client's: it is exchanged for access tokens, and never sent to the server.
type OAuth struct {
	ClientID       string         `json:"client_id"`
	Authentication Authentication `json:"authentication,omitempty"`
	// KeyID names the private key of AuthenticationKey; empty for none.
	KeyID string `json:"key_id,omitempty"`
	// Scopes are asked for; none leaves them to the authorization server.
	Scopes []string `json:"scopes,omitempty"`
	// Issuer is the authorization server, exactly as its metadata has it.
	Issuer string `json:"issuer"`
	// TokenEndpoint is empty for one of the issuer's origin.
	TokenEndpoint string `json:"token_endpoint,omitempty"`
	// Resource is what tokens are asked for; empty for what the server's metadata says, else its URL without the query.
	Resource string `json:"resource,omitempty"`
}

// OAuthClient knows the rules of package oauth, which is above this one.
type OAuthClient interface {
	// CheckSecret returns the rule that a client's secret, or private key, breaks. It repeats nothing of the secret.
	CheckSecret(way Authentication, value secret.Value) error
	// Issuer returns the authorization server that a server names. The error may be shown.
	Issuer(ctx context.Context, serverURL string) (string, error)
}

// checkClient applies the rules of a client of OAuth that need nothing but the offer itself.
func (o *Offer) checkClient() error {
	c := o.OAuth
	if o.Header != "" || o.Scheme != nil {
		return apierr.Invalid("credential.header", "must not be set with oauth: access tokens are in Authorization, behind Bearer")
	}
	if c.KeyID != "" && c.Authentication != AuthenticationKey {
		return apierr.Invalid("credential.oauth.key_id", "must not be set without private_key_jwt")
	}
	if c.Resource != "" {
		if u, err := url.Parse(c.Resource); err != nil || u.Scheme == "" || u.User != nil || strings.Contains(c.Resource, "#") {
			return apierr.Invalid("credential.oauth.resource", "must be an absolute URI without a user and a fragment")
		}
	}
	return nil
}

// settleClient checks where a client's secret goes, and finds out the issuer where it is absent.
func (m *Manager) settleClient(ctx context.Context, s *Server, c *OAuth) error {
	if c.Issuer == "" {
		named, err := m.OAuth.Issuer(ctx, s.URL)
		if err != nil {
			return apierr.Invalid("credential.oauth.issuer", "is required, because the server's issuer can't be discovered: "+err.Error())
		}
		if !netguard.SameOrigin(named, s.URL) {
			return apierr.Invalid("credential.oauth.issuer", "is required, as the server names one of another origin than its own")
		}
		c.Issuer = named
	}
	if u, err := url.Parse(c.Issuer); err != nil || u.RawQuery != "" || strings.ContainsAny(c.Issuer, "?#") {
		return apierr.Invalid("credential.oauth.issuer", "must be a URL without query and fragment")
	}
	if err := m.checkURL(ctx, "credential.oauth.issuer", c.Issuer); err != nil || c.TokenEndpoint == "" {
		return err
	}
	return m.checkURL(ctx, "credential.oauth.token_endpoint", c.TokenEndpoint)
}
