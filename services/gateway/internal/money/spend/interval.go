package spend

import (
	"fmt"
	"time"

	"switchyard.dev/services/platform/apierr"
)

// Interval is the length of time of a row, in UTC.
type Interval string

// The intervals.
const (
	IntervalHour  Interval = "hour"
	IntervalDay   Interval = "day"
	IntervalMonth Interval = "month"
)

const day = 24 * time.Hour

// What reports may ask for. Sums are kept a day longer, so that none expires under a report.
const (
	hoursReach, daysReach = 35 * day, 400 * day
	// At most so many intervals are in a report, which bounds the rows that it reads, together with Bounds.
	maxHours, maxDays, maxMonths = 7 * 24, 92, 36
)

// floor returns the beginning of the interval of a moment.
func (i Interval) floor(t time.Time) time.Time {
	t = t.UTC()
	switch i {
	case IntervalHour:
		return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), 0, 0, 0, time.UTC)
	case IntervalDay:
		return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
	default:
		return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
	}
}

// After returns the beginning of the interval that is n after the one that begins at start.
func (i Interval) After(start time.Time, n int) time.Time {
	switch i {
	case IntervalHour:
		return start.Add(time.Duration(n) * time.Hour)
	case IntervalDay:
		return start.AddDate(0, 0, n)
	default:
		return start.AddDate(0, n, 0)
	}
}

// limits returns the largest number of intervals in a report and how far back they reach; 0 is without end.
func (i Interval) limits() (most int, reach time.Duration) {
	switch i {
	case IntervalHour:
		return maxHours, hoursReach
	case IntervalDay:
		return maxDays, daysReach
	default:
		return maxMonths, 0
	}
}

// Window returns the window of a report. The zero until is the end of the present interval. The error is an
// *apierr.Error that names the field.
func (i Interval) Window(from, to, now time.Time) (since, until time.Time, err error) {
	most, reach := i.limits()
	if to.IsZero() {
		to = i.After(i.floor(now), 1)
	}
	switch {
	case from.IsZero():
		err = apierr.Invalid("from", "is required")
	case !i.floor(from).Equal(from):
		err = apierr.Invalid("from", fmt.Sprintf("must be the beginning of %s in UTC", i.one()))
	case !i.floor(to).Equal(to):
		err = apierr.Invalid("to", fmt.Sprintf("must be the beginning of %s in UTC", i.one()))
	case !from.Before(to):
		err = apierr.Invalid("to", "must be after from")
	case i.After(from, most).Before(to):
		err = apierr.Invalid("to", fmt.Sprintf("must be at most %d %ss after from", most, i))
	case reach > 0 && from.Before(now.Add(-reach)):
		err = apierr.Invalid("from", fmt.Sprintf("must be in the last %d days for interval %s; a longer interval reaches further back", reach/day, i))
	}
	return from.UTC(), to.UTC(), err
}

// one returns the interval's name with its article.
func (i Interval) one() string {
	if i == IntervalHour {
		return "an hour"
	}
	return "a " + string(i)
}
