// Package azure exchanges identities of Microsoft Entra for access tokens: applications with a secret or with a token of
// another issuer, and managed identities. Package identity/cloud opens it, in builds that have Azure's library.
package azure

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"switchyard.dev/services/gateway/internal/custody/identity"
	"switchyard.dev/services/platform/secret"
)

// Source exchanges one identity.
type Source struct {
	config  identity.Azure
	clients identity.Clients
}

// New returns the source of a complete configuration.
func New(c identity.Azure, clients identity.Clients) (*Source, error) {
	return &Source{config: c, clients: clients}, nil
}

// Exchange implements identity.Source. It makes the library's credential anew, whose cache would otherwise return the
// token that is to be renewed.
func (s *Source) Exchange(ctx context.Context) (identity.Grant, error) {
	made, recorder, err := s.credential()
	if err != nil {
		return identity.Grant{}, err
	}
	options := policy.TokenRequestOptions{Scopes: []string{s.config.Scope}}
	if s.config.Source != "" {
		// The library caches the tokens of managed identities for the whole process, and ignores that cache for a
		// request with claims. It sends these nowhere.
		options.Claims = "{}"
	}
	token, err := made.GetToken(ctx, options)
	if err != nil {
		return identity.Grant{}, recorder.Error(err, "get a token of Entra")
	}
	return identity.Grant{Token: secret.New(token.Token), Expires: token.ExpiresOn, Renew: token.RefreshOn}, nil
}

func (s *Source) credential() (azcore.TokenCredential, *identity.Recorder, error) {
	c := &s.config
	if c.Source == identity.SourceManagedIdentity {
		return s.managed()
	}
	clients, recorder := s.clients.Record()
	client := clients.Token
	authority, err := url.Parse(c.Authority)
	if err != nil {
		return nil, nil, errors.New("authority: not a URL")
	}
	if authority.Scheme == "http" { // This machine's; the library takes https only.
		client.Transport = redirected{client.Transport, authority.Host, authority}
	}
	common := azcore.ClientOptions{
		Transport: client, Retry: noRetry,
		Cloud: cloud.Configuration{ActiveDirectoryAuthorityHost: "https://" + authority.Host + authority.Path},
	}
	private := !identity.PublicAuthority(c.Authority)
	if c.FederatedTokenFile != "" {
		token, err := identity.ReadToken(c.FederatedTokenFile)
		if err != nil {
			return nil, nil, err
		}
		assertion := func(context.Context) (string, error) { return token.Reveal(), nil }
		made, err := azidentity.NewClientAssertionCredential(c.TenantID, c.ClientID, assertion,
			&azidentity.ClientAssertionCredentialOptions{ClientOptions: common, DisableInstanceDiscovery: private})
		return made, recorder, err
	}
	value := c.ClientSecret
	if c.ClientSecretFile != "" {
		if value, err = identity.ReadToken(c.ClientSecretFile); err != nil {
			return nil, nil, err
		}
	}
	made, err := azidentity.NewClientSecretCredential(c.TenantID, c.ClientID, value.Reveal(),
		&azidentity.ClientSecretCredentialOptions{ClientOptions: common, DisableInstanceDiscovery: private})
	return made, recorder, err
}

// noRetry leaves trying again to the Manager.
var noRetry = policy.RetryOptions{MaxRetries: -1}

// metadataHost is where the library asks for the identity of a virtual machine.
const metadataHost = "169.254.169.254"

func (s *Source) managed() (azcore.TokenCredential, *identity.Recorder, error) {
	clients, recorder := s.clients.Record()
	client := clients.Metadata
	if s.config.MetadataURL != "" {
		to, err := url.Parse(s.config.MetadataURL)
		if err != nil {
			return nil, nil, errors.New("metadata_url: not a URL")
		}
		client.Transport = redirected{client.Transport, metadataHost, to}
	}
	options := &azidentity.ManagedIdentityCredentialOptions{ClientOptions: azcore.ClientOptions{
		// By default it tries six times in up to a minute and a half. A server that has just started answers 404 or 410.
		Transport: client, Retry: policy.RetryOptions{MaxRetries: 2, RetryDelay: 500 * time.Millisecond, MaxRetryDelay: 2 * time.Second, TryTimeout: 5 * time.Second},
	}}
	if s.config.ClientID != "" {
		options.ID = azidentity.ClientID(s.config.ClientID)
	}
	made, err := azidentity.NewManagedIdentityCredential(options)
	return made, recorder, err
}

// redirected sends the calls to one host elsewhere.
type redirected struct {
	next http.RoundTripper
	host string
	to   *url.URL
}

// RoundTrip implements http.RoundTripper.
func (r redirected) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Host != r.host {
		return r.next.RoundTrip(request)
	}
	sent := request.Clone(request.Context())
	sent.URL.Scheme, sent.URL.Host, sent.Host = r.to.Scheme, r.to.Host, ""
	return r.next.RoundTrip(sent)
}
