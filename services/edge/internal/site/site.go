// Package site serves Switchyard's documents as pages: the static site that `make gen` makes of the repository's Markdown
// with deploy/site. Package api serves it; the page of the customers' routes is package reference's.
package site

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"

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
}

//go:embed pages
var pages embed.FS

// Handlers returns the handlers of the site's files by path.
func Handlers() (map[string]http.Handler, error) {
	handlers := make(map[string]http.Handler)
	err := fs.WalkDir(pages, "pages", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		kind, known := media[path.Ext(name)]
		if !known {
			return fmt.Errorf("%s: no media type for its extension", name)
		}
		text, err := fs.ReadFile(pages, name)
		if err != nil {
			return err
		}
		handlers[Prefix+strings.TrimPrefix(name, "pages/")] = apidoc.Fixed(kind, text, headers...)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("site of documents: %w", err)
	}
	handlers[Prefix] = handlers[Prefix+"index.html"]
	if handlers[Prefix] == nil {
		return nil, errors.New("site of documents: no first page")
	}
	return handlers, nil
}

// headers are those of each file, as pairs of name and value.
var headers = []string{"Content-Security-Policy", policy, "Referrer-Policy", "no-referrer"}
