package control_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Operators see the destinations, start back-fills and have them previewed; what is wrong is named.
func TestExports(t *testing.T) {
	x := newWorld(t)
	hour := time.Now().UTC().Truncate(time.Hour)
	whole := `{"from":"` + hour.Add(-time.Hour).Format(time.RFC3339) + `","to":"` + hour.Format(time.RFC3339) + `"`
	for _, tt := range []struct {
		name, method, path, body string
		status                   int
		want                     string
	}{
		{"an unknown destination", "POST", "/admin/v1/exports/other/backfill", whole + "}", 404, "destination"},
		{"half an hour", "POST", "/admin/v1/exports/billing/backfill", `{"from":"2026-11-01T00:30:00Z","to":"2026-11-01T01:00:00Z"}`, 400, "from: "},
		{"an unknown field", "POST", "/admin/v1/exports/billing/backfill", `{"start":1}`, 400, "start: "},
		{"an unknown selection", "POST", "/admin/v1/exports/billing/backfill", whole + `,"events":"some"}`, 400, "events: "},
		{"a dry run of refused events", "POST", "/admin/v1/exports/billing/backfill", whole + `,"events":"refused","dry_run":true}`, 200, `{"meters":[],"complete":true}`},
		{"a dry run", "POST", "/admin/v1/exports/billing/backfill", whole + `,"dry_run":true}`, 200, `{"meters":[],"complete":true}`},
		{"a back-fill", "POST", "/admin/v1/exports/billing/backfill", whole + "}", 202, `{"backfills":[`},
		{"refusals", "GET", "/admin/v1/exports/billing/refusals", "", 200, `{"refusals":[],"next_cursor":""}`},
		{"refusals of an unknown destination", "GET", "/admin/v1/exports/other/refusals", "", 404, "destination"},
	} {
		got := x.do(t, tt.method, tt.path, operatorToken, tt.body)
		if got.Code != tt.status || !strings.Contains(got.Body.String(), tt.want) {
			t.Errorf("%s: %d %s, want %d with %q", tt.name, got.Code, got.Body, tt.status, tt.want)
		}
	}
	var answer struct {
		Destinations []struct {
			Name, Kind string
			Backfills  []struct {
				Source   string
				From, To time.Time
			}
		}
	}
	got := x.do(t, http.MethodGet, "/admin/v1/exports", operatorToken, "")
	if err := json.Unmarshal(got.Body.Bytes(), &answer); err != nil {
		t.Fatal(err)
	}
	if len(answer.Destinations) != 1 || answer.Destinations[0].Name != "billing" || answer.Destinations[0].Kind != "lago" ||
		len(answer.Destinations[0].Backfills) != 1 || !answer.Destinations[0].Backfills[0].To.Equal(hour) {
		t.Errorf("got %s, want the destination with its back-fill", got.Body)
	}
	if strings.Contains(got.Body.String(), "/run/keys") {
		t.Errorf("the answer names the key's file: %s", got.Body)
	}
}
