package api

import (
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"switchyard.dev/services/platform/apierr"
)

// place is what usage and audit put into their cursors.
type place struct {
	Name string
	At   int64
}

// Whatever a query holds, it is read as it was given out or refused by name.
func FuzzReadPage(f *testing.F) {
	f.Add("limit=7&cursor=" + cursor(place{"a", 1}))
	f.Add("limit=0")
	f.Add("cursor=bm9uZQ")
	f.Add("cursor=" + cursor(map[string]string{"Name": "a\x00b"}))
	f.Add("organization_id=a%00b&limit=%31")
	f.Add("%zz=;")
	f.Fuzz(func(t *testing.T, query string) {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		r.URL = &url.URL{Path: "/", RawQuery: query}
		q, p, err := readPage[place](r, "organization_id")
		if err != nil {
			if e := apierr.From(err); e.Kind != apierr.KindInvalid || e.Text == "" {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		if p.limit < 1 || p.limit > maxLimit || strings.Contains(p.value.Name, "\x00") {
			t.Fatalf("%q was read as %+v", query, p)
		}
		for name := range q {
			if name != "organization_id" && name != "limit" && name != "cursor" {
				t.Fatalf("%q is let through", name)
			}
		}
		if p.value != (place{}) { // what was read goes on where it was
			r.URL.RawQuery = "cursor=" + cursor(p.value)
			if _, again, err := readPage[place](r); err != nil || again.value != p.value {
				t.Fatalf("%+v comes back as %+v, %v", p.value, again.value, err)
			}
		}
	})
}

// A body is read in whole, or refused with the field or the rule.
func FuzzRead(f *testing.F) {
	f.Add(`{"organization_id":"o","permissions":["read"],"expires_at":null}`)
	f.Add(`{"overlap_seconds":1}{}`)
	f.Add(`{"nobody":1}`)
	f.Add(`{"organization_id":7}`)
	f.Add("")
	f.Fuzz(func(t *testing.T, body string) {
		var into struct {
			Organization string   `json:"organization_id"`
			Permissions  []string `json:"permissions"`
			ExpiresAt    *string  `json:"expires_at"`
		}
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader(body))
		if err := read(httptest.NewRecorder(), r, &into); err != nil {
			if e := apierr.From(err); e.Kind != apierr.KindInvalid && e.Kind != apierr.KindTooLarge || e.Text == "" {
				t.Fatalf("refused with %v", err)
			}
		}
	})
}
