// Package spend adds up what organizations spend in tokens and money: it follows what the gateway bills those that have
// limits of these (package billing), and adds each record once to the windows of its organization and key.
//
// The cursor of an organization and the sums of its records change in one transaction, so that a record counts once
// however often it is read, by whichever replica. While the gateway is away nothing is spent, and what was is kept.
//
// Package quota reads the windows, package app runs the Follower.
package spend

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"switchyard.dev/services/edge/internal/billing"
	"switchyard.dev/services/edge/internal/credit"
	"switchyard.dev/services/edge/internal/plan"
)

// Step moves a feed on to the cursor Next, adds amounts to its organization's windows and spends costs from its credits.
type Step struct {
	Feed    Feed
	Next    string
	Amounts []Amount
	Costs   []credit.Cost
}

// Feed is how far the feed of an organization was read. Records that were billed before Since don't count.
type Feed struct {
	Organization string
	Since        time.Time
	Cursor       string
}

// Window is a window of a key with its rotations, by the first of them, or of the whole organization for an empty key.
type Window struct {
	Key    string
	Period plan.Period
	Start  time.Time
}

// Amount is what is added to a window.
type Amount struct {
	Window

	Tokens, Pico int64
}

// sum returns what records add to the windows of their organization and keys, in the order in which all replicas lock
// rows. origins has the first key of a chain of rotations for keys that are not the first.
func sum(records []billing.Record, origins map[string]string) []Amount {
	sums := make(map[Window]Amount)
	for _, r := range records {
		keys := []string{""}
		if r.Key != "" {
			keys = append(keys, cmp.Or(origins[r.Key], r.Key))
		}
		for _, key := range keys {
			for _, period := range []plan.Period{plan.Minute, plan.Day, plan.Month} {
				start, _ := period.Window(r.StartedAt)
				w := Window{key, period, start}
				a := sums[w]
				sums[w] = Amount{w, plus(a.Tokens, r.Tokens()), plus(a.Pico, r.Pico)}
			}
		}
	}
	return slices.SortedFunc(maps.Values(sums), func(a, b Amount) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Period, b.Period), a.Start.Compare(b.Start))
	})
}

// plus adds two amounts, of which neither is negative; the largest number stands for all beyond it.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
