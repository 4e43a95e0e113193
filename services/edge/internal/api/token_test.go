package api_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/edge/internal/route"
	"switchyard.dev/services/edge/internal/usertoken"
)

const (
	inbox      = "/product/v1/notifications/inbox"
	app, other = "https://app.example.com", "https://other.example.com"
)

// token returns a token of ann for all that end users may do. Pages of app may use it; another organization allows other.
func (x *world) token(t *testing.T) string {
	t.Helper()
	return x.tokenOf(t, "", apikey.EndUserScopes()...)
}

// tokenOf returns such a token with an owner and some scopes.
func (x *world) tokenOf(t *testing.T, owner string, scopes ...apikey.Permission) string {
	t.Helper()
	by := apikey.Actor{Name: "test"}
	for _, err := range []error{
		x.minter.Ensure(t.Context()),
		x.minter.SetOrigins(t.Context(), by, "org-1", []string{app}),
		x.minter.SetOrigins(t.Context(), by, "org-2", []string{other}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	text, _, _, err := x.minter.Mint(t.Context(), apikey.Actor{Name: "test"}, usertoken.Request{
		Organization: "org-1", User: "ann", Owner: owner, Scopes: scopes, Life: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	x.refresh(t)
	return text.Reveal()
}

// refresh puts the stored policy in force.
func (x *world) refresh(t *testing.T) {
	t.Helper()
	policy, err := x.tokens.TokenPolicy(t.Context(), time.Now().Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	x.users.Use(policy)
}

// from makes a request of a page.
func (x *world) from(t *testing.T, origin, method, path, bearer string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(""))
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	if origin != "" {
		r.Header.Set("Origin", origin)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	x.ServeHTTP(w, r)
	return w
}

// A token opens exactly the routes whose scope is for end users.
func TestTokenOpensRoutes(t *testing.T) {
	x := newWorld(t)
	token := x.token(t)
	table, err := route.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range table.Routes {
		want := http.StatusForbidden
		if r.Scope.ForEndUsers() {
			want = http.StatusOK
		}
		if w := x.do(t, r.Method, r.Filled("x"), token, "{}"); w.Code != want {
			t.Errorf("%s %s: answered %d, want %d", r.Method, r.Path, w.Code, want)
		}
	}
}

func TestTokenBindsToItsUser(t *testing.T) {
	x := newWorld(t)
	token := x.tokenOf(t, "team", "notifications:inbox:read")
	for query, want := range map[string]int{
		"": http.StatusOK, "?user_id=ann": http.StatusOK, "?user_id=bob": http.StatusForbidden, "?user_id=": http.StatusForbidden,
		"?user_id=ann&user_id=bob": http.StatusForbidden, "?user_id=bob&user_id=ann": http.StatusForbidden, "?user%5fid=bob": http.StatusForbidden,
	} {
		x.calls = nil
		if w := x.do(t, http.MethodGet, inbox+query, token, ""); w.Code != want {
			t.Errorf("%q: answered %d, want %d", query, w.Code, want)
		}
		if relayed := len(x.calls) == 1; relayed != (want == http.StatusOK) {
			t.Errorf("%q: relayed %v", query, relayed)
		}
	}
	x.calls = nil
	if w := x.from(t, "", http.MethodGet, inbox, token, "X-User-Id", "bob", "X-Owner-Id", "other"); w.Code != http.StatusOK {
		t.Fatalf("answered %d", w.Code)
	}
	got := x.calls[0]
	if got.Organization != "org-1" || got.User != "ann" || got.Owner != "team" || got.Key != "token" || got.Terms != "" {
		t.Errorf("relayed as %+v", got)
	}
}

// A call with a token verifies its user only if the token was minted by a caller that may let its holder decide.
func TestTokenVerifiesItsUser(t *testing.T) {
	x := newWorld(t)
	x.token(t) // makes the key that signs
	for _, verified := range []bool{true, false} {
		text, _, _, err := x.minter.Mint(t.Context(), apikey.Actor{Name: "test"}, usertoken.Request{
			Organization: "org-1", User: "ann", Scopes: []apikey.Permission{"notifications:inbox:read"}, Verified: verified, Life: time.Minute,
		})
		if err != nil {
			t.Fatal(err)
		}
		x.calls = nil
		if w := x.do(t, http.MethodGet, inbox, text.Reveal(), ""); w.Code != http.StatusOK || x.calls[0].Verified != verified || x.calls[0].User != "ann" {
			t.Errorf("%v: answered %d, relayed as %+v", verified, w.Code, x.calls)
		}
	}
}

func TestForgedTokenIsRefused(t *testing.T) {
	x := newWorld(t)
	token := x.token(t)
	for name, text := range map[string]string{
		"cut": token[:len(token)-4], "none": "swt_eyJhbGciOiJub25lIn0.e30.", "without its prefix": strings.TrimPrefix(token, "swt_"),
	} {
		w := x.do(t, http.MethodGet, inbox, text, "")
		if w.Code != http.StatusUnauthorized || len(x.calls) != 0 {
			t.Errorf("%s: answered %d, relayed %d", name, w.Code, len(x.calls))
		}
	}
	if err := x.minter.Revoke(t.Context(), apikey.Actor{Name: "test"}, usertoken.Holder{Organization: "org-1", User: "ann"}); err != nil {
		t.Fatal(err)
	}
	x.refresh(t)
	if w := x.do(t, http.MethodGet, inbox, token, ""); w.Code != http.StatusUnauthorized {
		t.Errorf("revoked: answered %d", w.Code)
	}
}

func TestCORS(t *testing.T) {
	x := newWorld(t)
	token := x.token(t)
	_, key := x.key(t, "notifications", apikey.Read)
	for name, tt := range map[string]struct {
		origin, bearer string
		status         int
		allowed        bool
	}{
		"its origin":                  {app, token, http.StatusOK, true},
		"no page":                     {"", token, http.StatusOK, false},
		"another organization's":      {other, token, http.StatusForbidden, false},
		"unknown":                     {"https://evil.example.com", token, http.StatusForbidden, false},
		"null":                        {"null", token, http.StatusForbidden, false},
		"an expired token":            {app, token + "x", http.StatusUnauthorized, true},
		"an expired token, elsewhere": {"https://evil.example.com", token + "x", http.StatusUnauthorized, false},
		"a product key":               {app, key, http.StatusOK, false},
		"nothing":                     {app, "", http.StatusUnauthorized, false},
	} {
		w := x.from(t, tt.origin, http.MethodGet, inbox, tt.bearer)
		want := ""
		if tt.allowed {
			want = tt.origin
		}
		if got := w.Header().Get("Access-Control-Allow-Origin"); w.Code != tt.status || got != want {
			t.Errorf("%s: answered %d with Access-Control-Allow-Origin %q, want %d with %q", name, w.Code, got, tt.status, want)
		}
		exposed := w.Header().Get("Access-Control-Expose-Headers")
		if tt.allowed && (w.Header().Get("Vary") != "Origin" || !strings.Contains(exposed, "Retry-After") || !strings.Contains(exposed, "X-Should-Retry")) {
			t.Errorf("%s: %v", name, w.Header())
		}
		if w.Header().Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: credentials of the browser are allowed", name)
		}
	}
}

func TestPreflight(t *testing.T) {
	x := newWorld(t)
	x.token(t)
	const asked = "Access-Control-Request-Method"
	for name, tt := range map[string]struct {
		origin, path string
		headers      []string
		status       int
		methods      string
	}{
		"allowed":               {app, inbox, []string{asked, "GET"}, http.StatusNoContent, "GET"},
		"another organization":  {other, inbox + "/x", []string{asked, "DELETE"}, http.StatusNoContent, "DELETE"},
		"several methods":       {app, "/product/v1/notifications/push/registrations", []string{asked, "POST"}, http.StatusNoContent, "GET, POST"},
		"unknown origin":        {"https://evil.example.com", inbox, []string{asked, "GET"}, http.StatusForbidden, ""},
		"no preflight":          {app, inbox, nil, http.StatusMethodNotAllowed, ""},
		"no origin":             {"", inbox, []string{asked, "GET"}, http.StatusMethodNotAllowed, ""},
		"not for end users":     {app, "/product/v1/ai/chat", []string{asked, "POST"}, http.StatusMethodNotAllowed, ""},
		"sends, not the user's": {app, "/product/v1/notifications/send", []string{asked, "POST"}, http.StatusMethodNotAllowed, ""},
	} {
		w := x.from(t, tt.origin, http.MethodOptions, tt.path, "", tt.headers...)
		want := ""
		if tt.methods != "" {
			want = tt.origin
		}
		if w.Code != tt.status || w.Header().Get("Access-Control-Allow-Methods") != tt.methods || w.Header().Get("Access-Control-Allow-Origin") != want {
			t.Errorf("%s: answered %d with %v", name, w.Code, w.Header())
		}
		if tt.methods != "" && !strings.Contains(w.Header().Get("Access-Control-Allow-Headers"), "Last-Event-ID") {
			t.Errorf("%s: a page may not resume a stream", name)
		}
	}
	if len(x.calls) != 0 {
		t.Errorf("%d preflights were relayed", len(x.calls))
	}
}

func TestSigningKeysAreShown(t *testing.T) {
	x := newWorld(t)
	x.token(t)
	w := x.do(t, http.MethodGet, "/product/v1/_meta/jwks", "", "")
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"crv":"Ed25519"`) || strings.Contains(w.Body.String(), `"d":`) {
		t.Errorf("answered %d: %s", w.Code, w.Body)
	}
}

// The edge ends the stream of a token that is revoked.
func TestStreamEndsWithItsToken(t *testing.T) {
	x := newWorld(t)
	token := x.token(t)
	var ended error
	x.relay = func(_ http.ResponseWriter, call proxy.Call) error {
		done := call.Follow(func(cause error) { ended = cause })
		defer done()
		if err := x.minter.Revoke(t.Context(), apikey.Actor{Name: "test"}, usertoken.Holder{Organization: "org-1"}); err != nil {
			t.Error(err)
		}
		x.refresh(t)
		return nil
	}
	x.do(t, http.MethodGet, inbox+"/stream", token, "")
	if !errors.Is(ended, usertoken.ErrInvalid) {
		t.Errorf("ended with %v", ended)
	}
}

// A page may call tools with a product key only from an origin that the key's organization allows; a caller that is no
// page needs none.
func TestPagesThatCallTools(t *testing.T) {
	x := newWorld(t)
	x.token(t)
	_, key := x.key(t, "ai", apikey.Write)
	const path = "/product/v1/mcp/files"
	for origin, want := range map[string]int{"": http.StatusOK, app: http.StatusOK, other: http.StatusForbidden, "null": http.StatusForbidden} {
		if w := x.from(t, origin, http.MethodPost, path, key); w.Code != want {
			t.Errorf("origin %q: answered %d, want %d: %s", origin, w.Code, want, w.Body)
		}
	}
	if w := x.from(t, other, http.MethodPost, "/product/v1/ai/chat/completions", key); w.Code == http.StatusForbidden {
		t.Errorf("a chat: answered %d: %s", w.Code, w.Body)
	}
}
