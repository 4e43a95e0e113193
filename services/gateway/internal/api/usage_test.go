package api_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
)

// get requests a path of the JSON face; headers are name, value and so on.
func (b *bench) get(tb testing.TB, path, token string, headers ...string) answer {
	tb.Helper()
	r, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, b.http.URL+path, nil)
	if err != nil {
		tb.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("X-Request-Id", "req-test")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := b.http.Client().Do(r)
	if err != nil {
		tb.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return answer{resp.StatusCode, string(text), resp.Header}
}

type usagePage struct {
	Records    []map[string]any `json:"records"`
	NextCursor string           `json:"next_cursor"`
}

// page returns one page of the feed for an operator.
func (b *bench) page(tb testing.TB, query string) (page usagePage) {
	tb.Helper()
	a := b.get(tb, "/v1/usage?"+query, "ops")
	if err := json.Unmarshal([]byte(a.body), &page); err != nil || a.status != http.StatusOK {
		tb.Fatalf("%d %s: %v", a.status, a.body, err)
	}
	return page
}

// settled waits until the feed has n records: other tests' transactions on the same server delay it.
func (b *bench) settled(tb testing.TB, n int) usagePage {
	tb.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		page := b.page(tb, "limit=200")
		if len(page.Records) == n || time.Now().After(deadline) {
			return page
		}
	}
}

const sandboxChat = `{"messages":[{"role":"user","content":"hello"}]}`

