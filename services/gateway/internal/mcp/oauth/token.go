package oauth

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"switchyard.dev/services/gateway/internal/custody/identity"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/platform/secret"
)

const (
	grant         = "client_credentials"
	assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
	// assumedLife is the life of a token whose answer doesn't say it.
	assumedLife = 5 * time.Minute
)

// ask asks for a token.
func (c *Client) ask(ctx context.Context, at *endpoint, client *toolserver.OAuth, value secret.Value) (identity.Grant, error) {
	began := time.Now()
	request, err := tokenRequest(ctx, at, client, value, began)
	if err != nil {
		return identity.Grant{}, err
	}
	if err := c.check(at.url); err != nil {
		return identity.Grant{}, failed(theIssuer, err)
	}
	body, err := c.call(request)
	if err != nil {
		return identity.Grant{}, failed(theIssuer, err)
	}
	return parseToken(body, at.resource, began)
}

// tokenRequest returns the request for a token.
func tokenRequest(ctx context.Context, at *endpoint, client *toolserver.OAuth, value secret.Value, now time.Time) (*http.Request, error) {
	form := url.Values{"grant_type": {grant}, "resource": {at.resource}}
	if len(client.Scopes) > 0 {
		form.Set("scope", strings.Join(client.Scopes, " "))
	}
	basic := ""
	if at.method == toolserver.AuthenticationKey {
		signed, err := assertion(client, value, at.algorithms, now)
		if err != nil {
			return nil, err
		}
		form.Set("client_id", client.ClientID)
		form.Set("client_assertion_type", assertionType)
		form.Set("client_assertion", signed)
	} else {
		text, err := clientSecret(value)
		switch {
		case err != nil:
			return nil, &Error{Text: err.Error()}
		case at.method == toolserver.AuthenticationPost:
			form.Set("client_id", client.ClientID)
			form.Set("client_secret", text)
		default: // RFC 6749, section 2.3.1: both as in a form.
			basic = base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(client.ClientID) + ":" + url.QueryEscape(text)))
		}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, at.url, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, broken("the authorization server's token_endpoint can't be read")
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if basic != "" {
		request.Header.Set("Authorization", "Basic "+basic)
	}
	return request, nil
}

// parseToken reads the answer to a request for a token of a resource.
func parseToken(body []byte, resource string, began time.Time) (identity.Grant, error) {
	var kind, token string
	var life []byte
	if wire.Check(body) != nil || !wire.Members(body, func(name string, value []byte) bool {
		switch name {
		case "access_token":
			token, _ = wire.Text(value)
		case "token_type":
			kind, _ = wire.Text(value)
		case "expires_in":
			life = value
		}
		return true
	}) {
		return identity.Grant{}, broken("the authorization server's answer is not the JSON of a token")
	}
	lives, err := lifetime(life)
	switch {
	case err != nil:
		return identity.Grant{}, err
	case !strings.EqualFold(kind, "Bearer"):
		return identity.Grant{}, broken("the authorization server's answer has a token_type that is not Bearer")
	case !toolserver.FitsHeader(token):
		return identity.Grant{}, broken("the authorization server's answer has no access_token of 1 to 8192 printable characters")
	case !intendedFor(token, resource):
		return identity.Grant{}, broken("the authorization server's token is for another audience than the server")
	}
	return identity.Grant{Token: secret.New(token), Expires: began.Add(lives)}, nil
}

// lifetime returns the life of a token by the JSON of expires_in, nil where it is absent. Package identity uses none for
// longer than a day.
func lifetime(value []byte) (time.Duration, error) {
	if value == nil {
		return assumedLife, nil
	}
	text := string(bytes.Trim(value, `"`)) // Some servers send a string.
	seconds, err := strconv.ParseFloat(text, 64)
	if life := identity.Life(seconds); err == nil && !math.IsInf(seconds, 0) && life >= time.Second {
		return life, nil
	}
	return 0, broken("the authorization server's answer has an expires_in that is no number of seconds from 1")
}

// intendedFor reports whether a token is for a resource, as far as it can be read: a JSON Web Token with an audience names
// the resource among it, up to a slash at the end. The signature is the server's to check.
func intendedFor(token, resource string) bool {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return true
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return true
	}
	var claims struct {
		Audience json.RawMessage `json:"aud"`
	}
	if wire.Check(text) != nil || json.Unmarshal(text, &claims) != nil || claims.Audience == nil {
		return true
	}
	audience := texts(claims.Audience)
	if one, ok := wire.Text(claims.Audience); ok {
		audience = []string{one}
	}
	for _, name := range audience {
		if strings.TrimSuffix(name, "/") == strings.TrimSuffix(resource, "/") {
			return true
		}
	}
	return false
}
