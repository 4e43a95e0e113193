package api_test

import (
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// The site of documents needs no key, and has the page of the customers' routes beside it.
func TestSiteOfDocuments(t *testing.T) {
	x := newWorld(t)
	for _, test := range []struct {
		method, path string
		status       int
	}{
		{http.MethodGet, "/docs/", http.StatusOK},
		{http.MethodHead, "/docs/", http.StatusOK},
		{http.MethodGet, "/docs/index.html", http.StatusOK},
		{http.MethodGet, "/docs/edge/index.html", http.StatusOK},
		{http.MethodGet, "/docs/search.html?q=key", http.StatusOK},
		{http.MethodPost, "/docs/", http.StatusMethodNotAllowed},
		{http.MethodDelete, "/docs/site.css", http.StatusMethodNotAllowed},
		{http.MethodGet, "/docs/edge/", http.StatusOK},
		{http.MethodGet, "/docs/icon.svg", http.StatusOK},
		{http.MethodGet, "/docs/images/", http.StatusNotFound},
		{http.MethodGet, "/docs/pages/index.html", http.StatusNotFound},
		{http.MethodGet, "/docs/..%2fsite.go", http.StatusNotFound},
		{http.MethodPost, "/docs/missing", http.StatusNotFound},
	} {
		w := x.do(t, test.method, test.path, "", "")
		if w.Code != test.status {
			t.Errorf("%s %s: %d, want %d", test.method, test.path, w.Code, test.status)
		}
		if allow := w.Header().Get("Allow"); (allow == "GET") != (test.status == http.StatusMethodNotAllowed) {
			t.Errorf("%s %s: Allow %q", test.method, test.path, allow)
		}
	}
	home := x.do(t, http.MethodGet, "/docs/", "", "")
	if !strings.Contains(home.Body.String(), `<a href="../docs">`) {
		t.Error("the first page has no link to the page of the customers' routes")
	}
	page, err := html.Parse(x.do(t, http.MethodGet, "/docs", "", "").Body)
	if err != nil {
		t.Fatal(err)
	}
	if link := first(first(page, "header"), "a"); attribute(link, "href") != "docs/" {
		t.Errorf("the page of the customers' routes links first to %q", attribute(link, "href"))
	}
	for other := range elements(page, "a") {
		if to := attribute(other, "href"); !strings.HasPrefix(to, "#") {
			if w := x.do(t, http.MethodGet, "/"+to, "", ""); w.Code != http.StatusOK {
				t.Errorf("the page of the customers' routes links to %s: %d", to, w.Code)
			}
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/docs/", nil)
	r.Header.Set("If-None-Match", home.Header().Get("ETag"))
	w := httptest.NewRecorder()
	x.ServeHTTP(w, r)
	if w.Code != http.StatusNotModified {
		t.Errorf("the same ETag: %d", w.Code)
	}
}

// A browser that asks for a page that there is not gets one that leads to the search, at any depth; programs get an error.
func TestMissingPage(t *testing.T) {
	x := newWorld(t)
	ask := func(method, path, accept string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		x.ServeHTTP(w, r)
		return w
	}
	w := ask(http.MethodGet, "/docs/a/b/c.html", "text/html,*/*;q=0.8")
	if w.Code != http.StatusNotFound || w.Header().Get("Content-Type") != "text/html; charset=utf-8" || w.Header().Get("Content-Security-Policy") == "" {
		t.Fatalf("%d %v", w.Code, w.Header())
	}
	page, err := html.Parse(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	if title := textOf(first(page, "h1")); title != "This page does not exist" {
		t.Errorf("the page says %q", title)
	}
	for n := range page.Descendants() {
		for _, to := range []string{attribute(n, "href"), attribute(n, "src"), attribute(n, "action")} {
			if to, _, _ = strings.Cut(to, "#"); to == "" {
				continue
			}
			if got := ask(http.MethodGet, path.Clean(to), "*/*"); got.Code != http.StatusOK {
				t.Errorf("a link leads to %s: %d", to, got.Code)
			}
		}
	}
	for _, w := range []*httptest.ResponseRecorder{
		ask(http.MethodGet, "/docs/missing", "application/json"), ask(http.MethodPost, "/docs/missing", "text/html"),
	} {
		if w.Code != http.StatusNotFound || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%d %v", w.Code, w.Header())
		}
	}
}