func TestListUsage(t *testing.T) {
	b := setup(t)
	for i := range 5 {
		headers := []string{"X-Organization-Id", []string{"acme", "other"}[i%2], "X-Run-Id", fmt.Sprint("run-", i)}
		if a := b.chat(t, sandboxChat, headers...); a.status != http.StatusOK {
			t.Fatal(a.body)
		}
	}
	all := b.settled(t, 5)
	if len(all.Records) != 5 {
		t.Fatalf("%d records, want 5", len(all.Records))
	}
	first := all.Records[0]
	for name, want := range map[string]any{
		"request_id": "req-test", "organization_id": "acme", "service": "edge", "run_id": "run-0", "key_id": nil, "operation": "chat",
		"provider": "sandbox", "model": "sandbox", "credential": "fleet", "usage_state": "reported", "estimated": false,
		"substituted": false, "cache_hit": false, "outcome": "completed", "price_version": "sandbox/sandbox@2020-01-01",
		"cache_write_long_tokens": 0.0, "images": 0.0,
	} {
		if got, there := first[name]; !there || got != want {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
	input, _ := first["input_tokens"].(float64)
	output, _ := first["output_tokens"].(float64)
	if want := fmt.Sprintf("%.0f", input*1e6+output*2e6); input == 0 || first["cost_pico_usd"] != want || first["id"] == "" {
		t.Errorf("cost %v of %v and %v tokens, want %s", first["cost_pico_usd"], input, output, want)
	}

	// Page by page, each record appears once; the last page's cursor continues.
	var seen []any
	cursor := ""
	for range 4 {
		page := b.page(t, "limit=2&cursor="+url.QueryEscape(cursor))
		for _, r := range page.Records {
			seen = append(seen, r["id"])
		}
		cursor = page.NextCursor
	}
	for i, r := range all.Records {
		if len(seen) != 5 || seen[i] != r["id"] {
			t.Fatalf("pages give %v", seen)
		}
	}
	b.chat(t, sandboxChat)
	b.settled(t, 6)
	if page := b.page(t, "cursor="+url.QueryEscape(cursor)); len(page.Records) != 1 {
		t.Errorf("%d new records, want one", len(page.Records))
	}
	for query, want := range map[string]int{
		"organization_id=other": 2, "organization_id=acme": 4, "run_id=run-3": 1, "provider=sandbox": 6, "provider=first": 0,
		"model=x": 0, "since=2020-01-01T00:00:00Z": 6, "until=2020-01-01T00:00:00Z": 0,
	} {
		if page := b.page(t, query); len(page.Records) != want || page.NextCursor == "" {
			t.Errorf("%s: %d records, want %d", query, len(page.Records), want)
		}
	}
}

func TestListUsageRefuses(t *testing.T) {
	b := setup(t)
	b.chat(t, sandboxChat)
	b.settled(t, 1)
	cursor := b.page(t, "").NextCursor
	cases := map[string]struct {
		query, token string
		headers      []string
		status       int
		text         string
	}{
		"a service that names nobody": {"", "svc", nil, 400, "organization_id"},
		"somebody else's":             {"organization_id=other", "svc", []string{"X-Organization-Id", "acme"}, 403, "organization_id"},
		"support":                     {"organization_id=acme", "sup", nil, 403, ""},
		"nobody":                      {"", "none", nil, 401, ""},
		"a cursor that is none":       {"cursor=abc", "ops", nil, 400, "cursor"},
		"a cursor of another query":   {"model=m&cursor=" + cursor, "ops", nil, 400, "cursor"},
		"a cursor cut off":            {"cursor=" + cursor[:len(cursor)-4], "ops", nil, 400, "cursor"},
		"too large a page":            {"limit=201", "ops", nil, 400, "limit"},
		"a negative page":             {"limit=-1", "ops", nil, 400, "limit"},
		"no time":                     {"since=yesterday", "ops", nil, 400, "since"},
		"an end before its begin":     {"since=2026-01-02T00:00:00Z&until=2026-01-02T00:00:00Z", "ops", nil, 400, "until"},
		"a filter that is none":       {"colour=red", "ops", nil, 400, "colour"},
		"too long a name":             {"model=" + strings.Repeat("m", 257), "ops", nil, 400, "model"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a := b.get(t, "/v1/usage?"+c.query, c.token, c.headers...)
			if a.status != c.status || !strings.Contains(a.body, c.text) {
				t.Errorf("%d %s, want %d with %q", a.status, a.body, c.status, c.text)
			}
		})
	}
	if page := b.get(t, "/v1/usage", "svc", "X-Organization-Id", "acme"); page.status != http.StatusOK || !strings.Contains(page.body, "req-test") {
		t.Errorf("its own: %d %s", page.status, page.body)
	}
	if page := b.get(t, "/v1/usage", "svc", "X-Organization-Id", "stranger"); page.status != http.StatusOK || strings.Contains(page.body, "req-test") {
		t.Errorf("a stranger's: %d %s", page.status, page.body)
	}
}

func TestListUsageGRPC(t *testing.T) {
	b := setup(t)
	b.chat(t, sandboxChat)
	b.settled(t, 1)
	ctx := metadata.NewOutgoingContext(t.Context(), metadata.Pairs("authorization", "Bearer svc", "x-organization-id", "acme"))
	page, err := gatewayv1.NewUsageServiceClient(b.conn).ListUsage(ctx, &gatewayv1.ListUsageRequest{})
	if err != nil || len(page.GetRecords()) != 1 || page.GetRecords()[0].GetRequestId() != "req-test" {
		t.Errorf("%v, %v", page, err)
	}
}

// The ledger holds neither content nor a key.
func TestLedgerHasNoContent(t *testing.T) {
	b := setup(t)
	const said = "confidential-5e4d3c2b"
	b.chat(t, `{"model":"first/ok","messages":[{"role":"user","content":"`+said+`"}]}`)
	b.chat(t, `{"messages":[{"role":"user","content":"`+said+`"}]}`)
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline) && len(b.page(t, "").Records) == 0; {
	}
	var rows string
	if err := b.pool.QueryRow(t.Context(), "SELECT coalesce(json_agg(e)::text, '') FROM ledger_entry e").Scan(&rows); err != nil || rows == "" {
		t.Fatalf("%q, %v", rows, err)
	}
	for _, secret := range []string{said, canary} {
		if strings.Contains(rows, secret) || strings.Contains(b.log.String(), secret) {
			t.Errorf("%s is in the ledger or in the log", secret)
		}
	}
}
