package api_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/timestamppb"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/platform/testkit"
)

// today returns the beginning of the present day, as a query has it, and the moment.
func today() (text string, at time.Time) {
	at = time.Now().UTC().Truncate(24 * time.Hour)
	return at.Format(time.RFC3339), at
}

// spends makes calls of two teams.
func (b *bench) spends(t *testing.T) {
	t.Helper()
	for range 2 {
		b.chat(t, sandboxChat, "X-Key-Id", "k1", "X-User-Id", "ann", "X-Switchyard-Tags", "team=web,feature=search").gives(t, http.StatusOK)
	}
	b.chat(t, sandboxChat, "X-Switchyard-Tags", "team=app").gives(t, http.StatusOK)
	b.chat(t, sandboxChat).gives(t, http.StatusOK)
	b.chat(t, sandboxChat, "X-Organization-Id", "other").gives(t, http.StatusOK)
}

type spendAnswer struct {
	Rows []struct {
		Start  string            `json:"start"`
		Groups map[string]string `json:"groups"`
		Sums   map[string]any    `json:"sums"`
	} `json:"rows"`
	Total      map[string]any `json:"total"`
	NextCursor string         `json:"next_cursor"`
}

// spendOf returns what an organization spent.
func (b *bench) spendOf(t *testing.T, query string, headers ...string) (page spendAnswer) {
	t.Helper()
	a := b.get(t, "/v1/spend?"+query, "svc", append([]string{"X-Organization-Id", "acme"}, headers...)...)
	if err := json.Unmarshal([]byte(a.body), &page); err != nil || a.status != http.StatusOK {
		t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
	return page
}

func TestSpend(t *testing.T) {
	b := setup(t)
	b.spends(t)
	from, _ := today()
	cost := func(where string) string {
		return testkit.Value[string](t, b.pool, "SELECT sum(cost_pico_usd)::text FROM ledger_entry WHERE organization_id = 'acme' AND "+where)
	}
	page := b.spendOf(t, "from="+from)
	if len(page.Rows) != 1 || page.Rows[0].Sums["calls"] != 4.0 || page.Total["cost_pico_usd"] != cost("true") || page.NextCursor != "" {
		t.Errorf("a day: %+v", page)
	}
	if page.Total["input_tokens"].(float64) == 0 || page.Total["cost_cents"].(float64) == 0 {
		t.Errorf("total: %v", page.Total)
	}
	page = b.spendOf(t, "group_by=tag.team,user,key,model,provider&from="+from)
	if len(page.Rows) != 3 {
		t.Fatalf("%d rows, want 3: %+v", len(page.Rows), page)
	}
	last := page.Rows[2]
	want := map[string]string{"tag.team": "web", "user": "ann", "key": "k1", "model": "sandbox", "provider": "sandbox"}
	if diff := cmp.Diff(want, last.Groups); diff != "" || last.Sums["cost_pico_usd"] != cost("user_id = 'ann'") || last.Start != from {
		t.Errorf("the last group of %s: %v\n%s", last.Start, last.Sums, diff)
	}
	for filter, where := range map[string]string{
		"user_id=ann": "user_id = 'ann'", "key_id=k1": "key_id = 'k1'", "model=sandbox": "true", "tag=team%3Dapp": "tags ->> 'team' = 'app'",
		"tag=team%3Dweb&tag=feature%3Dsearch": "user_id = 'ann'",
	} {
		if page := b.spendOf(t, filter+"&from="+from); page.Total["cost_pico_usd"] != cost(where) {
			t.Errorf("%s: %v, want %s", filter, page.Total, cost(where))
		}
	}
	if page := b.spendOf(t, "provider=first&from="+from); len(page.Rows) != 0 || page.Total["calls"] != 0.0 || page.Total["cost_pico_usd"] != "0" {
		t.Errorf("nothing: %+v", page)
	}
}

// Pages hold each row once, and every one has the total of all.
func TestSpendInPages(t *testing.T) {
	b := setup(t)
	b.spends(t)
	from, _ := today()
	query := "interval=hour&group_by=tag.team&limit=1&from=" + from
	var teams []string
	total := b.spendOf(t, query).Total
	for cursor := ""; ; {
		page := b.spendOf(t, query+"&cursor="+url.QueryEscape(cursor))
		for _, row := range page.Rows {
			teams = append(teams, row.Groups["tag.team"])
		}
		if diff := cmp.Diff(total, page.Total); diff != "" {
			t.Error(diff)
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	if slices.Sort(teams); !slices.Equal(slices.Compact(teams), []string{"", "app", "web"}) {
		t.Errorf("teams %q", teams)
	}
	cursor := b.spendOf(t, query).NextCursor
	b.get(t, "/v1/spend?interval=hour&group_by=tag.feature&from="+from+"&cursor="+cursor, "svc", "X-Organization-Id", "acme").
		contains(t, http.StatusBadRequest, "cursor: must be the next_cursor")
}

func TestSpendRefuses(t *testing.T) {
	b := setup(t)
	from, at := today()
	for query, text := range map[string]string{
		"":                           "from: is required",
		"from=yesterday":             "from",
		"from=2026-01-01T00:00:01Z":  "from: must be the beginning of a day",
		"from=2020-01-01T00:00:00Z":  "at most 92 days",
		"interval=week&from=" + from: "interval",
		"interval=month&from=2026-01-02T00:00:00Z":      "from: must be the beginning of a month",
		"from=" + from + "&to=" + from:                  "to: must be after from",
		"group_by=model,verysecret&from=" + from:        "group_by: must be a list of model, provider, key, user and tag.NAME",
		"group_by=model,model&from=" + from:             "group_by: names a dimension twice",
		"group_by=tag.Team&from=" + from:                "group_by: tag.NAME",
		"group_by=tag.a,tag.b,tag.c,tag.d&from=" + from: "group_by: must have at most 3 tags",
		"tag=verysecret&from=" + from:                   "tag: must be name=value",
		"limit=0&from=" + from:                          "limit",
		"limit=1001&from=" + from:                       "limit",
		"format=xml&from=" + from:                       "format",
		"cursor=verysecret&from=" + from:                "cursor",
		"unknown=1&from=" + from:                        "unknown",
		"format=csv&limit=5&from=" + from:               "limit: the format has no pages",
		"format=focus&group_by=model&from=" + from:      "group_by: the format focus",
		"interval=hour&from=" + at.AddDate(0, 0, -36).Format(time.RFC3339) + "&to=" + at.AddDate(0, 0, -35).Format(time.RFC3339): "from: must be in the last 35 days",
	} {
		got := b.get(t, "/v1/spend?"+query, "svc", "X-Organization-Id", "acme")
		if got.contains(t, http.StatusBadRequest, text); strings.Contains(got.body, "verysecret") {
			t.Errorf("%s: the error repeats a value: %s", query, got.body)
		}
	}
	b.get(t, "/v1/spend?organization_id=other&from="+from, "svc", "X-Organization-Id", "acme").contains(t, http.StatusForbidden, "organization_mismatch")
	b.get(t, "/v1/spend?from="+from, "ops").contains(t, http.StatusBadRequest, "organization_id: is required")
	b.get(t, "/v1/spend?organization_id=acme&from="+from, "ops").contains(t, http.StatusOK, `"rows":[]`)
	b.get(t, "/v1/spend?from="+from, "sup", "X-Organization-Id", "acme").contains(t, http.StatusForbidden, "role")
}

// Both faces answer the same.
func TestSpendOverGRPC(t *testing.T) {
	b := setup(t)
	b.spends(t)
	from, at := today()
	client := gatewayv1.NewUsageServiceClient(b.conn)
	ctx := metadata.NewOutgoingContext(t.Context(), metadata.Pairs("authorization", "Bearer svc", "x-organization-id", "acme"))
	got, err := client.GetSpend(ctx, &gatewayv1.GetSpendRequest{From: timestamppb.New(at), GroupBy: "tag.team,user"})
	if err != nil {
		t.Fatal(err)
	}
	overHTTP := b.get(t, "/v1/spend?group_by=tag.team,user&from="+from, "svc", "X-Organization-Id", "acme")
	if diff := cmp.Diff(object(t, overHTTP.body), message(t, got)); diff != "" {
		t.Errorf("answer (-http +grpc):\n%s", diff)
	}
	if _, err := client.GetSpend(ctx, &gatewayv1.GetSpendRequest{From: timestamppb.New(at), Format: "csv"}); err == nil || !strings.Contains(err.Error(), "over HTTP only") {
		t.Errorf("csv: %v", err)
	}
}

// sheetOf reads a CSV answer as records by column.
func sheetOf(t *testing.T, a answer) (records []map[string]string) {
	t.Helper()
	if a.status != http.StatusOK || a.header.Get("Content-Type") != "text/csv; charset=utf-8" {
		t.Fatalf("%d %s: %s", a.status, a.header.Get("Content-Type"), a.body)
	}
	rows, err := csv.NewReader(strings.NewReader(a.body)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows[1:] {
		record := make(map[string]string)
		for i, name := range rows[0] {
			record[name] = row[i]
		}
		records = append(records, record)
	}
	return records
}

func TestSpendAsCSV(t *testing.T) {
	b := setup(t)
	b.chat(t, sandboxChat, "X-Switchyard-Tags", "team=a%2C%22b%22").gives(t, http.StatusOK)
	from, _ := today()
	for _, a := range []answer{
		b.get(t, "/v1/spend?format=csv&group_by=model,tag.team&from="+from, "svc", "X-Organization-Id", "acme"),
		b.get(t, "/v1/spend?group_by=model,tag.team&from="+from, "svc", "X-Organization-Id", "acme", "Accept", "application/json;q=0.5, text/csv"),
	} {
		records := sheetOf(t, a)
		row := b.spendOf(t, "group_by=model,tag.team&from="+from).Rows[0]
		if len(records) != 1 || records[0]["tag.team"] != `a,"b"` || records[0]["model"] != "sandbox" || records[0]["calls"] != "1" ||
			records[0]["start"] != from || records[0]["cost_pico_usd"] != row.Sums["cost_pico_usd"] || records[0]["output_tokens"] != fmt.Sprint(row.Sums["output_tokens"]) {
			t.Errorf("%v", records)
		}
	}
}

// The export has every column that FOCUS 1.2 makes mandatory, and null only where it allows that.
func TestSpendAsFOCUS(t *testing.T) {
	b := setup(t)
	b.spends(t)
	from, at := today()
	records := sheetOf(t, b.get(t, "/v1/spend?format=focus&from="+from, "svc", "X-Organization-Id", "acme"))
	if len(records) != 3 {
		t.Fatalf("%d records, want 3", len(records))
	}
	for _, record := range records {
		for column, nullable := range map[string]bool{
			"BilledCost": false, "BillingAccountId": false, "BillingAccountName": true, "BillingCurrency": false, "BillingPeriodEnd": false,
			"BillingPeriodStart": false, "ChargeCategory": false, "ChargeClass": true, "ChargeDescription": true, "ChargePeriodEnd": false,
			"ChargePeriodStart": false, "ContractedCost": false, "EffectiveCost": false, "InvoiceIssuerName": false, "ListCost": false,
			"PricingQuantity": false, "PricingUnit": false, "ProviderName": false, "PublisherName": false, "ServiceCategory": false, "ServiceName": false,
		} {
			if value, there := record[column]; !there || value == "" && !nullable {
				t.Errorf("%s is %q", column, value)
			}
		}
		if (record["SubAccountId"] == "") != (record["SubAccountType"] == "") {
			t.Errorf("SubAccountType %q of %q", record["SubAccountType"], record["SubAccountId"])
		}
	}
	i := slices.IndexFunc(records, func(r map[string]string) bool { return r["SubAccountId"] == "k1" })
	want := map[string]string{
		"BillingAccountId": "acme", "BillingPeriodStart": time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC).Format(time.RFC3339),
		"ChargePeriodStart": from, "ChargePeriodEnd": at.AddDate(0, 0, 1).Format(time.RFC3339), "PricingQuantity": "2", "PricingUnit": "Requests",
		"ProviderName": "sandbox", "SkuId": "sandbox/sandbox", "Tags": `{"team": "web", "feature": "search"}`, "x_UserId": "ann", "ChargeClass": "",
	}
	for name, value := range want {
		if records[i][name] != value {
			t.Errorf("%s is %q, want %q", name, records[i][name], value)
		}
	}
	pico := testkit.Value[string](t, b.pool, "SELECT trim_scale(sum(cost_pico_usd) / 1e12)::text FROM ledger_entry WHERE user_id = 'ann'")
	if records[i]["BilledCost"] != pico {
		t.Errorf("BilledCost is %s, want %s", records[i]["BilledCost"], pico)
	}
}
