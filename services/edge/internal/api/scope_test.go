package api_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/edge/internal/route"
)

// holder is a key of a product with permissions.
type holder struct {
	text        string
	product     string
	permissions []apikey.Permission
}

// opens reports whether the key opens a route, in other words than the code does.
func (h holder) opens(r route.Route) bool {
	area, _, _ := strings.Cut(string(r.Scope), ":")
	return slices.Contains(r.Products, h.product) && (slices.Contains(h.permissions, r.Scope) ||
		r.Permission != "" && slices.Contains(h.permissions, r.Permission) ||
		r.Permission != "" && slices.Contains(h.permissions, apikey.Permission(area+":*")))
}

// Every route of the snapshot, called with keys of every product and permission: what a key does not open is 403, names
// the scope and reaches no service.
func TestEveryRouteNeedsItsScope(t *testing.T) {
	x := newWorld(t)
	reached := 0
	x.relay = func(w http.ResponseWriter, _ proxy.Call) error {
		reached++
		_, err := io.WriteString(w, "{}")
		return err
	}
	table, err := route.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var holders []holder
	for _, product := range table.Products() {
		for _, p := range append(apikey.Scopes(), apikey.Read, apikey.Write, "ai:*", "notifications:*", "webhooks:*") {
			_, text := x.key(t, product, p)
			holders = append(holders, holder{text, product, []apikey.Permission{p}})
		}
		others := slices.DeleteFunc(apikey.Scopes(), func(p apikey.Permission) bool { return strings.HasSuffix(string(p), ":read") })
		_, text := x.key(t, product, append(others, apikey.Read)...)
		holders = append(holders, holder{text, product, append(others, apikey.Read)})
	}
	for _, r := range table.Routes {
		opened := 0
		for _, h := range holders {
			reached = 0
			got := x.do(t, r.Method, r.Filled("some"), h.text, r.Example)
			body := got.Body.String()
			switch {
			case h.opens(r):
				opened++
				if got.Code != http.StatusOK || reached != 1 {
					t.Errorf("%s %s with %s of %s: %d, reached %d times; want 200, once", r.Method, r.Path, h.permissions, h.product, got.Code, reached)
				}
			case got.Code != http.StatusForbidden || reached != 0:
				t.Errorf("%s %s with %s of %s: %d, reached %d times; want 403, never", r.Method, r.Path, h.permissions, h.product, got.Code, reached)
			case slices.Contains(r.Products, h.product) && !strings.Contains(body, "needs: "+string(r.Scope)):
				t.Errorf("%s %s: the refusal does not name %s: %s", r.Method, r.Path, r.Scope, body)
			}
		}
		if opened == 0 || opened == len(holders) {
			t.Errorf("%s %s: opened by %d of %d keys", r.Method, r.Path, opened, len(holders))
		}
	}
}
