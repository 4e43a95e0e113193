package oauth

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"switchyard.dev/services/gateway/internal/custody/identity"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/platform/netguard"
)

// Texts that say whose address it is.
const (
	theServer = "the server"
	theIssuer = "the authorization server"
)

// issuerTime bounds asking a server for its authorization server.
const issuerTime = 10 * time.Second

// endpoint is where a client gets tokens of a server.
type endpoint struct {
	url, resource string
	method        toolserver.Authentication
	algorithms    []string
}

// discover finds the token endpoint for a client of a server. It makes seven requests at most.
func (c *Client) discover(ctx context.Context, serverURL string, client *toolserver.OAuth) (endpoint, error) {
	at, err := url.Parse(serverURL)
	if err != nil {
		return endpoint{}, broken("the server's URL can't be read")
	}
	found := endpoint{resource: identifier(at)}
	said, known, err := c.resource(ctx, at)
	switch {
	case err != nil:
		return endpoint{}, err
	case known && !slices.Contains(said.issuers, client.Issuer):
		return endpoint{}, broken("the server does not name the registered issuer as its authorization server")
	case known:
		found.resource = said.resource
	}
	if client.Resource != "" {
		found.resource = client.Resource
	}
	m, err := c.issuer(ctx, client)
	if err != nil {
		return endpoint{}, err
	}
	if found.method, err = m.method(client); err != nil {
		return endpoint{}, err
	}
	found.url, found.algorithms = m.tokenEndpoint, m.algorithms
	return found, nil
}

// Issuer implements toolserver.OAuthClient: the only authorization server that a server names.
func (c *Client) Issuer(ctx context.Context, serverURL string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, issuerTime)
	defer cancel()
	at, err := url.Parse(serverURL)
	if err != nil {
		return "", broken("the server's URL can't be read")
	}
	m, known, err := c.resource(ctx, at)
	switch {
	case err != nil:
		return "", err
	case !known:
		return "", broken("the server has no metadata of a protected resource")
	case len(m.issuers) > 1:
		return "", broken("the server names several authorization servers")
	}
	return m.issuers[0], nil
}

// resource returns a server's metadata; false if it has none. Where it is at none of the usual places, the server is asked
// without a credential, and what it answers is followed within its own origin.
func (c *Client) resource(ctx context.Context, server *url.URL) (m resourceMetadata, known bool, err error) {
	for _, place := range resourceURLs(server) {
		if m, known, err = c.resourceAt(ctx, server, place); known || err != nil {
			return m, known, err
		}
	}
	place, err := c.challenged(ctx, server)
	if place == "" || err != nil || !netguard.SameOrigin(place, server.String()) {
		return m, false, err
	}
	return c.resourceAt(ctx, server, place)
}

func (c *Client) resourceAt(ctx context.Context, server *url.URL, place string) (m resourceMetadata, known bool, err error) {
	text, err := c.document(ctx, theServer, place)
	if text == nil || err != nil {
		return m, false, err
	}
	if m, err = parseResource(text); err != nil {
		return m, false, err
	}
	if !covers(m.resource, server) {
		return m, false, broken("the server's metadata is of another resource")
	}
	return m, true, nil
}

// issuer returns the verified metadata of a client's authorization server.
func (c *Client) issuer(ctx context.Context, client *toolserver.OAuth) (issuerMetadata, error) {
	at, err := url.Parse(client.Issuer)
	if err != nil {
		return issuerMetadata{}, broken("the issuer can't be read")
	}
	for _, place := range issuerURLs(at) {
		text, err := c.document(ctx, theIssuer, place)
		if err != nil {
			return issuerMetadata{}, err
		}
		if text == nil {
			continue
		}
		m, err := parseIssuer(text)
		if err == nil {
			err = m.verify(client)
		}
		return m, err
	}
	return issuerMetadata{}, broken("the authorization server has no metadata")
}

// document returns the text at an address; nil if there is none, or a page for people.
func (c *Client) document(ctx context.Context, whose, place string) ([]byte, error) {
	if err := c.check(place); err != nil {
		return nil, failed(whose, err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, place, nil)
	if err != nil {
		return nil, failed(whose, err)
	}
	text, err := c.call(request)
	if refusal, ok := errors.AsType[*identity.RefusedError](err); ok && absent(refusal.Status) {
		return nil, nil
	}
	if err != nil {
		return nil, failed(whose, err)
	}
	return text, nil
}

// absent reports whether a status says that there is no document.
func absent(status int) bool {
	return status >= http.StatusBadRequest && status < http.StatusInternalServerError &&
		status != http.StatusRequestTimeout && status != http.StatusTooManyRequests
}

// ping is a request that any server may be asked, and that one with a protected resource refuses without a token.
const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

// challenged asks a server without a credential, and returns the address of its metadata in the answer; empty for none.
func (c *Client) challenged(ctx context.Context, server *url.URL) (string, error) {
	if err := c.check(server.String()); err != nil {
		return "", failed(theServer, err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.String(), strings.NewReader(ping))
	if err != nil {
		return "", failed(theServer, err)
	}
	request.Header.Set("User-Agent", agent)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	answer, err := c.http.Do(request)
	if err != nil {
		return "", failed(theServer, identity.Plain(err, "ask the server"))
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusUnauthorized {
		return "", nil
	}
	return ParseChallenge(answer.Header).ResourceMetadata, nil
}
