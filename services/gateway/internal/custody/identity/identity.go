// Package identity makes cloud identities into credentials: it exchanges what a workload has (a role, a service account,
// a token of its cluster) for access tokens and signing keys of AWS, Google, Azure, OpenAI and Anthropic, and renews them
// before they end. The policy holds its Config, package identity/cloud opens the Source of a Config, and the Manager
// keeps one current credential for each. Package keyring asks it for credentials; internal/app constructs it.
//
// It reads nothing that the Config does not name: there is no default chain of sources.
package identity

import (
	"context"
	"errors"
	"net/http"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/secret"
)

// ErrUnavailable is the error of a Credential if there is none now: the last exchange failed, and the next one is not
// due yet. The error that wraps it says why, without secrets.
var ErrUnavailable = errors.New("the identity has no credential now")

// Source exchanges one identity for credentials. Safe for concurrent use.
type Source interface {
	// Exchange asks the token server for a new credential. It reads the files of the identity anew. Its error holds
	// nothing of an answer's text but a code, since a token server may repeat what it was sent.
	Exchange(ctx context.Context) (Grant, error)
}

// Grant is the result of an exchange: an access token or a signer.
type Grant struct {
	// Token is sent as "Authorization: Bearer"; zero if there is a Signer.
	Token secret.Value
	// Signer signs requests instead; nil if there is a Token.
	Signer provider.Signer
	// Headers are further headers that the vendor wants with the token; may be nil.
	Headers http.Header
	// Subject says whom the credential stands for where only the exchange knows it, such as the mail of a service
	// account that its file names. It is hashed, and never shown.
	Subject string
	// Expires is when the credential ends; zero for one that doesn't end by itself.
	Expires time.Time
	// Renew is when the vendor wants it renewed; zero for the default, four fifths of its life.
	Renew time.Time
}

// check returns an error for a grant that can't be used.
func (g *Grant) check(now time.Time) error {
	switch {
	case g.Token.IsZero() == (g.Signer == nil):
		return errors.New("the answer has no token")
	case !g.Token.IsZero() && (len(g.Token.Reveal()) > maxToken || !printable(g.Token.Reveal())):
		return errors.New("the answer has a token that can't stand in a header")
	case !g.Expires.IsZero() && !g.Expires.After(now):
		return errors.New("the answer has a token that has ended already; compare the clocks")
	case g.Expires.IsZero() && g.Renew.IsZero():
		return errors.New("the answer does not say when the token ends")
	}
	return nil
}

// credential returns the grant as callers use it.
func (g *Grant) credential(source, fingerprint string) provider.Credential {
	return provider.Credential{
		Key: g.Token, Bearer: g.Signer == nil, Headers: g.Headers, Signer: g.Signer, Source: source, Fingerprint: fingerprint,
	}
}

// Life returns the duration of a number of seconds; 0 for one that is not positive, and a year at most.
func Life(seconds float64) time.Duration {
	const year = 365 * 24 * 3600
	if !(seconds > 0) { // Or not a number.
		return 0
	}
	return time.Duration(min(seconds, year) * float64(time.Second))
}
