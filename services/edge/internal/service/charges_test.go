package service_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/edge/internal/billing"
	"switchyard.dev/services/platform/feed"
)

var chargesQuery = billing.Query{Organization: "acme", After: feed.Position{Transaction: 7, Row: 1}, Limit: 2}

func TestCharges(t *testing.T) {
	s, client, at := newClientAt(t)
	charges := client.Charges(at)
	const one = `{"id":"r1","position":"7-2","organization_id":"acme","key_id":"key_1","prompt_tokens":63,"completion_tokens":960,
		"cost_pico_usd":"123456789012345","started_at":"2026-01-02T03:04:05.000006Z","recorded_at":"2026-01-02T03:04:06Z"}`
	const two = `{"id":"r2","position":"9-1","organization_id":"acme","key_id":"","prompt_tokens":0,"completion_tokens":0,"cost_pico_usd":"0",
		"started_at":"2026-01-02T03:04:05Z","recorded_at":"2026-01-02T03:04:06Z"}`
	s.text = `{"charges":[` + one + `,` + two + `],"next":"9-1"}`
	got, err := charges.Read(t.Context(), chargesQuery)
	if err != nil {
		t.Fatal(err)
	}
	moment := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if diff := cmp.Diff(billing.Page{Next: feed.Position{Transaction: 9, Row: 1}, More: true, Records: []billing.Record{
		{
			ID: "r1", Organization: "acme", Key: "key_1", StartedAt: moment.Add(6 * time.Microsecond), RecordedAt: moment.Add(time.Second),
			Prompt: 63, Completion: 960, Pico: 123456789012345, Position: feed.Position{Transaction: 7, Row: 2},
		},
		{ID: "r2", Organization: "acme", StartedAt: moment, RecordedAt: moment.Add(time.Second), Position: feed.Position{Transaction: 9, Row: 1}},
	}}, got); diff != "" {
		t.Errorf("page (-want +got):\n%s", diff)
	}
	if want := "GET /v1/charges?after=7-1&limit=2&organization_id=acme "; s.asked != want {
		t.Errorf("asked for %s, want %s", s.asked, want)
	}
	s.text = `{"charges":[],"next":"8-9"}`
	page, err := charges.Read(t.Context(), billing.Query{Since: moment, Until: moment.Add(time.Hour), Limit: 2})
	if err != nil || page.More || page.Next != (feed.Position{Transaction: 8, Row: 9}) {
		t.Errorf("the last page is %+v, %v", page, err)
	}
	if want := "GET /v1/charges?limit=2&since=2026-01-02T03%3A04%3A05Z&until=2026-01-02T04%3A04%3A05Z "; s.asked != want {
		t.Errorf("asked for %s, want %s", s.asked, want)
	}
}

func TestRefusedCharges(t *testing.T) {
	s, client, at := newClientAt(t)
	charges := client.Charges(at)
	page := func(position, organization, pico, next string) string {
		return fmt.Sprintf(`{"charges":[{"position":%q,"organization_id":%q,"prompt_tokens":1,"completion_tokens":1,"cost_pico_usd":%q}],"next":%q}`,
			position, organization, pico, next)
	}
	for name, tt := range map[string]struct {
		status     int
		text, want string
	}{
		"status":                 {503, "", "503"},
		"no JSON":                {200, "<html>", "invalid character"},
		"the position before":    {200, page("7-1", "acme", "1", "7-1"), "not behind"},
		"no position":            {200, page("x", "acme", "1", "7-1"), "not behind"},
		"next before a charge":   {200, page("7-3", "acme", "1", "7-2"), "not behind"},
		"next before the cursor": {200, `{"charges":[],"next":"6-1"}`, "not behind"},
		"no next":                {200, `{"charges":[],"next":"end"}`, "not behind"},
		"another organization":   {200, page("7-2", "other", "1", "7-2"), "another organization"},
		"negative cost":          {200, page("7-2", "acme", "-1", "7-2"), "negative"},
		"huge cost":              {200, page("7-2", "acme", "9223372036854775808", "7-2"), "cost_pico_usd"},
		"no cost":                {200, page("7-2", "acme", "", "7-2"), ",string"},
		"a fraction of a token":  {200, strings.Replace(page("7-2", "acme", "1", "7-2"), ":1,", ":1.5,", 1), "prompt_tokens"},
	} {
		s.status, s.text = tt.status, tt.text
		if _, err := charges.Read(t.Context(), chargesQuery); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
	s.status = http.StatusOK
}
