// Package metertest adds counts to a store for tests.
package metertest

import (
	"strconv"
	"testing"

	"switchyard.dev/services/edge/internal/meter"
)

// Service is the service of the counts.
const Service = "test"

// Add adds counts to a store's counters, as a page of the counts of a service.
func Add(tb testing.TB, store meter.Store, counts ...meter.Count) {
	tb.Helper()
	from, err := store.Cursor(tb.Context(), Service)
	if err != nil {
		tb.Fatal(err)
	}
	added, err := store.Add(tb.Context(), Service, from, Next(from), meter.Sum(counts))
	if err != nil || !added {
		tb.Fatalf("added %v: %v", added, err)
	}
}

// Next returns the cursor behind a cursor.
func Next(cursor string) string {
	n, _ := strconv.Atoi(cursor) // Empty for the beginning.
	return strconv.Itoa(n + 1)
}
