// Package console is the operators' page: it shows what the gateway does now and lets operators change the routing. The
// page is three embedded files and an icon, without a build step and without external resources. Everything that it shows and does
// goes through the gateway's own JSON face, with the token that an operator enters. internal/app serves it.
package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"time"

	"switchyard.dev/services/platform/apidoc"
)

//go:embed page
var files embed.FS

// pages maps paths to files and media types.
var pages = map[string][2]string{
	"/console":     {"page/console.html", "text/html; charset=utf-8"},
	"/console.css": {"page/console.css", "text/css; charset=utf-8"},
	"/console.js":  {"page/console.js", "text/javascript; charset=utf-8"},
}

// policy lets the page load its own files and call this gateway, and nothing else (Content Security Policy level 3).
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

// Handlers returns the page's handlers by path.
func Handlers() (map[string]http.Handler, error) {
	handlers := map[string]http.Handler{"/console.svg": serve(apidoc.IconType, apidoc.Icon)}
	for path, of := range pages {
		text, err := fs.ReadFile(files, of[0])
		if err != nil {
			return nil, fmt.Errorf("console: %w", err)
		}
		handlers[path] = serve(of[1], text)
	}
	return handlers, nil
}

func serve(media string, text []byte) http.Handler {
	sum := sha256.Sum256(text)
	tag := `"` + hex.EncodeToString(sum[:8]) + `"`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", media)
		h.Set("Cache-Control", "no-cache")
		h.Set("Etag", tag)
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
	})
}
