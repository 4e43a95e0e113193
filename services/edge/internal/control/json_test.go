package control

import (
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

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
	f.Add(`{"rules":[{"to":[{"channel":7}],"where":{"a":"b"},"foo":1}],"limit":{"requests":1}}`)
	f.Add(`{"organization_id":7}`)
	f.Add("")
	f.Fuzz(func(t *testing.T, body string) {
		var into rulesBody
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader(body))
		if err := read(httptest.NewRecorder(), r, &into); err != nil {
			if e := apierr.From(err); e.Kind != apierr.KindInvalid && e.Kind != apierr.KindTooLarge || e.Text == "" {
				t.Fatalf("refused with %v", err)
			}
		}
	})
}

// A name or value that looks like a key is refused and not repeated, to the caller
// or in the log; limit is 1 to 200 where it is there.
func TestKeysAreNotRepeated(t *testing.T) {
	const key = "sk-ant-api03-Zx81canaryQw27Rt63"
	for _, body := range []string{
		`{"KEY":1}`, `{"organization_id":{"KEY":1}}`, `{"rate_limit":{"KEY":1}}`, `{"expires_at":"KEY"}`, `{"permissions":"KEY"}`, `"KEY"`, `{"KEY`,
	} {
		var into struct {
			Organization string     `json:"organization_id"`
			Permissions  []string   `json:"permissions"`
			ExpiresAt    *time.Time `json:"expires_at"`
			RateLimit    *RateLimit `json:"rate_limit"`
		}
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader(strings.ReplaceAll(body, "KEY", key)))
		if err := read(httptest.NewRecorder(), r, &into); err == nil || strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", body, err)
		}
	}
	for query, want := range map[string]string{
		key + "=1": "query", "organization_id=" + key: "organization_id", "limit=" + key: "limit", "cursor=" + key: "cursor",
		"limit=0": "limit", "limit=": "limit", "limit=201": "limit", "organization_id=a b": "organization_id",
	} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		r.URL = &url.URL{Path: "/", RawQuery: query}
		_, _, err := readPage[place](r, "organization_id")
		if err == nil || strings.Contains(err.Error(), key) || !strings.HasPrefix(err.Error(), want+": ") {
			t.Errorf("%s: %v, want %s", query, err, want)
		}
	}
	for query, want := range map[string]string{
		"organization=a": "organization: is not a parameter of this request; did you mean organization_id?",
		"colour=red":     "colour: is not a parameter of this request; known parameters: organization_id, limit, cursor",
		strings.Repeat("colour", 100_000) + "=red": "query: holds a name that is not a parameter of this request; known parameters: organization_id, limit, cursor",
	} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		r.URL = &url.URL{Path: "/", RawQuery: query}
		if _, _, err := readPage[place](r, "organization_id"); err == nil || err.Error() != want {
			t.Errorf("%.50s: %v, want %s", query, err, want)
		}
	}
	if err := identifiers("name", "Zapier", "organization_id", "3f1e8a52-9c1d-4b7e-8a52-9c1d4b7e8a52", "product", "ai"); err != nil {
		t.Error(err)
	}
}
