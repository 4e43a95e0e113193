package meter

import (
	"context"
	"fmt"
	"time"

	"switchyard.dev/services/platform/apierr"
)

// Period is the length of time that one total covers, in UTC.
type Period string

// The periods; with Whole a total covers the whole query.
const (
	Whole  Period = ""
	Minute Period = "minute"
	Hour   Period = "hour"
	Day    Period = "day"
)

const day = 24 * time.Hour

// length returns the period's length; zero for Whole.
func (p Period) length() time.Duration {
	switch p {
	case Minute:
		return time.Minute
	case Hour:
		return time.Hour
	case Day:
		return day
	case Whole:
	}
	return 0
}

// Query selects what Ledger sums: counts in [From, To), the totals after After. Empty fields select all.
type Query struct {
	Organization, Key, Metric string
	// User and Tags select calls of a user and with all of these tags.
	User string
	Tags map[string]string
	// Dimensions are what totals are grouped by, in addition: DimensionUser, or DimensionTag and a name.
	Dimensions []string
	From, To   time.Time
	Period     Period
	After      Total
	Limit      int
}

// The dimensions of a query, the second with a name behind it.
const (
	DimensionUser = "user"
	DimensionTag  = "tag."
)

// Grouped reports whether the query needs users or tags, which are kept by the hour.
func (q *Query) Grouped() bool { return q.User != "" || len(q.Tags) > 0 || len(q.Dimensions) > 0 }

// Total is a sum over the period that begins at Start, which is zero for Whole.
type Total struct {
	Organization, Key, Metric string
	Start                     time.Time
	// Labels are the values of the query's dimensions: empty where calls have none, Other for those of groups that were not
	// kept.
	Labels []string
	Count  int64
}

// Other is the label of calls whose own values were not kept, because their organization had too many in the hour.
const Other = "(other)"

// Ledger reads the counters, in the order of organization, key, metric, start and labels.
type Ledger interface {
	Sum(ctx context.Context, q Query) ([]Total, error)
}

// Retention is how long counts are kept by the minute, by the hour and by the day, each measured from now.
type Retention struct{ Minutes, Hours, Days time.Duration }

// Check returns the rule that a retention violates.
func (r Retention) Check() error {
	if r.Minutes < day || r.Hours < r.Minutes+day || r.Days < r.Hours+day {
		return fmt.Errorf("want at least %s, and each a day more than the one before", day)
	}
	return nil
}

// Complete fills in the missing bounds of a query (the oldest exact moment of its period, and now). It refuses bounds
// within counts that were merged: minutes merged into an hour, hours merged into a day.
func (r Retention) Complete(q Query, now time.Time) (Query, error) {
	if q.Period.length() == 0 && q.Period != Whole {
		return q, apierr.Invalid("period", "must be minute, hour or day")
	}
	least := q.Period.length()
	if q.Grouped() {
		if q.Period == Minute {
			return q, apierr.Invalid("period", "must be hour or day with users or tags, which are kept by the hour")
		}
		least = max(least, time.Hour)
	}
	oldest := time.Unix(0, 0).UTC()
	if kept := r.kept(q.Period); kept > 0 {
		oldest = now.Add(-kept).Truncate(q.Period.length()).Add(q.Period.length())
	}
	for name, moment := range map[string]time.Time{"from": q.From, "to": q.To} {
		if moment.IsZero() {
			continue
		}
		if whole := max(least, r.grain(moment, now)); whole > 0 && !moment.Truncate(whole).Equal(moment) {
			return q, apierr.Invalid(name, "must be on the "+wholes[whole]+" (UTC): counts of that age, or for that period, are kept by the "+wholes[whole]+" only")
		}
	}
	switch {
	case q.From.IsZero():
		q.From = oldest
	case q.From.Before(oldest):
		return q, apierr.Invalid("from", fmt.Sprintf("counts by the %s are kept from %s on", q.Period, oldest.UTC().Format(time.RFC3339)))
	}
	if q.To.IsZero() {
		q.To = now.Add(time.Hour) // includes all counts, even if the clock of another replica is ahead
	}
	return q, nil
}

// wholes are the names of lengths.
var wholes = map[time.Duration]string{time.Minute: "minute", time.Hour: "hour", day: "day"}

// kept returns how long a period's totals are exact; zero for no limit.
func (r Retention) kept(p Period) time.Duration {
	switch p {
	case Minute:
		return r.Minutes
	case Hour:
		return r.Hours
	case Day, Whole:
	}
	return 0
}

// grain returns the length into which counts of a moment may have been merged; zero for none.
func (r Retention) grain(moment, now time.Time) time.Duration {
	switch age := now.Sub(moment); {
	case age > r.Hours:
		return day
	case age > r.Minutes:
		return time.Hour
	}
	return 0
}
