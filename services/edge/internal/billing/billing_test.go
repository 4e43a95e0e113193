package billing_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/edge/internal/billing"
	"switchyard.dev/services/platform/secret"
)

var query = billing.Query{Organization: "acme", Since: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Cursor: "c1", Limit: 200}

// serve answers every request with a status and a body, and returns the feed and the last request.
func serve(t *testing.T, status int, body string) (*billing.Feed, func() *http.Request) {
	t.Helper()
	var last *http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		last = r
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	base, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return billing.NewFeed(http.DefaultTransport, base, func() (secret.Value, error) { return secret.New("t0ken"), nil }), func() *http.Request { return last }
}

func TestPage(t *testing.T) {
	const one = `{"id":"r1","organization_id":"acme","key_id":"key_1","started_at":"2026-01-02T03:04:05.000006Z","recorded_at":"2026-01-02T03:04:06Z","cost_pico_usd":"123456789012345",
		"input_tokens":1,"cache_read_tokens":2,"cache_write_tokens":4,"cache_write_long_tokens":8,"image_input_tokens":16,"audio_input_tokens":32,
		"output_tokens":64,"reasoning_tokens":128,"image_output_tokens":256,"audio_output_tokens":512,"images":7}`
	const other = `{"organization_id":"acme","key_id":null,"started_at":"2026-01-02T03:04:05Z","cost_pico_usd":"0"}`
	f, last := serve(t, http.StatusOK, `{"records":[`+one+`,`+other+`],"next_cursor":"c2"}`)
	got, err := f.Read(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if diff := cmp.Diff(billing.Page{Next: "c2", Records: []billing.Record{
		{
			ID: "r1", Organization: "acme", Key: "key_1", StartedAt: at.Add(6 * time.Microsecond), RecordedAt: at.Add(time.Second),
			Prompt: 63, Completion: 960, Pico: 123456789012345,
		},
		{Organization: "acme", StartedAt: at},
	}}, got); diff != "" {
		t.Errorf("page (-want +got):\n%s", diff)
	}
	r := last()
	if got := r.URL.Path + "?" + r.URL.RawQuery; got != "/v1/usage?cursor=c1&limit=200&organization_id=acme&since=2026-01-01T00%3A00%3A00Z" {
		t.Errorf("asked for %s", got)
	}
	if r.Header.Get("Authorization") != "Bearer t0ken" || r.Header.Get("X-Organization-Id") != "acme" {
		t.Errorf("headers %v", r.Header)
	}
	full := `{"records":[` + strings.Repeat(other+",", 199) + other + `],"next_cursor":"c3"}`
	if f, _ := serve(t, http.StatusOK, full); true {
		if page, err := f.Read(t.Context(), query); err != nil || !page.More || len(page.Records) != 200 {
			t.Errorf("a full page has %d records, more %t, %v", len(page.Records), page.More, err)
		}
	}
}

func TestRefusedPages(t *testing.T) {
	record := func(organization, cost string) string {
		return fmt.Sprintf(`{"records":[{"organization_id":%q,"started_at":"2026-01-02T03:04:05Z","cost_pico_usd":%q}],"next_cursor":""}`, organization, cost)
	}
	for name, tt := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"status":               {503, "", "status 503"},
		"no JSON":              {200, "<html>", "decode page"},
		"two documents":        {200, `{} {}`, "decode page"},
		"endless":              {200, `{"records":[` + strings.Repeat(" ", 9<<20), "more than 8388608 bytes"},
		"another organization": {200, record("other", "1"), "another organization"},
		"negative cost":        {200, record("acme", "-1"), "cost"},
		"huge cost":            {200, record("acme", "9223372036854775808"), "cost"},
		"no cost":              {200, record("acme", ""), "cost"},
	} {
		f, _ := serve(t, tt.status, tt.body)
		if _, err := f.Read(t.Context(), query); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

// A query without an organization is one of all, up to a moment.
func TestAllOrganizations(t *testing.T) {
	f, last := serve(t, http.StatusOK, `{"records":[{"organization_id":"acme","cost_pico_usd":"1"},{"organization_id":"other","cost_pico_usd":"2"}],"next_cursor":"c1"}`)
	page, err := f.Read(t.Context(), billing.Query{Since: query.Since, Until: query.Since.Add(time.Hour), Limit: 2})
	if err != nil || len(page.Records) != 2 || !page.More || page.Next != "c1" {
		t.Errorf("%+v, %v", page, err)
	}
	if r := last(); r.URL.RawQuery != "limit=2&since=2026-01-01T00%3A00%3A00Z&until=2026-01-01T01%3A00%3A00Z" || r.Header.Get("X-Organization-Id") != "" {
		t.Errorf("asked for %s, headers %v", r.URL.RawQuery, r.Header)
	}
}
