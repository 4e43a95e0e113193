package meter

import (
	"strings"
	"testing"
	"time"
)

func TestComplete(t *testing.T) {
	r := Retention{Minutes: 7 * day, Hours: 30 * day, Days: 100 * day}
	now := time.Date(2026, 6, 15, 12, 34, 56, 0, time.UTC)
	at := func(days int, clock string) time.Time {
		d, err := time.Parse("15:04:05", clock)
		if err != nil {
			t.Fatal(err)
		}
		return time.Date(2026, 6, 15-days, d.Hour(), d.Minute(), d.Second(), 0, time.UTC)
	}
	for name, tt := range map[string]struct {
		q     Query
		wrong string
	}{
		"all":                        {Query{}, ""},
		"recent":                     {Query{From: at(1, "10:11:12"), To: at(0, "10:11:12")}, ""},
		"hours ago":                  {Query{From: at(8, "10:00:00")}, ""},
		"hours ago, within":          {Query{From: at(8, "10:11:00")}, "from: must be on the hour"},
		"days ago":                   {Query{From: at(40, "00:00:00"), To: at(35, "00:00:00")}, ""},
		"days ago, within":           {Query{From: at(40, "00:00:00"), To: at(35, "10:00:00")}, "to: must be on the day"},
		"by minute":                  {Query{Period: Minute}, ""},
		"by minute, within":          {Query{Period: Minute, From: at(1, "10:11:12")}, "from: must be on the minute"},
		"by minute, long ago":        {Query{Period: Minute, From: at(8, "10:00:00")}, "from: counts by the minute are kept from 2026-06-08T12:35:00Z on"},
		"by hour":                    {Query{Period: Hour, From: at(8, "10:00:00"), To: at(0, "12:00:00")}, ""},
		"by hour, within":            {Query{Period: Hour, From: at(1, "10:11:00")}, "from: must be on the hour"},
		"by hour, long ago":          {Query{Period: Hour, From: at(40, "00:00:00")}, "from: counts by the hour"},
		"by day":                     {Query{Period: Day, From: at(99, "00:00:00")}, ""},
		"by day, within":             {Query{Period: Day, From: at(1, "10:00:00")}, "from: must be on the day"},
		"by user, whole hours":       {Query{User: "ann", From: at(1, "10:00:00"), To: at(0, "10:00:00")}, ""},
		"by user, within":            {Query{User: "ann", From: at(1, "10:11:00")}, "from: must be on the hour"},
		"by tag, by minute":          {Query{Dimensions: []string{"tag.team"}, Period: Minute}, "period: must be hour or day"},
		"by another":                 {Query{Period: "week"}, "period: "},
		"by day, in another's hours": {Query{Period: Day, From: at(1, "00:00:00").In(time.FixedZone("", 3600))}, ""},
	} {
		q, err := r.Complete(tt.q, now)
		if tt.wrong == "" {
			if err != nil || q.To.IsZero() || q.From.IsZero() {
				t.Errorf("%s: %+v, %v", name, q, err)
			}
			continue
		}
		if err == nil || !strings.HasPrefix(err.Error(), tt.wrong) {
			t.Errorf("%s: %v, want %s", name, err, tt.wrong)
		}
	}
	for _, bad := range []Retention{{}, {Minutes: time.Hour, Hours: 30 * day, Days: 100 * day}, {Minutes: 7 * day, Hours: 7 * day, Days: 100 * day}} {
		if bad.Check() == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}
