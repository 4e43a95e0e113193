package identity

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

// scopes are what Entra knows, without /.default.
var scopes = []string{"https://cognitiveservices.azure.com", "https://ai.azure.com"}

func (s *Server) serveEntra(api *http.ServeMux) {
	api.HandleFunc("GET /{tenant}/v2.0/.well-known/openid-configuration", s.entraConfiguration)
	api.HandleFunc("POST /{tenant}/oauth2/v2.0/token", s.entraToken)
	api.HandleFunc("GET /metadata/identity/oauth2/token", s.managedIdentity)
}

// entraConfiguration is what Entra publishes of a tenant. Its addresses are https, as Microsoft's libraries demand even
// of one that is served without TLS.
func (s *Server) entraConfiguration(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("tenant") != Tenant {
		refuseOAuth(w, invalid("invalid_tenant", "AADSTS90002: Tenant not found"))
		return
	}
	base := "https://" + r.Host + "/" + Tenant
	writeJSON(w, http.StatusOK, map[string]string{
		"issuer": base + "/v2.0", "token_endpoint": base + "/oauth2/v2.0/token", "authorization_endpoint": base + "/oauth2/v2.0/authorize",
	})
}

// entraToken is the token endpoint of version 2, for client credentials.
func (s *Server) entraToken(w http.ResponseWriter, r *http.Request) {
	kind := "entra.client_secret"
	_, err := readForm(r)
	if r.PostForm.Get("client_assertion") != "" {
		kind = "entra.federated"
	}
	scope := ""
	if err == nil {
		scope, err = s.entraClient(r)
	}
	further := map[string]any{"ext_expires_in": int64(s.get().LifetimeSeconds)}
	if refresh := s.get().RefreshSeconds; refresh > 0 {
		further["refresh_in"] = int64(refresh)
	}
	s.answerToken(w, kind, Client, token{vendor: Azure, scope: scope}, "eyJ0.entra.", err, further)
}

// entraClient returns the scope that a client may have a token for.
func (s *Server) entraClient(r *http.Request) (scope string, err error) {
	form := r.PostForm
	switch {
	case r.PathValue("tenant") != Tenant:
		return "", invalid("invalid_request", "AADSTS90002: Tenant not found")
	case form.Get("grant_type") != "client_credentials":
		return "", invalid("unsupported_grant_type", "AADSTS70003: want client_credentials")
	case form.Get("client_id") != Client:
		return "", invalid("unauthorized_client", "AADSTS700016: Application not found")
	}
	for name := range strings.FieldsSeq(form.Get("scope")) {
		for _, known := range scopes {
			if name == known+"/.default" {
				scope = known
			}
		}
	}
	if scope == "" {
		return "", invalid("invalid_scope", "AADSTS70011: The provided value for scope is not valid")
	}
	if form.Get("client_assertion") == "" {
		if form.Get("client_secret") != ClientSecret {
			return "", oauthError{http.StatusUnauthorized, "invalid_client", errors.New("AADSTS7000215: Invalid client secret provided")}
		}
		return scope, nil
	}
	if form.Get("client_assertion_type") != assertionType || form.Get("client_secret") != "" {
		return "", invalid("invalid_request", "AADSTS50027: want client_assertion_type %s and no secret", assertionType)
	}
	if _, err := s.workload(form.Get("client_assertion"), AudienceEntra); err != nil {
		return "", oauthError{http.StatusUnauthorized, "invalid_client", errors.New("AADSTS700213: " + err.Error())}
	}
	return scope, nil
}

// managedIdentity is the identity server of a virtual machine.
func (s *Server) managedIdentity(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	known := false
	for _, scope := range scopes {
		known = known || query.Get("resource") == scope
	}
	var err error
	switch {
	case r.Header.Get("Metadata") != "true" || r.Header.Get("X-Forwarded-For") != "":
		err = invalid("invalid_request", "want the header Metadata: true, and no proxy")
	case query.Get("api-version") == "":
		err = invalid("invalid_request", "want api-version")
	case !known:
		err = invalid("invalid_resource", "AADSTS500011: resource %q not found", query.Get("resource"))
	case query.Get("client_id") != "" && query.Get("client_id") != Client:
		err = invalid("invalid_request", "Identity not found")
	}
	expires := s.now().Add(s.get().lifetime())
	s.answerToken(w, "entra.managed_identity", Client, token{vendor: Azure, scope: query.Get("resource")}, "eyJ0.managed.", err, map[string]any{
		"expires_in": strconv.FormatInt(int64(s.get().LifetimeSeconds), 10), "resource": query.Get("resource"),
		"expires_on": strconv.FormatInt((expires.UnixNano()+int64(time.Second)-1)/int64(time.Second), 10),
	})
}
