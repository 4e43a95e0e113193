package toolserver

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"switchyard.dev/deploy/fakes/fault"
)

// The client of OAuth that the fake knows, until PUT /_client says otherwise.
const (
	ClientID     = "agent"
	ClientSecret = "secret of the fake's client"
)

const (
	issuerPath = "/oauth"
	// guardedPath is the server of tools that takes the issuer's tokens alone.
	guardedPath = "/guarded"
	maxTokens   = 10_000
)

// issuer is an authorization server. It gives tokens for guardedPath to one client.
type issuer struct {
	mu     sync.Mutex
	secret string
	life   time.Duration
	// scope is what guardedPath demands; empty for none.
	scope  string
	issued int
	tokens map[string]grant
}

// grant is what a token stands for.
type grant struct {
	audience, scope string
	expires         time.Time
}

func newIssuer() *issuer {
	return &issuer{secret: ClientSecret, life: time.Hour, tokens: make(map[string]grant)}
}

// base returns the fake's own address, as a client reached it.
func base(r *http.Request) string { return "http://" + r.Host }

func (i *issuer) serve(face, control *http.ServeMux) {
	face.HandleFunc("GET /.well-known/oauth-protected-resource"+guardedPath, func(w http.ResponseWriter, r *http.Request) {
		fault.WriteJSON(w, http.StatusOK, map[string]any{"resource": base(r) + guardedPath, "authorization_servers": []string{base(r) + issuerPath}})
	})
	face.HandleFunc("GET /.well-known/oauth-authorization-server"+issuerPath, func(w http.ResponseWriter, r *http.Request) {
		fault.WriteJSON(w, http.StatusOK, map[string]any{
			"issuer": base(r) + issuerPath, "token_endpoint": base(r) + issuerPath + "/token", "grant_types_supported": []string{"client_credentials"},
			"token_endpoint_auth_methods_supported": []string{"client_secret_basic", "client_secret_post"},
		})
	})
	face.HandleFunc("POST "+issuerPath+"/token", i.token)
	control.HandleFunc("PUT /_client", i.change)
	control.HandleFunc("GET /_tokens", func(w http.ResponseWriter, _ *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		fault.WriteJSON(w, http.StatusOK, map[string]int{"issued": i.issued})
	})
	control.HandleFunc("DELETE /_tokens", func(w http.ResponseWriter, _ *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		clear(i.tokens)
		w.WriteHeader(http.StatusNoContent)
	})
}

// change changes the client's secret, the life of tokens and the scope that is demanded, as far as they are given.
func (i *issuer) change(w http.ResponseWriter, r *http.Request) {
	var to struct {
		Secret, Scope *string
		Life          *int `json:"life_seconds"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&to); err != nil {
		fault.WriteJSON(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if to.Secret != nil {
		i.secret = *to.Secret
	}
	if to.Scope != nil {
		i.scope = *to.Scope
	}
	if to.Life != nil {
		i.life = time.Duration(*to.Life) * time.Second
	}
	w.WriteHeader(http.StatusNoContent)
}

// token answers a request for a token. It checks the client, the grant and the resource.
func (i *issuer) token(w http.ResponseWriter, r *http.Request) {
	refuse := func(status int, code string) {
		fault.WriteJSON(w, status, map[string]string{"error": code, "error_description": "the fake refuses it"})
	}
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	if err := r.ParseForm(); err != nil {
		refuse(http.StatusBadRequest, "invalid_request")
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	id, secret := client(r)
	switch {
	case id != ClientID || secret != i.secret:
		refuse(http.StatusUnauthorized, "invalid_client")
	case r.PostForm.Get("grant_type") != "client_credentials":
		refuse(http.StatusBadRequest, "unsupported_grant_type")
	case len(r.PostForm["resource"]) != 1 || r.PostForm.Get("resource") != base(r)+guardedPath:
		refuse(http.StatusBadRequest, "invalid_target")
	default:
		i.issued++
		if len(i.tokens) >= maxTokens {
			clear(i.tokens)
		}
		claims := fmt.Sprintf(`{"aud":%q,"jti":"%d"}`, base(r)+guardedPath, i.issued)
		token := "eyJhbGciOiJub25lIn0." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".ZmFrZQ"
		i.tokens[token] = grant{base(r) + guardedPath, r.PostForm.Get("scope"), time.Now().Add(i.life)}
		fault.WriteJSON(w, http.StatusOK, map[string]any{"access_token": token, "token_type": "Bearer", "expires_in": int(i.life / time.Second)})
	}
}

// client returns how a client authenticates: in the header, or in the form.
func client(r *http.Request) (id, secret string) {
	id, secret, ok := r.BasicAuth()
	if !ok {
		return r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	}
	id, idErr := url.QueryUnescape(id)
	secret, secretErr := url.QueryUnescape(secret)
	if idErr != nil || secretErr != nil {
		return "", ""
	}
	return id, secret
}

// guard passes requests with a token for this server that has not expired, and with the scope that is demanded.
func (i *issuer) guard(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		i.mu.Lock()
		g, known := i.tokens[token]
		scope := i.scope
		i.mu.Unlock()
		demand := func(status int, more string) {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+base(r)+`/.well-known/oauth-protected-resource`+guardedPath+`"`+more)
			w.WriteHeader(status)
		}
		switch {
		case !known || g.audience != base(r)+guardedPath || time.Now().After(g.expires):
			demand(http.StatusUnauthorized, `, error="invalid_token"`)
		case scope != "" && !strings.Contains(" "+g.scope+" ", " "+scope+" "):
			demand(http.StatusForbidden, `, error="insufficient_scope", scope="`+scope+`"`)
		default:
			next(w, r)
		}
	}
}
