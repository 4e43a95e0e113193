// Package demo serves a page to try notify in a browser: it subscribes to web push, sends, and follows the in-app
// feed. It acts with a service token for every visitor, so it is for the developer's own machine: internal/app serves
// it only when a setting enables it, and only on loopback.
package demo

import (
	"embed"
	"io/fs"
	"net"
	"net/http"
	"net/netip"

	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/secret"
)

// The organization and user that the page acts for.
const (
	Organization = "org_demo"
	User         = "demo"
)

//go:embed page
var files embed.FS

// Handler serves the page at its root, and proxies its requests under /v1/ to api. push is the address of a fake push
// service that the page can subscribe at without a vendor; empty for none.
func Handler(api http.Handler, token secret.File, push string) http.Handler {
	page, err := fs.Sub(files, "page")
	if err != nil {
		panic(err) // The folder is embedded.
	}
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServerFS(page))
	mux.Handle("/v1/", act(api, token))
	servePush(mux, push)
	return local(guarded(http.NewCrossOriginProtection().Handler(mux)))
}

// act adds the service token and the demo's organization and user to the page's requests.
func act(api http.Handler, token secret.File) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := token.Read() // Read each time: a new token needs no restart.
		if err != nil {
			http.Error(w, "the demo's token cannot be read", http.StatusServiceUnavailable)
			return
		}
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+text.Reveal())
		r.Header.Set(caller.HeaderOrganization, Organization)
		r.Header.Set(caller.HeaderUser, User)
		api.ServeHTTP(w, r)
	})
}

// guarded restricts the page to its own files.
func guarded(next http.Handler) http.Handler {
	const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; worker-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache")
		next.ServeHTTP(w, r)
	})
}

// local refuses requests whose Host is not loopback: another site could let its own name resolve to this address.
func local(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		addr, err := netip.ParseAddr(host)
		if host != "localhost" && (err != nil || !addr.IsLoopback()) {
			http.Error(w, "the demo answers on this machine only", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}
