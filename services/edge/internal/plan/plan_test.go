package plan_test

import (
	"testing"
	"time"

	"switchyard.dev/services/edge/internal/plan"
)

func TestWindow(t *testing.T) {
	east := time.FixedZone("east", 14*60*60)
	for name, tt := range map[string]struct {
		period     plan.Period
		now        time.Time
		start, end string
	}{
		"minute":               {plan.Minute, time.Date(2026, 2, 28, 23, 59, 59, 999, time.UTC), "2026-02-28T23:59:00Z", "2026-03-01T00:00:00Z"},
		"day":                  {plan.Day, time.Date(2026, 2, 28, 23, 59, 59, 0, time.UTC), "2026-02-28T00:00:00Z", "2026-03-01T00:00:00Z"},
		"leap day":             {plan.Day, time.Date(2028, 2, 29, 0, 0, 0, 0, time.UTC), "2028-02-29T00:00:00Z", "2028-03-01T00:00:00Z"},
		"month":                {plan.Month, time.Date(2026, 12, 31, 23, 59, 59, 0, time.UTC), "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		"begin of a month":     {plan.Month, time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), "2027-01-01T00:00:00Z", "2027-02-01T00:00:00Z"},
		"day of another zone":  {plan.Day, time.Date(2026, 3, 1, 1, 0, 0, 0, east), "2026-02-28T00:00:00Z", "2026-03-01T00:00:00Z"},
		"month of another one": {plan.Month, time.Date(2026, 3, 1, 1, 0, 0, 0, east), "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"},
	} {
		start, end := tt.period.Window(tt.now)
		if start.Format(time.RFC3339) != tt.start || end.Format(time.RFC3339) != tt.end {
			t.Errorf("%s: from %s to %s, want %s to %s", name, start, end, tt.start, tt.end)
		}
	}
}
