// Package google exchanges identities of Google Cloud for access tokens: service accounts, workload identity federation
// (external accounts) and the metadata server of a machine. Package identity/cloud opens it, in builds that have
// Google's library.
package google

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"cloud.google.com/go/auth"
	"cloud.google.com/go/auth/credentials"

	"switchyard.dev/services/gateway/internal/custody/identity"
	"switchyard.dev/services/platform/jsoncheck"
	"switchyard.dev/services/platform/secret"
)

// Source exchanges one identity.
type Source struct {
	config  identity.GCP
	clients identity.Clients
}

// New returns the source of a complete configuration.
func New(c identity.GCP, clients identity.Clients) (*Source, error) {
	return &Source{config: c, clients: clients}, nil
}

// headerQuota names the project that a call counts against.
const headerQuota = "X-Goog-User-Project"

// Exchange implements identity.Source.
func (s *Source) Exchange(ctx context.Context) (identity.Grant, error) {
	exchange := s.file
	if s.config.Source == identity.SourceMetadata {
		exchange = s.metadata
	}
	grant, err := exchange(ctx)
	if s.config.QuotaProject != "" {
		grant.Headers = http.Header{headerQuota: {s.config.QuotaProject}}
	}
	return grant, err
}

// file exchanges what the credentials file holds, or the service account of an organization. The library's own cache is
// not used: the Manager keeps the token, and the file may have changed.
func (s *Source) file(ctx context.Context) (identity.Grant, error) {
	text := s.config.Credentials
	if s.config.CredentialsFile != "" {
		var err error
		if text, err = s.config.CredentialsFile.Read(); err != nil {
			return identity.Grant{}, err
		}
	}
	declared, err := Check([]byte(text.Reveal()))
	if err != nil {
		return identity.Grant{}, fmt.Errorf("credentials_file: %w", err)
	}
	clients, recorder := s.clients.Record()
	made, err := credentials.NewCredentialsFromJSON(declared.Type, []byte(text.Reveal()), &credentials.DetectOptions{
		Scopes: s.config.Scopes, Client: byHost(clients), DisableAsyncRefresh: true, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return identity.Grant{}, errors.New("credentials_file: not a credential that Google's library takes")
	}
	token, err := made.Token(ctx)
	if err != nil {
		return identity.Grant{}, recorder.Error(err, "get a token of Google")
	}
	return grant(token, declared.subject()), nil
}

// byHost returns a client that calls metadata servers without a proxy: an external account may have its token from one.
func byHost(clients identity.Clients) *http.Client {
	client := *clients.Token
	client.Transport = hostTransport{clients}
	return &client
}

type hostTransport struct{ clients identity.Clients }

// RoundTrip implements http.RoundTripper.
func (t hostTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.clients.For(r.URL.Hostname()).Transport.RoundTrip(r)
}

func grant(token *auth.Token, subject string) identity.Grant {
	return identity.Grant{Token: secret.New(token.Value), Subject: subject, Expires: token.Expiry}
}

// metadata asks the machine's metadata server. Google's library would take its address from the environment.
func (s *Source) metadata(ctx context.Context) (identity.Grant, error) {
	at, err := url.Parse(strings.TrimRight(s.config.MetadataURL, "/"))
	if err != nil {
		return identity.Grant{}, errors.New("metadata_url: not a URL")
	}
	at = at.JoinPath("/computeMetadata/v1/instance/service-accounts", s.config.Account, "token")
	at.RawQuery = url.Values{"scopes": {strings.Join(s.config.Scopes, ",")}}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), http.NoBody)
	if err != nil {
		return identity.Grant{}, errors.New("metadata_url: not a URL")
	}
	request.Header.Set(headerFlavor, flavor)
	began := time.Now()
	header, body, err := identity.Call(s.clients.For(at.Hostname()), request)
	if err != nil {
		return identity.Grant{}, err
	}
	if header.Get(headerFlavor) != flavor {
		return identity.Grant{}, errors.New("metadata_url: what answers there is not a metadata server, as its answer lacks the header Metadata-Flavor")
	}
	var answer struct {
		AccessToken string  `json:"access_token"`
		ExpiresIn   float64 `json:"expires_in"`
	}
	if !jsoncheck.Valid(body) || json.Unmarshal(body, &answer) != nil {
		return identity.Grant{}, errors.New("the metadata server's answer is not the JSON of a token")
	}
	return identity.Grant{Token: secret.New(answer.AccessToken), Expires: began.Add(identity.Life(answer.ExpiresIn))}, nil
}

const (
	headerFlavor = "Metadata-Flavor"
	flavor       = "Google"
)
