package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/money/price"
)

func TestPricingDrift(t *testing.T) {
	b := setup(t)
	day := func(ago int) string { return time.Now().UTC().AddDate(0, 0, -ago).Format(time.DateOnly) }
	rows, err := price.Parse(fmt.Appendf(nil, `
providers:
  - {provider: first, source: https://a.example, reviewed: %s, review_every_days: 30, models: [{model: due, effective_from: 2020-01-01, input_per_mtok_usd: 1, output_per_mtok_usd: 2}, {model: old, effective_from: 2019-01-01, effective_to: 2020-01-01, input_per_mtok_usd: 1, output_per_mtok_usd: 2}]}
  - {provider: second, source: https://b.example, reviewed: %s, review_every_days: 30, models: [{model: fresh, effective_from: 2020-01-01, input_per_mtok_usd: 1, output_per_mtok_usd: 2}]}
  - {provider: third, source: https://c.example, reviewed: %s, models: [{model: longest, effective_from: 2020-01-01, input_per_mtok_usd: 1, output_per_mtok_usd: 2}]}
`, day(31), day(29), day(400)))
	if err != nil {
		t.Fatal(err)
	}
	if b.prices, err = price.NewTable(rows); err != nil {
		t.Fatal(err)
	}
	var page struct {
		Prices  []fields `json:"prices"`
		Overdue int      `json:"overdue"`
		Total   int      `json:"total"`
		Next    string   `json:"next_cursor"`
	}
	b.visit(t, "", "GET", "/v1/pricing/drift", "").in(t, http.StatusOK, &page)
	if page.Overdue != 2 || page.Total != 3 || len(page.Prices) != 2 || page.Prices[0]["model_id"] != "longest" || page.Prices[0]["overdue_days"] != 310.0 ||
		page.Prices[1]["model_id"] != "due" || page.Prices[1]["due_on"] != day(1) || page.Prices[1]["overdue_days"] != 1.0 || page.Prices[1]["review_cadence_days"] != 30.0 {
		t.Errorf("%+v", page)
	}
	b.visit(t, "", "GET", "/v1/pricing/drift?provider=first&limit=1", "").in(t, http.StatusOK, &page)
	if len(page.Prices) != 1 || page.Prices[0]["provider"] != "first" || page.Overdue != 2 {
		t.Errorf("%+v", page)
	}
}

