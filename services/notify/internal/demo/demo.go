// Package demo is a page to try notify with in a browser: it subscribes to web
// push, sends, and follows the in-app feed. It acts with a service token for
// anyone who opens it, so it is for the developer's own machine: internal/app serves
// it only when a setting asks for it, and only on loopback.
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

// Who the page is.
const (
	Organization = "org_demo"
	User         = "demo"
)

//go:embed page
var files embed.FS

// Handler serves the page at its root, and calls api for it under /v1/.
func Handler(api http.Handler, token secret.File) http.Handler {
	page, err := fs.Sub(files, "page")
	if err != nil {
		panic(err) // The folder is embedded.
	}
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServerFS(page))
	mux.Handle("/v1/", act(api, token))
	return local(guarded(http.NewCrossOriginProtection().Handler(mux)))
}

// act makes the page's calls those of a service for the demo's user.
func act(api http.Handler, token secret.File) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := token.Read() // each time: a new one needs no restart
		if err != nil {
			http.Error(w, "the demo's token can't be read", http.StatusServiceUnavailable)
			return
		}
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+text.Reveal())
		r.Header.Set(caller.HeaderOrganization, Organization)
		r.Header.Set(caller.HeaderUser, User)
		api.ServeHTTP(w, r)
	})
}

// guarded lets the page load nothing but its own files.
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

// local refuses requests that came by another name than this machine's own: a
// stranger's page could make its own name mean this address.
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
