// Package auth owns how deliveries authenticate to an endpoint, beyond their signatures: the kinds and their rules, the
// form in which they are stored, and the access tokens of OAuth 2.0. Package endpoint checks and seals with it; the
// dispatcher authenticates each attempt with it.
package auth

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

// Kind is a way to authenticate.
type Kind string

// The kinds.
const (
	Bearer Kind = "bearer"
	Basic  Kind = "basic"
	Header Kind = "header"
	OAuth2 Kind = "oauth2"
	MTLS   Kind = "mtls"
)

// The names of the client authentication methods of a token endpoint (RFC 7591, section 2).
const (
	StyleBasic = "client_secret_basic"
	StylePost  = "client_secret_post"
)

// Authorization is the header that all kinds but [Header] and [MTLS] set.
const Authorization = "Authorization"

// Info is the part that is not secret, as callers see it. Only the fields of its kind are set.
type Info struct {
	Kind       Kind   `json:"kind"`
	HeaderName string `json:"header_name,omitempty"`
	// The client of an OAuth 2.0 token endpoint.
	TokenURL string   `json:"token_url,omitempty"`
	ClientID string   `json:"client_id,omitempty"`
	Scopes   []string `json:"scopes,omitempty"`
	Audience string   `json:"audience,omitempty"`
	Style    string   `json:"auth_style,omitempty"`
	// Certificate describes a client certificate; nil for other kinds.
	Certificate *Certificate `json:"certificate,omitempty"`
}

// Certificate describes the leaf of a client certificate.
type Certificate struct {
	Subject string `json:"subject"`
	// Fingerprint is the SHA-256 of the DER form, in hex.
	Fingerprint string    `json:"fingerprint_sha256"`
	NotAfter    time.Time `json:"not_after"`
}

// Auth is how deliveries to an endpoint authenticate. The zero Auth is none.
type Auth struct {
	Info

	// Chain is a client certificate in PEM.
	Chain string
	// Secret is the token, `user:password`, the header's value, the client's secret, or the private key in PEM.
	Secret secret.Value
}

// SetsHeader returns the canonical name of the header that the kind sets; empty for none.
func (i Info) SetsHeader() string {
	switch i.Kind {
	case Bearer, Basic, OAuth2:
		return Authorization
	case Header:
		return i.HeaderName
	case MTLS:
	}
	return ""
}

// HeaderValue returns the value of the header that a fixed credential sets; empty for OAuth2 and MTLS.
func (a Auth) HeaderValue() string {
	switch a.Kind {
	case Bearer:
		return "Bearer " + a.Secret.Reveal()
	case Basic:
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(a.Secret.Reveal()))
	case Header:
		return a.Secret.Reveal()
	case OAuth2, MTLS:
	}
	return ""
}

// NewBearer returns an Auth with a fixed token (RFC 6750).
func NewBearer(token string) (Auth, error) {
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return Auth{}, apierr.Invalid("auth.bearer.token", "must be visible ASCII without spaces")
	}
	return Auth{Info: Info{Kind: Bearer}, Secret: secret.New(token)}, nil
}

// NewBasic returns an Auth with a user name and a password (RFC 7617).
func NewBasic(user, password string) (Auth, error) {
	switch {
	case user == "" && password == "":
		return Auth{}, apierr.Invalid("auth.basic", "needs a username or a password")
	case strings.Contains(user, ":") || !text(user):
		return Auth{}, apierr.Invalid("auth.basic.username", "must be text without colons and control characters")
	case !text(password):
		return Auth{}, apierr.Invalid("auth.basic.password", "must be text without control characters")
	}
	return Auth{Info: Info{Kind: Basic}, Secret: secret.New(user + ":" + password)}, nil
}

// NewHeader returns an Auth that sets a header. The rules are those of custom headers.
func NewHeader(name, value string) (Auth, error) {
	if rule := delivery.HeaderRule(name, value); rule != "" {
		return Auth{}, apierr.New(apierr.KindInvalid, delivery.ReasonHeaderNotAllowed, "auth.header: the header "+rule)
	}
	return Auth{Info: Info{Kind: Header, HeaderName: http.CanonicalHeaderKey(name)}, Secret: secret.New(value)}, nil
}

// NewOAuth2 returns an Auth that gets tokens by client credentials (RFC 6749, section 4.4). The caller has checked
// info.TokenURL; an empty info.Style is StyleBasic.
func NewOAuth2(info Info, clientSecret string) (Auth, error) {
	info.Kind = OAuth2
	if info.Style == "" {
		info.Style = StyleBasic
	}
	switch {
	case !text(info.ClientID):
		return Auth{}, apierr.Invalid("auth.oauth2.client_id", "must be text without control characters")
	case !text(clientSecret):
		return Auth{}, apierr.Invalid("auth.oauth2.client_secret", "must be text without control characters")
	case !text(info.Audience):
		return Auth{}, apierr.Invalid("auth.oauth2.audience", "must be text without control characters")
	}
	return Auth{Info: info, Secret: secret.New(clientSecret)}, nil
}

// text reports whether s is valid UTF-8 without control characters.
func text(s string) bool { return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl) }

// stored is the form in which an Auth is sealed.
type stored struct {
	Info   Info   `json:"info"`
	Chain  string `json:"chain,omitempty"`
	Secret string `json:"secret"`
}

// Encode returns the form to be sealed. It contains the secret in plain text.
func (a Auth) Encode() ([]byte, error) {
	encoded, err := json.Marshal(stored{a.Info, a.Chain, a.Secret.Reveal()}) //nolint:gosec // The caller seals it.
	if err != nil {
		return nil, fmt.Errorf("encode auth: %w", err)
	}
	return encoded, nil
}

// Decode is the inverse of Encode. Its errors don't repeat the input.
func Decode(encoded []byte) (Auth, error) {
	var s stored
	if err := json.Unmarshal(encoded, &s); err != nil || s.Info.Kind == "" {
		return Auth{}, errors.New("auth: the stored form is malformed")
	}
	return Auth{s.Info, s.Chain, secret.New(s.Secret)}, nil
}

// SealedFor returns the owner to which an endpoint's sealed Auth is bound, so that no other sealed text of the endpoint
// can take its place.
func SealedFor(endpoint delivery.ID) string { return endpoint.String() + "/auth" }
