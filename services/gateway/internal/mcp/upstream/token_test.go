package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"switchyard.dev/services/gateway/internal/mcp/oauth"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/platform/secret"
)

// issued are access tokens: the present one is "Bearer tok-<n>".
type issued struct {
	n atomic.Int32
	// stuck are credentials that are not replaced.
	stuck   bool
	failure error
}

func (i *issued) Header(context.Context, *toolserver.Server) (string, secret.Value, error) {
	return "Authorization", secret.New(fmt.Sprint("Bearer tok-", i.n.Load())), i.failure
}

func (i *issued) Refused(_ *toolserver.Server, refused secret.Value) bool {
	if i.stuck {
		return false
	}
	var n int32
	_, _ = fmt.Sscanf(refused.Reveal(), "Bearer tok-%d", &n)
	i.n.CompareAndSwap(n, n+1)
	return true
}

// guarded is a legacy server that takes tokens from a number on.
type guarded struct {
	least    atomic.Int32
	refusals atomic.Int32
	opened   atomic.Int32
	calls    atomic.Int32
}

func (g *guarded) handler(t *testing.T, challenge string, status int) http.Handler {
	t.Helper()
	inner := legacyStub(func(w http.ResponseWriter, _ *http.Request, m asked) {
		g.calls.Add(1)
		document(w, m, good)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n int32
		if _, err := fmt.Sscanf(r.Header.Get("Authorization"), "Bearer tok-%d", &n); err != nil {
			t.Errorf("Authorization %q", r.Header.Get("Authorization"))
		}
		if n < g.least.Load() {
			g.refusals.Add(1)
			w.Header().Set("WWW-Authenticate", challenge)
			w.WriteHeader(status)
			return
		}
		if r.Method == http.MethodPost && r.Header.Get("Mcp-Session-Id") == "" {
			g.opened.Add(1)
		}
		inner.ServeHTTP(w, r)
	})
}

// A token that a server refuses is replaced once, the call is made with the next one, and the session goes on.
func TestTokensAreRenewed(t *testing.T) {
	var g guarded
	tokens := &issued{}
	server, c := serve(t, g.handler(t, "", http.StatusUnauthorized), func(o *upstream.Options) { o.Credentials = tokens })
	server.Credential = toolserver.Credential{Custody: toolserver.CustodySealed, OAuth: &toolserver.OAuth{}}
	call := func() error {
		_, err := c.Call(t.Context(), server, &upstream.Call{Organization: "org_a", Tool: "a"})
		return err
	}
	if err := call(); err != nil || g.opened.Load() != 2 { // server/discover and initialize.
		t.Fatalf("%v, %d requests to open", err, g.opened.Load())
	}
	g.least.Store(3) // Tokens 1 and 2 are refused as well.
	if err := call(); err == nil || g.refusals.Load() != 2 || g.calls.Load() != 1 {
		t.Errorf("%v after %d refusals and %d calls", err, g.refusals.Load(), g.calls.Load())
	}
	tokens.n.Store(2)
	if err := call(); err != nil || g.refusals.Load() != 3 || g.calls.Load() != 2 || g.opened.Load() != 2 {
		t.Errorf("%v after %d refusals, %d calls, %d requests to open", err, g.refusals.Load(), g.calls.Load(), g.opened.Load())
	}
	g.least.Store(4)
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() {
			if err := call(); err != nil {
				t.Error(err)
			}
		})
	}
	if wait.Wait(); tokens.n.Load() != 4 || g.calls.Load() != 22 {
		t.Errorf("token %d, %d calls", tokens.n.Load(), g.calls.Load())
	}
	c.Forget(server.Key())
	g.least.Store(5) // Refused while it begins.
	if err := call(); err != nil || tokens.n.Load() != 5 {
		t.Errorf("%v, token %d", err, tokens.n.Load())
	}
}

// The error of a refusal says which scopes are demanded, and nothing else of the server's text.
func TestRefusedTokens(t *testing.T) {
	for challenge, want := range map[string]string{
		"": "refused the gateway's credential",
		`Bearer error="insufficient_scope", scope="files:write files:read", error_description="canary"`: `demands the scope "files:write files:read"`,
		`Bearer error="insufficient_scope", scope="` + strings.Repeat("canary ", 200) + `"`:             "demands another scope",
		`Bearer error="invalid_token", scope="canary"`:                                                  "refused the gateway's credential",
	} {
		var g guarded
		g.least.Store(9)
		tokens := &issued{}
		server, c := serve(t, g.handler(t, challenge, http.StatusForbidden), func(o *upstream.Options) { o.Credentials = tokens })
		server.Credential = toolserver.Credential{Custody: toolserver.CustodySealed, OAuth: &toolserver.OAuth{}}
		_, err := c.Call(t.Context(), server, &upstream.Call{Tool: "a"})
		e, ok := errors.AsType[*upstream.Error](err)
		if !ok || !strings.Contains(e.Text, want) || strings.Contains(e.Text, "canary") || e.Sent || !e.Unauthorized() {
			t.Errorf("%s: %+v", challenge, err)
		}
		if tokens.n.Load() != 0 {
			t.Errorf("%s: a token was replaced, which another scope does not need", challenge)
		}
	}
}

// Without a token nothing is sent, and the error says why. A server that takes no token is not asked twice.
func TestWithoutTokens(t *testing.T) {
	var g guarded
	g.least.Store(9)
	tokens := &issued{failure: fmt.Errorf("no credential: %w", &oauth.Error{Text: "the issuer is away"})}
	server, c := serve(t, g.handler(t, "", http.StatusUnauthorized), func(o *upstream.Options) { o.Credentials = tokens })
	server.Credential = toolserver.Credential{Custody: toolserver.CustodySealed, OAuth: &toolserver.OAuth{}}
	_, err := c.List(t.Context(), server)
	e, ok := errors.AsType[*upstream.Error](err)
	if !ok || e.Cause != upstream.CauseUnauthorized || e.Text != "no access token can be had: the issuer is away" || e.Sent || !e.Unauthorized() || g.refusals.Load() != 0 {
		t.Errorf("%+v", err)
	}
	tokens.failure, tokens.stuck = nil, true
	for range 3 {
		if _, err = c.List(t.Context(), server); err == nil || g.refusals.Load() != 1 {
			t.Errorf("%v after %d refusals", err, g.refusals.Load())
		}
	}
}
