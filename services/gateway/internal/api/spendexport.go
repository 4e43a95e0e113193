package api

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/money/spend"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// sheet is a table of spend as a file: its columns and the record of a row.
type sheet struct {
	columns []string
	record  func(row *spend.Row) []string
}

// exportSpend writes all rows as a CSV file (RFC 4180), page by page, so that its size needs no memory.
func (s *usageServer) exportSpend(w http.ResponseWriter, r *http.Request, m *gatewayv1.GetSpendRequest, format string) error {
	if m.Limit != nil || m.GetCursor() != "" {
		return apierr.Invalid("limit", "the format has no pages; leave out limit and cursor")
	}
	q, err := toSpendQuery(r.Context(), m, time.Now())
	if err != nil {
		return err
	}
	var made sheet
	switch {
	case format == formatCSV:
		made = plainSheet(q.Grouping)
	case len(q.Grouping) > 0:
		return apierr.Invalid("group_by", "the format focus groups by everything; leave it out")
	default:
		q.Grouping, q.WithTags = focusGrouping, true
		made = focusSheet(&q)
	}
	q.Limit = exportPage
	report, err := s.spend.Report(r.Context(), q)
	if err != nil {
		return fmt.Errorf("spend: %w", err)
	}
	h := w.Header()
	h.Set("Content-Type", "text/csv; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="spend.csv"`)
	h.Set("Cache-Control", "no-store")
	out := csv.NewWriter(w)
	out.UseCRLF = true
	_ = out.Write(made.columns)
	for {
		for i := range report.Rows {
			_ = out.Write(made.record(&report.Rows[i]))
		}
		if out.Flush(); len(report.Rows) < q.Limit {
			return nil
		}
		q.After = report.Rows[len(report.Rows)-1].Position()
		if report, err = s.spend.Report(r.Context(), q); err != nil {
			return fmt.Errorf("spend: %w", err) // The server cuts the connection, so that no part passes for the whole.
		}
	}
}

// plainSheet has the fields of SpendRow.
func plainSheet(g spend.Grouping) sheet {
	columns := []string{"start"}
	for _, d := range g {
		columns = append(columns, string(d))
	}
	columns = append(columns, "calls", "cost_cents", "cost_pico_usd")
	for _, b := range provider.Buckets() {
		columns = append(columns, b.Column())
	}
	return sheet{columns, func(row *spend.Row) []string {
		record := append([]string{row.Start.Format(time.RFC3339)}, row.Values...)
		record = append(record, count(row.Calls), row.InCents(), row.Pico.String())
		for _, b := range provider.Buckets() {
			record = append(record, count(*b.Of(&row.Usage)))
		}
		return record
	}}
}

func count(n int64) string { return strconv.FormatInt(n, 10) }

// focusGrouping is the grouping of the format focus.
var focusGrouping = spend.Grouping{spend.DimensionProvider, spend.DimensionModel, spend.DimensionKey, spend.DimensionUser}

// focusColumns are the columns of the FinOps Open Cost and Usage Specification, version 1.2: the mandatory ones, those
// recommended, and conditional ones that apply here. The value of one without a value is fixed: empty means null.
var focusColumns = []struct{ name, value string }{
	{"BilledCost", ""},
	{"BillingAccountId", ""},
	{"BillingAccountName", ""},
	{"BillingCurrency", "USD"},
	{"BillingPeriodEnd", ""},
	{"BillingPeriodStart", ""},
	{"ChargeCategory", "Usage"},
	{"ChargeClass", ""},
	{"ChargeDescription", ""},
	{"ChargeFrequency", "Usage-Based"},
	{"ChargePeriodEnd", ""},
	{"ChargePeriodStart", ""},
	{"ConsumedQuantity", ""},
	{"ConsumedUnit", "Requests"},
	{"ContractedCost", ""},
	{"EffectiveCost", ""},
	{"InvoiceIssuerName", "Switchyard"},
	{"ListCost", ""},
	{"PricingQuantity", ""},
	{"PricingUnit", "Requests"},
	{"ProviderName", ""},
	{"PublisherName", ""},
	{"ServiceCategory", "AI and Machine Learning"},
	{"ServiceName", "AI models"},
	{"ServiceSubcategory", "Generative AI"},
	{"SkuId", ""},
	{"SkuMeter", "Requests"},
	{"SkuPriceId", ""},
	{"SubAccountId", ""},
	{"SubAccountName", ""},
	{"SubAccountType", ""},
	{"Tags", ""},
	{"x_ModelName", ""},
	{"x_UserId", ""},
}

// focusSheet has a row for each group and interval. Custom columns begin with x_, as the specification demands.
func focusSheet(q *spend.Query) sheet {
	var columns []string
	for _, c := range focusColumns {
		columns = append(columns, c.name)
	}
	for _, b := range provider.Buckets() {
		columns = append(columns, "x_"+camel(b.Column()))
	}
	return sheet{columns, func(row *spend.Row) []string {
		values := focusValues(q, row)
		record := make([]string, 0, len(columns))
		for _, c := range focusColumns {
			if value, set := values[c.name]; set {
				record = append(record, value)
				continue
			}
			record = append(record, c.value)
		}
		for _, b := range provider.Buckets() {
			record = append(record, count(*b.Of(&row.Usage)))
		}
		return record
	}}
}

// focusValues returns the values of a row that are not fixed.
func focusValues(q *spend.Query, row *spend.Row) map[string]string {
	of, model, key, user := row.Values[0], row.Values[1], row.Values[2], row.Values[3]
	usd, calls, sku := row.USD(), count(row.Calls), of+"/"+model
	month := time.Date(row.Start.Year(), row.Start.Month(), 1, 0, 0, 0, 0, time.UTC)
	values := map[string]string{
		"BilledCost": usd, "ContractedCost": usd, "EffectiveCost": usd, "ListCost": usd, "BillingAccountId": q.Organization,
		"BillingPeriodStart": focusTime(month), "BillingPeriodEnd": focusTime(month.AddDate(0, 1, 0)),
		"ChargePeriodStart": focusTime(row.Start), "ChargePeriodEnd": focusTime(q.Interval.After(row.Start, 1)),
		"ChargeDescription": "Requests to " + sku, "ConsumedQuantity": calls, "PricingQuantity": calls,
		"ProviderName": of, "PublisherName": of, "SkuId": sku, "SkuPriceId": sku, "SubAccountId": key,
		"Tags": row.Tags, "x_ModelName": model, "x_UserId": user,
	}
	if key != "" {
		values["SubAccountType"] = "API key"
	}
	if row.Tags == spend.Other || row.Tags == "{}" {
		values["Tags"] = ""
	}
	return values
}

func focusTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// camel returns the name of a column in the case of the specification's columns.
func camel(column string) string {
	var name strings.Builder
	for word := range strings.SplitSeq(column, "_") {
		name.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return name.String()
}
