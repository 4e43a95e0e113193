// Package oauth gets access tokens for tool servers, as a client of OAuth 2.1 with the grant client_credentials: it finds
// the metadata of the server (RFC 9728) and of its authorization server (RFC 8414, or OpenID Connect), and asks for tokens
// for the server alone (RFC 8707). No person consents: the gateway acts for itself. Package identity keeps the tokens and
// renews them ahead; package credential asks for them, package upstream sends them.
//
// A client's secret goes to origins that its registration names, and nowhere else: the issuer is never taken from a
// server, and the token endpoint must be of its origin or the one that the registration has. Every address passes the
// guard and is https; redirects are not followed; every answer is bounded by package identity.
package oauth

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"strings"

	"switchyard.dev/services/gateway/internal/custody/identity"
	"switchyard.dev/services/platform/netguard"
)

// Error is why there is no access token. Its text may be shown: it holds nothing of what was sent, and of answers at most
// a code.
type Error struct {
	Text string
	// Err is the error below, for the log; nil for none.
	Err error
}

// Error implements error.
func (e *Error) Error() string { return e.Text }

// Unwrap returns the error below.
func (e *Error) Unwrap() error { return e.Err }

// broken returns the error of an answer that breaks a rule.
func broken(text string) *Error { return &Error{Text: text} }

// Client asks servers and authorization servers. Safe for concurrent use.
type Client struct {
	http  *http.Client
	check func(url string) error
}

// New returns a Client over a transport whose connections pass the guard. check refuses URLs that are not https of public
// hosts, without a lookup; see upstream.Client.CheckURL.
func New(transport http.RoundTripper, check func(url string) error) *Client {
	return &Client{http: identity.NewClients(transport, transport).Token, check: check}
}

// failed returns the error of a call to an address; what says whose it is.
func failed(what string, err error) *Error {
	e := &Error{Text: what + " can't be reached", Err: err}
	refusal, refused := errors.AsType[*identity.RefusedError](err)
	guarded, guards := errors.AsType[*netguard.Refusal](err)
	timeout, timed := errors.AsType[net.Error](err)
	switch {
	case refused:
		e.Text = fmt.Sprintf("%s answered with status %d", what, refusal.Status)
		if refusal.Code != "" {
			e.Text += ": " + refusal.Code
		}
	case guards:
		e.Text = what + " is at an address that is not allowed (" + guarded.Rule + ")"
	case errors.Is(err, identity.ErrRedirected):
		e.Text = what + " redirects, which is not followed"
	case errors.Is(err, identity.ErrTooLarge):
		e.Text = what + " answered with more than is read"
	case errors.Is(err, context.DeadlineExceeded), timed && timeout.Timeout():
		e.Text = what + " did not answer in time"
	}
	return e
}

// agent is the User-Agent of all requests.
const agent = "switchyard-gateway"

// call makes a request and returns the body of its answer; nil for one that is not JSON.
func (c *Client) call(r *http.Request) ([]byte, error) {
	r.Header.Set("User-Agent", agent)
	r.Header.Set("Accept", "application/json")
	header, body, err := identity.Call(c.http, r)
	if err != nil {
		return nil, err
	}
	if kind, _, _ := mime.ParseMediaType(header.Get("Content-Type")); kind != "application/json" && !strings.HasSuffix(kind, "+json") {
		return nil, nil
	}
	return body, nil
}
