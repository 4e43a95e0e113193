package identity

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	grantBearer   = "urn:ietf:params:oauth:grant-type:jwt-bearer" //nolint:gosec // The name of a grant.
	grantExchange = "urn:ietf:params:oauth:grant-type:token-exchange"
	typeJWT       = "urn:ietf:params:oauth:token-type:jwt"
	typeIDToken   = "urn:ietf:params:oauth:token-type:id_token" //nolint:gosec // The name of a type.
	typeAccess    = "urn:ietf:params:oauth:token-type:access_token"

	flavorHeader = "Metadata-Flavor"
	flavor       = "Google"
)

func (s *Server) serveGoogle(api *http.ServeMux) {
	api.HandleFunc("POST /token", s.googleAccount)
	api.HandleFunc("POST /v1/token", s.googleExchange)
	api.HandleFunc("GET /computeMetadata/v1/instance/service-accounts/{account}/token", s.googleMetadata)
	api.HandleFunc("GET /workload/token", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, s.Sign(s.Workload(r.URL.Query().Get("audience"))))
	})
}

// oauthError is a refusal (RFC 6749, section 5.2).
type oauthError struct {
	status int
	code   string
	err    error
}

func (e oauthError) Error() string { return e.code + ": " + e.err.Error() }

func refuseOAuth(w http.ResponseWriter, err error) {
	refused, ok := errors.AsType[oauthError](err)
	if !ok {
		refused = oauthError{http.StatusBadRequest, "invalid_request", err}
	}
	writeJSON(w, refused.status, map[string]string{"error": refused.code, "error_description": refused.err.Error()})
}

func invalid(code, text string, values ...any) error {
	return oauthError{http.StatusBadRequest, code, fmt.Errorf(text, values...)}
}

// answerToken records the outcome of an exchange and answers with a token, or with the refusal. further are members of
// the answer beside the usual ones.
func (s *Server) answerToken(w http.ResponseWriter, kind, subject string, of token, prefix string, err error, further map[string]any) {
	if err != nil {
		s.record(kind, "", "", err)
		refuseOAuth(w, err)
		return
	}
	text, life := s.issue(of.vendor, of.scope, prefix)
	s.record(kind, subject, text, nil)
	answer := map[string]any{"access_token": text, "token_type": "Bearer", "expires_in": int64(life / time.Second)}
	maps.Copy(answer, further)
	w.Header().Set("Cache-Control", "no-store")
	writeJSON(w, http.StatusOK, answer)
}

// googleAccount is oauth2.googleapis.com/token for a service account (RFC 7523).
func (s *Server) googleAccount(w http.ResponseWriter, r *http.Request) {
	claims, err := s.accountClaims(r)
	s.answerToken(w, "google.service_account", claims.Issuer, token{vendor: Google, scope: claims.Scope}, "ya29.", err, nil)
}

func (s *Server) accountClaims(r *http.Request) (claims Claims, err error) {
	if _, err := readForm(r); err != nil {
		return claims, err
	}
	if r.PostForm.Get("grant_type") != grantBearer {
		return claims, invalid("unsupported_grant_type", "want %s", grantBearer)
	}
	claims, err = verify(&s.account().PublicKey, r.PostForm.Get("assertion"), s.now(), time.Duration(s.get().SkewSeconds*float64(time.Second)))
	at := "http://" + r.Host + r.URL.Path
	switch {
	case err != nil:
		return claims, invalid("invalid_grant", "Invalid JWT Signature or claims: %w", err)
	case claims.Issuer != ServiceAccount:
		return claims, invalid("invalid_grant", "Not a valid email or user ID: %q", claims.Issuer)
	case !slices.ContainsFunc(claims.Audience, func(aud string) bool { return aud == at || aud == "https://"+r.Host+r.URL.Path }):
		return claims, invalid("invalid_grant", "aud %q: want %s", claims.Audience, at)
	case claims.IssuedAt == 0 || claims.Expires-claims.IssuedAt > 3600:
		return claims, invalid("invalid_grant", "want iat, and exp an hour later at most")
	case !contains(claims.Scope, CloudPlatform):
		return claims, invalid("invalid_scope", "want the scope %s", CloudPlatform)
	}
	return claims, nil
}

// googleExchange is sts.googleapis.com/v1/token (RFC 8693).
func (s *Server) googleExchange(w http.ResponseWriter, r *http.Request) {
	claims, err := s.exchangeClaims(r)
	s.answerToken(w, "google.external_account", claims.Subject, token{vendor: Google, scope: r.PostForm.Get("scope")}, "ya29.d.", err,
		map[string]any{"issued_token_type": typeAccess})
}

func (s *Server) exchangeClaims(r *http.Request) (claims Claims, err error) {
	if _, err := readForm(r); err != nil {
		return claims, err
	}
	form := r.PostForm
	switch {
	case form.Get("grant_type") != grantExchange:
		return claims, invalid("unsupported_grant_type", "want %s", grantExchange)
	case form.Get("audience") != AudienceGoogle:
		return claims, invalid("invalid_target", "audience %q: want %s", form.Get("audience"), AudienceGoogle)
	case form.Get("requested_token_type") != typeAccess:
		return claims, invalid("invalid_request", "want requested_token_type %s", typeAccess)
	case form.Get("subject_token_type") != typeJWT && form.Get("subject_token_type") != typeIDToken:
		return claims, invalid("invalid_request", "want subject_token_type %s", typeJWT)
	case !contains(form.Get("scope"), CloudPlatform):
		return claims, invalid("invalid_scope", "want the scope %s", CloudPlatform)
	}
	if claims, err = s.workload(form.Get("subject_token"), AudienceGoogle); err != nil {
		return claims, invalid("invalid_grant", "%w", err)
	}
	return claims, nil
}

// googleMetadata is the metadata server of a machine.
func (s *Server) googleMetadata(w http.ResponseWriter, r *http.Request) {
	account := r.PathValue("account")
	const kind = "google.metadata"
	w.Header().Set(flavorHeader, flavor)
	switch {
	case r.Header.Get(flavorHeader) != flavor || r.Header.Get("X-Forwarded-For") != "":
		s.record(kind, "", "", errors.New("without the header Metadata-Flavor: Google, or through a proxy"))
		w.WriteHeader(http.StatusForbidden)
		return
	case account != "default" && account != ServiceAccount:
		s.record(kind, "", "", errors.New("no such account"))
		w.WriteHeader(http.StatusNotFound)
		return
	}
	scope := strings.ReplaceAll(r.URL.Query().Get("scopes"), ",", " ")
	if scope == "" {
		scope = CloudPlatform
	}
	s.answerToken(w, kind, ServiceAccount, token{vendor: Google, scope: scope}, "ya29.c.", nil, nil)
}

const maxForm = 1 << 20

// readForm reads a form into r.PostForm and returns the body. A parameter that is there twice is refused (RFC 6749,
// section 3.2).
func readForm(r *http.Request) ([]byte, error) {
	r.PostForm = url.Values{}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxForm))
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		return nil, errors.New("want a form")
	}
	if r.PostForm, err = url.ParseQuery(string(body)); err != nil {
		r.PostForm = url.Values{}
		return nil, errors.New("not a form")
	}
	for name, values := range r.PostForm {
		if len(values) > 1 {
			return nil, fmt.Errorf("%s is there twice", name)
		}
	}
	return body, nil
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// The only error left is a client that has left.
	_ = json.NewEncoder(w).Encode(v)
}
