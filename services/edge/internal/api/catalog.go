package api

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"strings"

	"switchyard.dev/gen"
	"switchyard.dev/services/edge/internal/chain"
	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/edge/internal/reference"
	"switchyard.dev/services/edge/internal/route"
	"switchyard.dev/services/edge/internal/site"
	"switchyard.dev/services/platform/apidoc"
	"switchyard.dev/services/platform/apierr"
)

const (
	catalogPath = "/product/v1/_meta/catalog"
	keysPath    = "/product/v1/_meta/jwks"
)

// Documents returns the list of routes of a table, its OpenAPI document, and the customers' page, which states the bounds
// of requests, by path. They are public and need no key: they reveal only which product a route belongs to.
func Documents(table route.Table, bounds proxy.Bounds) (map[string]http.Handler, error) {
	catalog, err := json.Marshal(table)
	if err != nil {
		return nil, fmt.Errorf("catalog: %w", err)
	}
	document, err := newDocument(table)
	if err != nil {
		return nil, err
	}
	codes, err := fs.ReadFile(gen.OpenAPI, "openapi/errors.json")
	if err != nil {
		return nil, fmt.Errorf("error codes: %w", err)
	}
	limits := reference.Limits{Body: bounds.Body, BodyTime: bounds.BodyTime, WriteTime: bounds.WriteTime}
	all, err := reference.Handlers(table, document, codes, limits)
	if err != nil {
		return nil, err
	}
	all[apidoc.DocumentPath] = apidoc.Fixed("application/json", document)
	all[catalogPath] = apidoc.Fixed("application/json", append(catalog, '\n'))
	return all, nil
}

// mountMeta mounts what describes the face and its callers: the documents, the site, the limits of a key, which any key
// may read, and the public keys of tokens.
func (a *API) mountMeta() error {
	for path, h := range a.options.Documents {
		serve := func(w http.ResponseWriter, r *http.Request, _ *chain.Line) error {
			h.ServeHTTP(w, r)
			return nil
		}
		a.chain.Mount(path, map[string]chain.Handler{http.MethodGet: serve, http.MethodHead: serve})
	}
	if err := a.mountSite(); err != nil {
		return err
	}
	a.chain.Mount(limitsPath, map[string]chain.Handler{http.MethodGet: a.limits})
	a.chain.Mount(keysPath, map[string]chain.Handler{http.MethodGet: a.signingKeys})
	return nil
}

// mountSite mounts the site of documents, which is public.
func (a *API) mountSite() error {
	files, err := site.Handlers()
	if err != nil {
		return err
	}
	a.chain.MountBelow(site.Prefix, func(w http.ResponseWriter, r *http.Request, _ *chain.Line) error {
		file := files[r.URL.Path]
		switch {
		case file == nil && r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html"):
			return site.Missing(w)
		case file == nil:
			return apierr.NotFound("path")
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			return chain.NotAllowed(w, r, http.MethodGet)
		}
		file.ServeHTTP(w, r)
		return nil
	})
	return nil
}

// signingKeys shows the public keys of tokens (RFC 7517), for services of the customer that get them from their pages.
func (a *API) signingKeys(w http.ResponseWriter, _ *http.Request, _ *chain.Line) error {
	text, err := json.Marshal(a.options.Users.Keys())
	if err != nil {
		return fmt.Errorf("encode the keys of tokens: %w", err)
	}
	w.Header().Set("Content-Type", "application/jwk-set+json")
	w.Header().Set("Cache-Control", "public, max-age=10") // a new key signs no sooner
	_, _ = w.Write(append(text, '\n'))                    // an error means that the client has disconnected
	return nil
}
