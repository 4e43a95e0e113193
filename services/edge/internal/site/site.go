// Package site serves Switchyard's documents as pages: `make gen` renders the repository's Markdown with deploy/site, and
// the edge puts the documents into their frame when it starts. Package api serves them; the page of the customers' routes
// is package reference's.
package site

import (
	"embed"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"

	"switchyard.dev/services/platform/apidoc"
)

// Prefix begins all paths of the site. Its first page is at Prefix.
const Prefix = apidoc.PagePath + "/"

// policy lets a page load the site's own scripts, style sheet and images, and send the words of a search to the site, and
// nothing else (Content Security Policy level 3).
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

// media are the types of the site's files.
var media = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".png": "image/png",
	".svg": apidoc.IconType,
}

//go:embed documents
var documents embed.FS

// reference is the link from the first page to that of the customers' routes.
const reference = ".." + apidoc.PagePath

// What is served is made once: the files of Handlers, and the page of Missing.
var (
	served = sync.OnceValues(func() (map[string][]byte, error) { return files(reference) })
	lost   = sync.OnceValues(func() ([]byte, error) {
		c, err := embedded()
		if err != nil {
			return nil, err
		}
		return c.missing(Prefix, reference)
	})
)

// Files returns the files of the site by path, for any web server or for a browser alone.
func Files() (map[string][]byte, error) { return files("") }

func files(reference string) (map[string][]byte, error) {
	c, err := embedded()
	if err != nil {
		return nil, err
	}
	return c.files(reference)
}

// embedded returns the contents of this release.
func embedded() (*contents, error) {
	folder, err := fs.Sub(documents, "documents")
	if err != nil {
		return nil, err
	}
	c, err := read(folder)
	if err != nil {
		return nil, fmt.Errorf("documents: %w", err)
	}
	return c, nil
}

// Handlers returns the handlers of the site's files by path. A folder's index is at the path of the folder, too.
func Handlers() (map[string]http.Handler, error) {
	texts, err := served()
	if err != nil {
		return nil, err
	}
	handlers := make(map[string]http.Handler)
	for name, text := range texts {
		kind, known := media[path.Ext(name)]
		if !known {
			return nil, fmt.Errorf("site of documents: %s: no media type for its extension", name)
		}
		handlers[Prefix+name] = apidoc.Fixed(kind, text, headers...)
		if folder, index := strings.CutSuffix(name, homePage); index {
			handlers[Prefix+folder] = handlers[Prefix+name]
		}
	}
	return handlers, nil
}

// Missing answers a request for a path that there is not with a page that leads to the search.
func Missing(w http.ResponseWriter) error {
	page, err := lost()
	if err != nil {
		return err
	}
	for i := 0; i < len(headers); i += 2 {
		w.Header().Set(headers[i], headers[i+1])
	}
	w.Header().Set("Content-Type", media[".html"])
	w.Header().Set("Vary", "Accept")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusNotFound)
	_, _ = w.Write(page) // The client may have disconnected.
	return nil
}

// headers are those of each file, as pairs of name and value.
var headers = []string{"Content-Security-Policy", policy, "Referrer-Policy", "no-referrer"}
