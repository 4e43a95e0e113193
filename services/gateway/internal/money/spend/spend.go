// Package spend reports what an organization spends by hour, day or month and by model, provider, product key, user or
// tag. Sums are aggregated from the ledger asynchronously, after its commits; a report adds the rows that the sums don't
// include yet, so that it equals the ledger at every moment. Package api answers with reports, internal/app runs the
// aggregation; internal/postgres stores the sums.
package spend

import (
	"context"
	"math/big"
	"time"

	"switchyard.dev/services/gateway/internal/governance/amount"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Other stands for the values of the calls of a bucket that has as many groups as it may have.
const Other = "(other)"

// Query selects what an organization spent.
type Query struct {
	Organization string
	Interval     Interval
	// Since is inclusive and Until exclusive; both begin an interval. They apply to the time at which a call was recorded.
	Since, Until time.Time
	Grouping     Grouping
	// WithTags adds the whole set of tags of a group to its rows.
	WithTags bool
	Filter   Filter
	// After is the last row of the page before; the zero Position is before the first row.
	After Position
	Limit int
}

// Filter selects calls; an empty field matches all.
type Filter struct {
	Provider, Model, Key, User string
	// Tags are those that a call has, and maybe others.
	Tags map[string]string
}

// Position is the position of a row in a report.
type Position struct {
	Start  time.Time
	Values []string
	Tags   string
}

// Sums are sums over calls.
type Sums struct {
	Calls int64
	Usage provider.Usage
	// Pico is the cost in pico-USD. A sum may be more than 64 bits hold.
	Pico *big.Int
}

// Row is what a group of calls spent in an interval.
type Row struct {
	Start time.Time
	// Values are those of the grouping, in its order. One is empty where calls have none, and Other for calls whose own
	// values were not kept.
	Values []string
	// Tags is a JSON object with the group's tags, or Other; empty unless the query asks for them.
	Tags string
	Sums
}

// Position returns the position of the row.
func (r *Row) Position() Position { return Position{r.Start, r.Values, r.Tags} }

// Report is a page of rows in the order of intervals and values, with the total of all pages.
type Report struct {
	Rows  []Row
	Total Sums
}

// Store stores the sums and reads the ledger.
type Store interface {
	// Report returns a page of at most Limit rows, from one snapshot.
	Report(ctx context.Context, q Query) (Report, error)
	// Aggregate adds the next rows of the ledger to the sums and returns how many. It stops at the end of the transaction
	// in which it reaches limit. It returns 0 while another replica aggregates.
	Aggregate(ctx context.Context, b Bounds, limit int) (int, error)
	// Expire deletes at most limit hours and days that are no longer kept, and returns how many. It returns 0 while another
	// replica aggregates.
	Expire(ctx context.Context, b Bounds, limit int) (int, error)
}

// Cents returns the cost in cents, rounded like amount.Amount.Cents.
func (s *Sums) Cents() float64 { return amount.Pico(s.Pico).Cents() }

// InCents returns the exact cost as a decimal number of cents.
func (s *Sums) InCents() string { return amount.Pico(s.Pico).String() }

// USD returns the exact cost in US dollars as a decimal number.
func (s *Sums) USD() string {
	const digits = 12
	whole, rest := new(big.Int).QuoRem(s.Pico, big.NewInt(1e12), new(big.Int))
	text := whole.String()
	if rest.Sign() == 0 {
		return text
	}
	decimals := rest.String()
	for len(decimals) < digits {
		decimals = "0" + decimals
	}
	for decimals[len(decimals)-1] == '0' {
		decimals = decimals[:len(decimals)-1]
	}
	return text + "." + decimals
}
