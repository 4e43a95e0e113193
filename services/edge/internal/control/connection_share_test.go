package control_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"switchyard.dev/services/platform/caller"
)

// Customers' calls count toward their organization's share of the connections to Postgres: while the share is used up,
// further calls of the organization wait, and other organizations' calls are answered.
func TestCustomersCallsShareTheConnections(t *testing.T) {
	x := newPortal(t)
	portal := map[string][]string{}
	service := map[string][]string{}
	for _, organization := range []string{"org-1", "org-2"} {
		portal[organization] = x.session(t, request(organization, "", "", `["alerts:*"]`))
		service[organization] = []string{"Authorization", "Bearer " + operatorToken, "X-Organization-Id", organization}
	}
	hold := caller.With(t.Context(), caller.Caller{Organization: "org-1"})
	for range x.pool.Config().MaxConns / 2 {
		conn, err := x.pool.Acquire(hold)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
	}
	for _, tt := range []struct {
		path    string
		headers map[string][]string
	}{{"/portal/api/product/v1/alerts/rules", portal}, {"/v1/alerts/rules", service}} {
		call := func(ctx context.Context, organization string) int {
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, tt.path, http.NoBody)
			for i, headers := 0, tt.headers[organization]; i < len(headers); i += 2 {
				r.Header.Set(headers[i], headers[i+1])
			}
			w := httptest.NewRecorder()
			x.ServeHTTP(w, r)
			return w.Code
		}
		if status := call(t.Context(), "org-2"); status != http.StatusOK {
			t.Errorf("%s: %d for another organization", tt.path, status)
		}
		brief, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if status := call(brief, "org-1"); status == http.StatusOK {
			t.Errorf("%s: answered beyond the organization's share", tt.path)
		}
		cancel()
	}
}
