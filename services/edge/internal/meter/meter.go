// Package meter keeps the usage counters: how many calls of each key succeeded, by metric and minute.
//
// The services count the calls that they serve, with the records of the calls. A Follower reads these counts and adds them
// to the counters: the store adds a page and moves the service's cursor in one transaction, so each count is added once,
// whichever replica reads it and however often. Old counters are merged into hours and days (Upkeep).
//
// Package control reads a Ledger, package app runs the loops.
package meter

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"
)

// Counter identifies a count: the successes of a key on a metric in a minute, of a user and with tags.
type Counter struct {
	Organization, Key, Metric string
	Minute                    time.Time
	// User is on whose behalf the calls were made. Tags are their tags, as a JSON object with sorted names. Both are empty
	// for calls without.
	User, Tags string
}

// Count is the increment of a counter.
type Count struct {
	Counter

	Count int64
}

// Page is a part of a service's counts. Next is the cursor of what follows it, and More reports that there may be some
// already. Incomplete reports that the service can't list yet all calls that were answered before.
type Page struct {
	Counts           []Count
	Next             string
	More, Incomplete bool
}

// Feed is the counts of a service, in the order of their commits.
type Feed interface {
	// Read returns the counts after a cursor; an empty cursor starts at the beginning. Every call that was answered before
	// Read is included, unless the page is incomplete.
	Read(ctx context.Context, cursor string) (Page, error)
}

// Store adds counts to the counters.
type Store interface {
	// Cursor returns the cursor up to which the counts of a service were added.
	Cursor(ctx context.Context, service string) (string, error)
	// Add adds counts, each counter once and sorted by Sum, and moves the cursor of their service. It does nothing and
	// reports false if the cursor was moved before.
	Add(ctx context.Context, service, from, to string, counts []Count) (added bool, err error)
}

// Sum adds up the counts of equal counters, and returns them in the order in which all replicas lock rows.
func Sum(counts []Count) []Count {
	totals := make(map[Counter]int64, len(counts))
	for _, c := range counts {
		totals[c.Counter] += c.Count
	}
	sums := make([]Count, 0, len(totals))
	for _, counter := range slices.SortedFunc(maps.Keys(totals), compare) {
		sums = append(sums, Count{Counter: counter, Count: totals[counter]})
	}
	return sums
}

func compare(a, b Counter) int {
	return cmp.Or(
		cmp.Compare(a.Organization, b.Organization), cmp.Compare(a.Key, b.Key),
		cmp.Compare(a.Metric, b.Metric), a.Minute.Compare(b.Minute), cmp.Compare(a.User, b.User), cmp.Compare(a.Tags, b.Tags),
	)
}
