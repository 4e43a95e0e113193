package oauth

import (
	"net/url"
	"slices"
	"strings"

	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/platform/netguard"
)

// maxNamed bounds the elements of a list that are read; maxURL bounds an address, in bytes.
const (
	maxNamed = 64
	maxURL   = 2048
)

// resourceMetadata is what a server says of itself (RFC 9728).
type resourceMetadata struct {
	resource string
	issuers  []string
}

// parseResource reads a server's metadata.
func parseResource(text []byte) (resourceMetadata, error) {
	var m resourceMetadata
	if wire.Check(text) != nil || !wire.Members(text, func(name string, value []byte) bool {
		switch name {
		case "resource":
			m.resource = address(value)
		case "authorization_servers":
			m.issuers = texts(value)
		}
		return true
	}) {
		return m, broken("the server's metadata is not a JSON object")
	}
	switch {
	case m.resource == "":
		return m, broken("the server's metadata has no resource")
	case len(m.issuers) == 0:
		return m, broken("the server's metadata names no authorization server")
	}
	return m, nil
}

// issuerMetadata is what an authorization server says of itself (RFC 8414).
type issuerMetadata struct {
	issuer, tokenEndpoint string
	// methods, grants and algorithms are nil where it doesn't say.
	methods, grants, algorithms []string
}

// parseIssuer reads an authorization server's metadata.
func parseIssuer(text []byte) (issuerMetadata, error) {
	var m issuerMetadata
	if wire.Check(text) != nil || !wire.Members(text, func(name string, value []byte) bool {
		switch name {
		case "issuer":
			m.issuer = address(value)
		case "token_endpoint":
			m.tokenEndpoint = address(value)
		case "token_endpoint_auth_methods_supported":
			m.methods = texts(value)
		case "token_endpoint_auth_signing_alg_values_supported":
			m.algorithms = texts(value)
		case "grant_types_supported":
			m.grants = texts(value)
		}
		return true
	}) {
		return m, broken("the authorization server's metadata is not a JSON object")
	}
	return m, nil
}

// verify returns the rule that an authorization server's metadata breaks for a client.
func (m *issuerMetadata) verify(c *toolserver.OAuth) error {
	switch {
	case m.issuer != c.Issuer:
		return broken("the authorization server's metadata is of another issuer")
	case m.tokenEndpoint == "":
		return broken("the authorization server's metadata has no token_endpoint")
	case m.grants != nil && !slices.Contains(m.grants, grant):
		return broken("the authorization server does not offer the grant client_credentials")
	case c.TokenEndpoint != "" && m.tokenEndpoint != c.TokenEndpoint:
		return broken("the authorization server's token_endpoint is another one than registered")
	case c.TokenEndpoint == "" && !netguard.SameOrigin(m.tokenEndpoint, c.Issuer):
		return broken("the authorization server's token_endpoint is of another origin than its issuer; register it as token_endpoint")
	}
	return nil
}

// method returns how a client authenticates.
func (m *issuerMetadata) method(c *toolserver.OAuth) (toolserver.Authentication, error) {
	way := c.Authentication
	if way == toolserver.AuthenticationSecret {
		way = toolserver.AuthenticationBasic
		if !slices.Contains(m.methods, string(way)) && slices.Contains(m.methods, string(toolserver.AuthenticationPost)) {
			way = toolserver.AuthenticationPost
		}
	}
	if m.methods != nil && !slices.Contains(m.methods, string(way)) {
		return "", broken("the authorization server does not offer " + string(way))
	}
	return way, nil
}

// resourceURLs returns where a server's metadata may be: at its path, then at the root.
func resourceURLs(server *url.URL) []string {
	root := origin(server) + "/.well-known/oauth-protected-resource"
	if path := strings.TrimSuffix(server.EscapedPath(), "/"); path != "" {
		return []string{root + path, root}
	}
	return []string{root}
}

// issuerURLs returns where an authorization server's metadata may be.
func issuerURLs(issuer *url.URL) []string {
	root, path := origin(issuer), strings.TrimSuffix(issuer.EscapedPath(), "/")
	const oauth, openID = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
	if path == "" {
		return []string{root + oauth, root + openID}
	}
	return []string{root + oauth + path, root + openID + path, root + path + openID}
}

func origin(u *url.URL) string { return u.Scheme + "://" + u.Host }

// identifier returns what a server's URL is as a resource: without query and fragment.
func identifier(server *url.URL) string {
	return origin(server) + strings.TrimSuffix(server.EscapedPath(), "/")
}

// covers reports whether a resource is a server, or what it is a part of: the same origin, and a path that the server's
// begins with.
func covers(resource string, server *url.URL) bool {
	r, err := url.Parse(resource)
	if err != nil || r.User != nil || r.RawQuery != "" || strings.Contains(resource, "#") || !netguard.SameOrigin(resource, server.String()) {
		return false
	}
	path := strings.TrimSuffix(r.EscapedPath(), "/")
	return strings.HasPrefix(strings.TrimSuffix(server.EscapedPath(), "/")+"/", path+"/")
}

// address returns the string of a JSON value, empty for none and for one that is longer than any address.
func address(value []byte) string {
	text, ok := wire.Text(value)
	if !ok || len(text) > maxURL {
		return ""
	}
	return text
}

// texts returns the strings of a JSON array, up to maxNamed.
func texts(array []byte) []string {
	all := []string{}
	wire.Elements(array, func(value []byte) bool {
		if text := address(value); text != "" {
			all = append(all, text)
		}
		return len(all) < maxNamed
	})
	return all
}