func TestReconcile(t *testing.T) {
	b := setup(t)
	begin := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	end := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	for range 3 { // 4 tokens in, 2 out: 14e-6 USD.
		if a := b.chat(t, `{"model":"second/spare","messages":[{"role":"user","content":"hi"}]}`); a.status != http.StatusOK {
			t.Fatal(a.body)
		}
	}
	b.chat(t, `{"model":"first/ok","messages":[{"role":"user","content":"hi"}]}`)
	period := fmt.Sprintf(`"period_start":%q,"period_end":%q,`, begin, end)
	var r struct {
		ID           string   `json:"reconciliation_id"`
		Status       string   `json:"status"`
		Lines        []fields `json:"lines"`
		Amount       float64  `json:"total_amount_cents"`
		Metered      float64  `json:"total_metered_cents"`
		Delta        float64  `json:"total_delta_cents"`
		Deduplicated bool     `json:"deduplicated"`
		By           string   `json:"created_by"`
	}
	body := `{` + period + `"tolerance_cents":0,"invoice_ref":"INV-1","lines":[{"provider":"Second","model":"spare","amount_cents":0.0042},{"provider":"third","amount_cents":7}]}`
	b.visit(t, "ops", "POST", "/v1/pricing/reconcile", body).in(t, http.StatusCreated, &r)
	if r.Status != "delta" || len(r.Lines) != 2 || r.Lines[0]["status"] != "matched" || r.Lines[0]["metered_cents"] != 0.0042 || r.Lines[0]["calls"] != 3.0 || r.Lines[0]["delta_cents"] != 0.0 ||
		r.Lines[1]["status"] != "unexplained" || r.Lines[1]["model"] != nil || r.Amount != 7.0042 || r.Delta != 7 || r.Deduplicated || r.By != "ops" {
		t.Errorf("%+v", r)
	}
	first := r.ID
	// The same invoice, as CSV and in another order, returns the first result.
	b.chat(t, `{"model":"second/spare","messages":[{"role":"user","content":"hi"}]}`)
	csv := `{` + period + `"tolerance_cents":0,"invoice_ref":"INV-1","csv":"provider,model,amount_cents\nthird,,7\nsecond,spare,0.0042\n"}`
	b.visit(t, "ops", "POST", "/v1/pricing/reconcile", csv).in(t, http.StatusOK, &r)
	if r.ID != first || !r.Deduplicated || r.Lines[0]["calls"] != 3.0 {
		t.Errorf("%+v", r)
	}
	// A key is for one invoice.
	b.visit(t, "ops", "POST", "/v1/pricing/reconcile", body, "Idempotency-Key", "k1").in(t, http.StatusCreated, &r)
	if r.Lines[0]["status"] != "delta" || r.Lines[0]["calls"] != 4.0 {
		t.Errorf("%+v", r)
	}
	b.visit(t, "ops", "POST", "/v1/pricing/reconcile", body, "Idempotency-Key", "k1").in(t, http.StatusOK, &r)
	b.visit(t, "ops", "POST", "/v1/pricing/reconcile", strings.Replace(body, "INV-1", "INV-2", 1), "Idempotency-Key", "k1").
		refused(t, http.StatusUnprocessableEntity, "idempotency_key_reused", "idempotency_key")
	// Usage without a line is listed, for the invoice's providers only; upstream names become ours.
	b.visit(t, "ops", "POST", "/v1/pricing/reconcile", `{`+period+`"tolerance_cents":0,"lines":[{"provider":"second","model":"other","amount_cents":0}]}`).in(t, http.StatusCreated, &r)
	if len(r.Lines) != 2 || r.Lines[1]["status"] != "unbilled" || r.Lines[1]["model"] != "spare" {
		t.Errorf("%+v", r)
	}
	b.visit(t, "ops", "POST", "/v1/pricing/reconcile", `{`+period+`"lines":[{"provider":"third","model":"shared-down","amount_cents":0}]}`).in(t, http.StatusCreated, &r)
	if r.Lines[0]["model"] != "shared" || r.Status != "matched" {
		t.Errorf("%+v", r)
	}

	for body, want := range map[string]string{
		`{` + period + `"lines":[]}`: "lines: exactly one of lines and csv",
		`{` + period + `"csv":"provider,model,amount_cents\na,b,1\n","lines":[{"provider":"a","amount_cents":1}]}`: "lines: exactly one",
		`{` + period + `"csv":"x"}`:                                                                               "csv: must begin with the line provider,model,amount_cents",
		`{` + period + `"csv":"provider,model,amount_cents\na,b,1e3\n"}`:                                          "csv: line 2: amount_cents",
		`{` + period + `"lines":[{"provider":"a","amount_cents":1},{"provider":"A","amount_cents":1}]}`:           "lines[1]",
		`{` + period + `"lines":[{"provider":"a","amount_cents":0.00000000001}]}`:                                 "lines[0].amount_cents",
		`{` + period + `"lines":[{"provider":"a\nb","amount_cents":1}]}`:                                          "lines[0].provider",
		`{` + period + `"tolerance_cents":-1,"lines":[{"provider":"a","amount_cents":1}]}`:                        "tolerance_cents",
		`{"period_end":"` + end + `","lines":[{"provider":"a","amount_cents":1}]}`:                                "period_start",
		`{"period_start":"` + end + `","period_end":"` + begin + `","lines":[{"provider":"a","amount_cents":1}]}`: "period_end: must be after period_start",
		`{"period_start":"yesterday","period_end":"` + begin + `","lines":[{"provider":"a","amount_cents":1}]}`:   "period_start",
	} {
		if a := b.visit(t, "ops", "POST", "/v1/pricing/reconcile", body); a.status != http.StatusBadRequest || !strings.Contains(a.body, want) {
			t.Errorf("%s: %d %s, want 400 with %q", body, a.status, a.body, want)
		}
	}

	b.visit(t, "ops", "GET", "/v1/pricing/reconciliations/"+first, "").in(t, http.StatusOK, &r)
	if r.ID != first || len(r.Lines) != 2 || r.Lines[0]["metered_cents"] != 0.0042 {
		t.Errorf("%+v", r)
	}
	for _, id := range []string{"nonsense", "018f3c1e-0000-7000-8000-000000000000"} {
		b.visit(t, "ops", "GET", "/v1/pricing/reconciliations/"+id, "").refused(t, http.StatusNotFound, "not_found", "reconciliation")
	}
	var page struct {
		Found []fields `json:"reconciliations"`
		Next  string   `json:"next_cursor"`
	}
	seen := 0
	for cursor := ""; ; cursor = page.Next {
		b.visit(t, "ops", "GET", "/v1/pricing/reconciliations?limit=3&cursor="+cursor, "").in(t, http.StatusOK, &page)
		seen += len(page.Found)
		for _, one := range page.Found {
			if len(one["lines"].([]any)) != 0 {
				t.Errorf("%v", one)
			}
		}
		if page.Next == "" {
			break
		}
	}
	if seen != 4 || page.Found[len(page.Found)-1]["reconciliation_id"] != first {
		t.Errorf("%d listed", seen)
	}
	if entries := b.auditOf(t, "pricing.reconcile"); len(entries) != 4 {
		t.Errorf("%d entries in the audit", len(entries))
	}
	// Upkeep deletes old ones with their lines.
	if n, err := b.reconciler().Forget(t.Context(), time.Now().Add(time.Hour), 3); err != nil || n != 3 {
		t.Errorf("%d, %v", n, err)
	}
}
