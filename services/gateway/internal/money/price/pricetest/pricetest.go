// Package pricetest makes price tables for the tests of packages that compute costs.
package pricetest

import (
	"testing"

	"switchyard.dev/services/gateway/internal/money/price"
)

// Table returns the table of a price document, which is YAML.
func Table(tb testing.TB, text string) *price.Table {
	tb.Helper()
	rows, err := price.Parse([]byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	table, err := price.NewTable(rows)
	if err != nil {
		tb.Fatal(err)
	}
	return table
}
