package api_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"
)

type chargesPage struct {
	Charges []struct {
		ID           string  `json:"id"`
		Position     string  `json:"position"`
		Organization string  `json:"organization_id"`
		Key          string  `json:"key_id"`
		Prompt       float64 `json:"prompt_tokens"`
		Completion   float64 `json:"completion_tokens"`
		Cost         string  `json:"cost_pico_usd"`
		StartedAt    string  `json:"started_at"`
		RecordedAt   string  `json:"recorded_at"`
	} `json:"charges"`
	Next string `json:"next"`
}

// charges returns a page of charges for an operator.
func (b *bench) charges(tb testing.TB, query string) (page chargesPage) {
	tb.Helper()
	a := b.get(tb, "/v1/charges?"+query, "ops")
	if err := json.Unmarshal([]byte(a.body), &page); err != nil || a.status != http.StatusOK {
		tb.Fatalf("%d %s: %v", a.status, a.body, err)
	}
	return page
}

// Each record has one charge, in the same order, under every filter and page size.
func TestListCharges(t *testing.T) {
	b := setup(t)
	for i := range 5 {
		if a := b.chat(t, sandboxChat, "X-Organization-Id", []string{"acme", "other"}[i%2]); a.status != http.StatusOK {
			t.Fatal(a.body)
		}
	}
	records := b.settled(t, 5).Records
	all := b.charges(t, "")
	if len(all.Charges) != 5 || len(records) != 5 {
		t.Fatalf("%d charges of %d records, want 5", len(all.Charges), len(records))
	}
	for i, c := range all.Charges {
		r := records[i]
		tokens := r["input_tokens"].(float64) + r["output_tokens"].(float64)
		if c.ID != r["id"] || c.Organization != r["organization_id"] || c.Cost != r["cost_pico_usd"] || c.Key != "" ||
			c.Prompt+c.Completion != tokens || tokens == 0 || c.StartedAt != r["started_at"] || c.RecordedAt != r["recorded_at"] {
			t.Errorf("charge %+v of the record %v", c, r)
		}
	}
	var ids []string
	for after := ""; ; {
		page := b.charges(t, "organization_id=acme&limit=2&after="+after)
		for _, c := range page.Charges {
			ids = append(ids, c.ID)
		}
		after = page.Next
		if len(page.Charges) < 2 {
			break
		}
	}
	if len(ids) != 3 || ids[0] != all.Charges[0].ID || ids[2] != all.Charges[4].ID {
		t.Errorf("acme has the charges %v of %+v", ids, all.Charges)
	}
	if rest := b.charges(t, "after="+all.Charges[2].Position); len(rest.Charges) != 2 || rest.Charges[0] != all.Charges[3] {
		t.Errorf("behind the third are %+v", rest.Charges)
	}
	if end := b.charges(t, "after="+all.Next); len(end.Charges) != 0 || end.Next == "" {
		t.Errorf("behind the end is %+v", end)
	}
	later := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	if none := b.charges(t, "since="+later); len(none.Charges) != 0 || none.Next == "" {
		t.Errorf("in an hour: %+v; want no charges, and where to go on", none)
	}
	if before := b.charges(t, "until="+later); len(before.Charges) != 5 {
		t.Errorf("until in an hour: %d charges, want 5", len(before.Charges))
	}
}

func TestListChargesRefuses(t *testing.T) {
	b := setup(t)
	for query, want := range map[string]string{
		"after=7": "after", "after=1-0": "after", "after=x": "after", "limit=0": "limit", "limit=1001": "limit",
		"since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z": "until", "since=now": "since",
	} {
		if a := b.get(t, "/v1/charges?"+query, "ops"); a.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s, want 400 because of %s", query, a.status, a.body, want)
		}
	}
	if a := b.get(t, "/v1/charges", "svc", "X-Organization-Id", "acme"); a.status != http.StatusForbidden {
		t.Errorf("a service gets %d, want 403", a.status)
	}
	if a := b.get(t, "/v1/charges?after=999999999999-1", "ops"); a.status != http.StatusInternalServerError {
		t.Errorf("a position ahead of the database gets %d, want 500", a.status)
	}
}
