package spend

import (
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit/growth"
)

func moment(text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil && text != "" {
		panic(err)
	}
	return at
}

func TestWindow(t *testing.T) {
	now := moment("2026-03-31T10:20:30Z")
	tests := map[string]struct {
		interval     Interval
		from, to     string
		since, until string
		text         string
	}{
		"to the present hour":  {IntervalHour, "2026-03-31T00:00:00Z", "", "2026-03-31T00:00:00Z", "2026-03-31T11:00:00Z", ""},
		"to the present day":   {IntervalDay, "2026-03-01T00:00:00Z", "", "2026-03-01T00:00:00Z", "2026-04-01T00:00:00Z", ""},
		"to the present month": {IntervalMonth, "2026-01-01T00:00:00Z", "", "2026-01-01T00:00:00Z", "2026-04-01T00:00:00Z", ""},
		"another zone":         {IntervalDay, "2026-03-01T02:00:00+02:00", "2026-03-02T00:00:00Z", "2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z", ""},
		"most hours":           {IntervalHour, "2026-03-24T11:00:00Z", "", "2026-03-24T11:00:00Z", "2026-03-31T11:00:00Z", ""},
		"an hour more":         {IntervalHour, "2026-03-24T10:00:00Z", "", "", "", "to: must be at most 168 hours"},
		"most days":            {IntervalDay, "2026-01-01T00:00:00Z", "2026-04-03T00:00:00Z", "2026-01-01T00:00:00Z", "2026-04-03T00:00:00Z", ""},
		"a day more":           {IntervalDay, "2026-01-01T00:00:00Z", "2026-04-04T00:00:00Z", "", "", "to: must be at most 92 days"},
		"most months":          {IntervalMonth, "2020-01-01T00:00:00Z", "2023-01-01T00:00:00Z", "2020-01-01T00:00:00Z", "2023-01-01T00:00:00Z", ""},
		"a month more":         {IntervalMonth, "2020-01-01T00:00:00Z", "2023-02-01T00:00:00Z", "", "", "to: must be at most 36 months"},
		"old hours":            {IntervalHour, "2026-02-24T10:00:00Z", "2026-02-24T11:00:00Z", "", "", "from: must be in the last 35 days"},
		"old days":             {IntervalDay, "2025-01-01T00:00:00Z", "2025-01-02T00:00:00Z", "", "", "from: must be in the last 400 days"},
		"no from":              {IntervalDay, "", "", "", "", "from: is required"},
		"within an hour":       {IntervalHour, "2026-03-31T00:00:01Z", "", "", "", "from: must be the beginning of an hour"},
		"within a day":         {IntervalDay, "2026-03-31T00:00:00Z", "2026-03-31T01:00:00Z", "", "", "to: must be the beginning of a day"},
		"within a month":       {IntervalMonth, "2026-03-02T00:00:00Z", "", "", "", "from: must be the beginning of a month"},
		"backwards":            {IntervalDay, "2026-03-02T00:00:00Z", "2026-03-01T00:00:00Z", "", "", "to: must be after from"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			since, until, err := tt.interval.Window(moment(tt.from), moment(tt.to), now)
			if tt.text != "" {
				if err == nil || !strings.HasPrefix(apierr.From(err).Text, tt.text) {
					t.Errorf("%v, want %s", err, tt.text)
				}
				return
			}
			if err != nil || !since.Equal(moment(tt.since)) || !until.Equal(moment(tt.until)) {
				t.Errorf("%s to %s: %v", since, until, err)
			}
		})
	}
}

// What reports may ask for is kept for a day more.
func TestReportsReachWhatIsKept(t *testing.T) {
	now := moment("2026-03-31T10:20:30Z")
	b := BoundsAt(now)
	if hours, days := now.Add(-hoursReach).Sub(b.HoursSince), now.Add(-daysReach).Sub(b.DaysSince); hours < day || days < day {
		t.Errorf("hours are kept for %s and days for %s longer", hours, days)
	}
}

func TestParseGrouping(t *testing.T) {
	got, err := ParseGrouping("tag.team, model,tag.a-b.c,key,user,provider")
	if diff := cmp.Diff(Grouping{"tag.team", "model", "tag.a-b.c", "key", "user", "provider"}, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if diff := cmp.Diff([]string{"team", "a-b.c"}, got.TagNames()); diff != "" {
		t.Error(diff)
	}
	if got, err := ParseGrouping(""); got != nil || err != nil {
		t.Errorf("nothing: %v, %v", got, err)
	}
	for text, rule := range map[string]string{
		"modell": "must be a list", ",": "must be a list", "model,": "must be a list", "tag.": "tag.NAME", "tag.A": "tag.NAME", "tag": "must be a list",
		"user,user": "names a dimension twice", "tag.a,tag.b,tag.c,tag.d": "must have at most 3 tags",
	} {
		if _, err := ParseGrouping(text); err == nil || !strings.HasPrefix(apierr.From(err).Text, "group_by: "+rule) {
			t.Errorf("%s: %v, want %s", text, err, rule)
		}
	}
}

func TestParseGroupingGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.EachText(growth.Text, func(text string) { _, _ = ParseGrouping(text) })...)
}

func TestCost(t *testing.T) {
	for pico, want := range map[string]struct {
		usd   string
		cents float64
	}{
		"0": {"0", 0}, "1": {"0.000000000001", 1e-10}, "1000000000000": {"1", 100}, "1500000000000": {"1.5", 150},
		"123456789012345678901234567890": {"123456789012345678.90123456789", 1.23456789012346e19},
	} {
		amount, _ := new(big.Int).SetString(pico, 10)
		s := Sums{Pico: amount}
		if s.USD() != want.usd || s.Cents() != want.cents {
			t.Errorf("%s: %s USD, %v cents, want %s, %v", pico, s.USD(), s.Cents(), want.usd, want.cents)
		}
	}
}
