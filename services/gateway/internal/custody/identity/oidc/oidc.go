// Package oidc exchanges a token of the workload, such as one that Kubernetes projects into a file, for an access token
// of OpenAI (RFC 8693) or of Anthropic (RFC 7523). Both take JSON instead of a form. Package identity/cloud opens it.
package oidc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"switchyard.dev/services/gateway/internal/custody/identity"
	"switchyard.dev/services/platform/jsoncheck"
	"switchyard.dev/services/platform/secret"
)

// Source exchanges one workload's token.
type Source struct {
	config identity.OIDC
	client *http.Client
}

// New returns the source of a complete configuration.
func New(c identity.OIDC, clients identity.Clients) (*Source, error) {
	at, err := url.Parse(c.TokenURL)
	if err != nil {
		return nil, errors.New("token_url: not a URL")
	}
	return &Source{config: c, client: clients.For(at.Hostname())}, nil
}

const (
	// The grants of RFC 8693 and of RFC 7523.
	grantExchange = "urn:ietf:params:oauth:grant-type:token-exchange"
	grantBearer   = "urn:ietf:params:oauth:grant-type:jwt-bearer" //nolint:gosec // The name of a grant.
	// betaOAuth marks calls of Anthropic with an access token, betaFederation the exchange for it.
	betaOAuth      = "oauth-2025-04-20"
	betaFederation = "oidc-federation-2026-04-01"
	headerBeta     = "Anthropic-Beta"
	// assumedLife is the life of a token of OpenAI whose answer does not say it.
	assumedLife = time.Hour
)

// openAI is the request of OpenAI's exchange.
type openAI struct {
	GrantType          string `json:"grant_type"`
	SubjectToken       string `json:"subject_token"`
	SubjectTokenType   string `json:"subject_token_type"`
	IdentityProviderID string `json:"identity_provider_id"`
	ServiceAccountID   string `json:"service_account_id"`
}

// anthropic is the request of Anthropic's exchange.
type anthropic struct {
	GrantType        string `json:"grant_type"`
	Assertion        string `json:"assertion"`
	FederationRuleID string `json:"federation_rule_id"`
	OrganizationID   string `json:"organization_id"`
	ServiceAccountID string `json:"service_account_id"`
	WorkspaceID      string `json:"workspace_id,omitempty"`
}

// Exchange implements identity.Source.
func (s *Source) Exchange(ctx context.Context) (identity.Grant, error) {
	token, err := identity.ReadToken(s.config.TokenFile)
	if err != nil {
		return identity.Grant{}, err
	}
	began := time.Now()
	body, err := s.call(ctx, s.body(token))
	if err != nil {
		return identity.Grant{}, err
	}
	return s.grant(body, began)
}

func (s *Source) body(token secret.Value) any {
	c := &s.config
	if c.Vendor == identity.VendorAnthropic {
		return anthropic{grantBearer, token.Reveal(), c.FederationRuleID, c.OrganizationID, c.ServiceAccountID, c.WorkspaceID}
	}
	return openAI{grantExchange, token.Reveal(), c.SubjectTokenType, c.IdentityProviderID, c.ServiceAccountID}
}

func (s *Source) call(ctx context.Context, body any) ([]byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, errors.New("the exchange can't be encoded")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.config.TokenURL, bytes.NewReader(text))
	if err != nil {
		return nil, errors.New("the exchange can't be made")
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	if s.config.Vendor == identity.VendorAnthropic {
		request.Header.Set(headerBeta, betaOAuth+","+betaFederation)
	}
	_, answer, err := identity.Call(s.client, request)
	return answer, err
}

func (s *Source) grant(body []byte, began time.Time) (identity.Grant, error) {
	var answer struct {
		AccessToken string  `json:"access_token"`
		TokenType   string  `json:"token_type"`
		ExpiresIn   float64 `json:"expires_in"`
	}
	if !jsoncheck.Valid(body) || json.Unmarshal(body, &answer) != nil {
		return identity.Grant{}, errors.New("the token server's answer is not the JSON of a token")
	}
	life := identity.Life(answer.ExpiresIn)
	switch {
	case answer.AccessToken == "":
		return identity.Grant{}, errors.New("the token server's answer has no access_token")
	case answer.TokenType != "" && !strings.EqualFold(answer.TokenType, "Bearer"):
		return identity.Grant{}, errors.New("the token server's answer has a token_type that is not Bearer")
	case life == 0 && s.config.Vendor == identity.VendorOpenAI:
		life = assumedLife
	case life == 0:
		return identity.Grant{}, errors.New("the token server's answer has no expires_in")
	}
	grant := identity.Grant{Token: secret.New(answer.AccessToken), Expires: began.Add(life)}
	if s.config.Vendor == identity.VendorAnthropic {
		grant.Headers = http.Header{headerBeta: {betaOAuth}}
	}
	return grant, nil
}
