package identity

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
)

func (s *Server) serveOIDC(api *http.ServeMux) {
	api.HandleFunc("POST /oauth/token", s.openAI)
	api.HandleFunc("POST /v1/oauth/token", s.anthropic)
}

// openAI is auth.openai.com/oauth/token, which takes JSON (RFC 8693 with other names).
func (s *Server) openAI(w http.ResponseWriter, r *http.Request) {
	claims, err := s.openAIClaims(r)
	s.answerToken(w, "openai", claims.Subject, token{vendor: OpenAI}, "oai-at-", err, map[string]any{"issued_token_type": typeAccess})
}

func (s *Server) openAIClaims(r *http.Request) (claims Claims, err error) {
	body, err := readObject(r)
	if err != nil {
		return claims, err
	}
	switch {
	case body["grant_type"] != grantExchange:
		return claims, invalid("unsupported_grant_type", "want %s", grantExchange)
	case body["subject_token_type"] != typeJWT && body["subject_token_type"] != typeIDToken:
		return claims, invalid("invalid_request", "want subject_token_type %s or %s", typeJWT, typeIDToken)
	case body["identity_provider_id"] != IdentityProvider:
		return claims, invalid("invalid_request", "identity_provider_id %q is unknown", body["identity_provider_id"])
	case body["service_account_id"] != OpenAIServiceAccount:
		return claims, oauthError{http.StatusForbidden, "access_denied", errors.New("the provider may not have tokens of this service account")}
	}
	if claims, err = s.workload(body["subject_token"], AudienceOpenAI); err != nil {
		return claims, oauthError{http.StatusUnauthorized, "invalid_subject_token", err}
	}
	return claims, nil
}

// The values of anthropic-beta.
const (
	betaOAuth      = "oauth-2025-04-20"
	betaFederation = "oidc-federation-2026-04-01"
)

// anthropic is api.anthropic.com/v1/oauth/token, which takes JSON (RFC 7523 with other names).
func (s *Server) anthropic(w http.ResponseWriter, r *http.Request) {
	claims, err := s.anthropicClaims(r)
	s.answerToken(w, "anthropic", claims.Subject, token{vendor: Anthropic, scope: Workspace}, "sk-ant-oat01-", err, nil)
}

func (s *Server) anthropicClaims(r *http.Request) (claims Claims, err error) {
	body, err := readObject(r)
	if err != nil {
		return claims, err
	}
	betas := betasOf(r)
	switch {
	case !betas[betaOAuth] || !betas[betaFederation]:
		return claims, invalid("invalid_request", "want anthropic-beta %s,%s", betaOAuth, betaFederation)
	case body["grant_type"] != grantBearer:
		return claims, invalid("unsupported_grant_type", "want %s", grantBearer)
	case body["federation_rule_id"] != FederationRule:
		return claims, invalid("invalid_request", "federation_rule_id %q is unknown", body["federation_rule_id"])
	case body["organization_id"] != AnthropicOrganization:
		return claims, invalid("invalid_request", "organization_id %q is unknown", body["organization_id"])
	case body["service_account_id"] != AnthropicServiceAccount:
		return claims, invalid("invalid_request", "service_account_id %q is unknown", body["service_account_id"])
	case body["workspace_id"] != Workspace:
		return claims, invalid("invalid_request", "the rule covers several workspaces: want workspace_id %s", Workspace)
	}
	if claims, err = s.workload(body["assertion"], AudienceAnthropic); err != nil {
		return claims, oauthError{http.StatusUnauthorized, "invalid_grant", err}
	}
	return claims, nil
}

// betasOf returns the values of anthropic-beta.
func betasOf(r *http.Request) map[string]bool {
	betas := map[string]bool{}
	for _, line := range r.Header.Values("Anthropic-Beta") {
		for name := range strings.SplitSeq(line, ",") {
			betas[strings.TrimSpace(name)] = true
		}
	}
	return betas
}

// readObject reads a JSON object of texts.
func readObject(r *http.Request) (map[string]string, error) {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		return nil, invalid("invalid_request", "want JSON, not %q", r.Header.Get("Content-Type"))
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxForm))
	if err != nil {
		return nil, err
	}
	var object map[string]string
	if err := json.Unmarshal(body, &object); err != nil {
		return nil, invalid("invalid_request", "want a JSON object of texts")
	}
	return object, nil
}
