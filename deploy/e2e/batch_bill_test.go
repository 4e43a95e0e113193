//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"switchyard.dev/deploy/dev/stack"
)

// billed is a row of the ledger, as the usage feed has it.
type billed struct {
	ID           string  `json:"id"`
	RequestID    string  `json:"request_id"`
	Operation    string  `json:"operation"`
	Provider     string  `json:"provider"`
	Cost         float64 `json:"cost_cents"`
	PriceVersion string  `json:"price_version"`
	Estimated    bool    `json:"estimated"`
}

// rows returns the rows of an organization for a batch, at most limit pages of 200.
func (h *harness) rows(t *testing.T, organization, batch string, pages int) (rows []billed) {
	t.Helper()
	cursor := ""
	for range pages {
		var page struct {
			Records    []billed `json:"records"`
			NextCursor string   `json:"next_cursor"`
		}
		h.operator(stack.Gateway).get(t, "/v1/usage?limit=200&organization_id="+organization+"&cursor="+cursor).into(t, http.StatusOK, &page)
		for _, r := range page.Records {
			if r.RequestID == batch {
				rows = append(rows, r)
			}
		}
		if cursor = page.NextCursor; len(page.Records) == 0 || cursor == "" {
			break
		}
	}
	return rows
}

// billedOnce checks that each answered request of a batch has one row at the price of batches, and that they add up to the
// cost that the batch shows.
func (b batchState) billedOnce(t *testing.T, h *harness, organization string, answered int) {
	t.Helper()
	rows, sum := []billed(nil), 0.0
	waitFor(t, waitTimeout, "the rows of the batch", func() error {
		if rows = h.rows(t, organization, b.Get("id").Str, 100); len(rows) < answered {
			return fmt.Errorf("%d rows, want %d", len(rows), answered)
		}
		return nil
	})
	ids := map[string]bool{}
	for _, r := range rows {
		ids[r.ID] = true
		sum += r.Cost
		if !strings.HasSuffix(r.PriceVersion, fmt.Sprint("#batch", batchPercent)) || r.Estimated {
			t.Fatalf("the row %+v, want the vendor's figures at the price of batches", r)
		}
	}
	shown := gjson.Parse(b.header.Get("X-Switchyard-Cost-Cents")).Num
	if len(rows) != answered || len(ids) != answered || sum == 0 || sum-shown > 1e-9 || shown-sum > 1e-9 {
		t.Errorf("%d rows of %d ids for %v cents, want %d for the %v that the batch shows", len(rows), len(ids), sum, answered, shown)
	}
}

// reserved returns what is reserved for an organization, in cents.
func (h *harness) reserved(t *testing.T, organization string) float64 {
	t.Helper()
	a := h.operator(stack.Gateway).get(t, "/v1/admin/orgs/"+organization+"/spend").want(t, http.StatusOK)
	return gjson.GetBytes(a.body, "reserved_cents").Num
}

// limit gives an organization a budget, in cents, so that its batches are reserved.
func (h *harness) limit(t *testing.T, organization string, ceiling float64) {
	t.Helper()
	h.operator(stack.Gateway).do(t, http.MethodPut, "/v1/admin/orgs/"+organization+"/budget", object{"budget_ceiling_cents": ceiling}).want(t, http.StatusOK)
}
