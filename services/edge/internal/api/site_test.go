package api_test

import (
	"net/http"
	"net/http/httptest"
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
		{http.MethodGet, "/docs/edge/", http.StatusNotFound},
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
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/docs/", nil)
	r.Header.Set("If-None-Match", home.Header().Get("ETag"))
	w := httptest.NewRecorder()
	x.ServeHTTP(w, r)
	if w.Code != http.StatusNotModified {
		t.Errorf("the same ETag: %d", w.Code)
	}
}
