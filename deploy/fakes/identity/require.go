package identity

import (
	"errors"
	"net/http"
	"strings"

	"switchyard.dev/deploy/fakes/sigv4"
)

// The vendors whose tokens are issued.
const (
	Google    = "google"
	Azure     = "azure"
	OpenAI    = "openai"
	Anthropic = "anthropic"
)

// Audience is whom a token must be for. Scope is one of a token's scopes, or empty for any.
type Audience struct{ Vendor, Scope string }

// RequireBearer passes only calls to next that carry an access token which this fake has issued for an audience and which
// has not ended. Calls of Anthropic must have the beta header of such tokens, and no key.
func (s *Server) RequireBearer(of Audience, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.bearer(r, of); err != nil {
			refuseBearer(w, of.Vendor, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) bearer(r *http.Request, of Audience) error {
	text, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || len(r.Header.Values("Authorization")) != 1 {
		return errors.New("want Authorization: Bearer")
	}
	s.mu.Lock()
	issued, ok := s.tokens[text]
	s.mu.Unlock()
	switch {
	case !ok:
		return errors.New("the token is unknown")
	case issued.vendor != of.Vendor:
		return errors.New("the token is for " + issued.vendor)
	case !s.now().Before(issued.expires):
		return errors.New("the token has ended")
	case of.Scope != "" && !contains(issued.scope, of.Scope):
		return errors.New("the token is for the scope " + issued.scope)
	case of.Vendor == Anthropic && !betasOf(r)[betaOAuth]:
		return errors.New("want anthropic-beta " + betaOAuth)
	}
	for _, name := range []string{"X-Api-Key", "Api-Key", "X-Goog-Api-Key"} {
		if r.Header.Get(name) != "" {
			return errors.New("there is a key, too, in " + name)
		}
	}
	return nil
}

func contains(scopes, scope string) bool {
	for name := range strings.FieldsSeq(scopes) {
		if name == scope {
			return true
		}
	}
	return false
}

func refuseBearer(w http.ResponseWriter, vendor string, err error) {
	var body any
	switch vendor {
	case Anthropic:
		body = map[string]any{"type": "error", "error": map[string]string{"type": "authentication_error", "message": err.Error()}}
	case Google:
		body = map[string]any{"error": map[string]any{"code": http.StatusUnauthorized, "status": "UNAUTHENTICATED", "message": err.Error()}}
	default:
		body = map[string]any{"error": map[string]string{"type": "invalid_request_error", "code": "invalid_token", "message": err.Error()}}
	}
	w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
	writeJSON(w, http.StatusUnauthorized, body)
}

// RequireSignature passes only calls to next that are signed with a key of AWS which this fake knows, for a service of a
// region.
func (s *Server) RequireSignature(service, region string, next http.Handler) http.Handler {
	return sigv4.Require(sigv4.Options{Keys: s.Key, Service: service, Region: region, Now: s.now}, next)
}

// Guard returns a vendor that takes only credentials of this fake. A call's path begins with the kind of credential that
// it must have: /aws (a signature for bedrock in us-east-1), /gcp, /azure, /foundry, /openai or /anthropic; the rest of
// the path is the vendor's.
func (s *Server) Guard(vendor http.Handler) http.Handler {
	mux := http.NewServeMux()
	for name, guarded := range map[string]func(http.Handler) http.Handler{
		"aws":       func(next http.Handler) http.Handler { return s.RequireSignature("bedrock", "us-east-1", next) },
		"gcp":       s.requires(Audience{Google, CloudPlatform}),
		"azure":     s.requires(Audience{Azure, scopes[0]}),
		"foundry":   s.requires(Audience{Azure, scopes[1]}),
		"openai":    s.requires(Audience{Vendor: OpenAI}),
		"anthropic": s.requires(Audience{Anthropic, Workspace}),
	} {
		mux.Handle("/"+name+"/", guarded(http.StripPrefix("/"+name, vendor)))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/_") {
			vendor.ServeHTTP(w, r) // Its scripts and records.
			return
		}
		http.NotFound(w, r)
	})
	return mux
}

func (s *Server) requires(of Audience) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler { return s.RequireBearer(of, next) }
}
