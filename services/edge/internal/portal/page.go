package portal

import (
	"embed"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"switchyard.dev/services/platform/apidoc"
)

// Prefix begins all paths of the portal.
const Prefix = "/portal/"

//go:embed page
var files embed.FS

// Policy lets a page load its own files and call its own origin, and nothing else (Content Security Policy level 3).
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; worker-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

// media are the types of the pages' files.
var media = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
	".js": "text/javascript; charset=utf-8", ".json": "application/json",
}

// Pages returns the handlers of the pages' files, by path. The first page is at Prefix.
func Pages() (map[string]http.Handler, error) { return PagesOf(files, Prefix) }

// Shared returns the handlers of the files that other pages use, by path below a prefix: those of the portal without its
// documents.
func Shared(prefix string) (map[string]http.Handler, error) {
	handlers, err := PagesOf(files, prefix)
	for _, document := range []string{"", "refused.html", "main.js", "worker.js"} {
		delete(handlers, prefix+document)
	}
	return handlers, err
}

// PagesOf returns the handlers of the files in the folder page, and of the icon, by path below a prefix. The first page is at
// the prefix.
func PagesOf(files fs.FS, prefix string) (map[string]http.Handler, error) {
	handlers := map[string]http.Handler{prefix + "icon.svg": apidoc.Fixed(apidoc.IconType, apidoc.Icon, headers...)}
	err := fs.WalkDir(files, "page", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		at := prefix + strings.TrimSuffix(strings.TrimPrefix(name, "page/"), "index.html")
		handlers[at] = apidoc.Fixed(media[path.Ext(name)], text, headers...)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("pages at %s: %w", prefix, err)
	}
	return handlers, nil
}

// headers are those of each page, as pairs of name and value.
var headers = []string{
	"Content-Security-Policy", Policy, "Referrer-Policy", "no-referrer",
	"Cross-Origin-Opener-Policy", "same-origin", "Cross-Origin-Resource-Policy", "same-origin",
}

// Refuse answers a link that can't be used with a page that says so.
func Refuse(w http.ResponseWriter) {
	page, _ := fs.ReadFile(files, "page/refused.html") // embedded
	for i := 0; i < len(headers); i += 2 {
		w.Header().Set(headers[i], headers[i+1])
	}
	w.Header().Set("Content-Type", media[".html"])
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusGone)
	_, _ = w.Write(page) // The client may have disconnected.
}
