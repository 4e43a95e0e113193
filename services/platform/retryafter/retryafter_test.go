package retryafter_test

import (
	"net/http"
	"testing"
	"time"

	"switchyard.dev/services/platform/retryafter"
	"switchyard.dev/services/platform/testkit/growth"
)

const limit = 24 * time.Hour

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestParse(t *testing.T) {
	at := now.Add(90 * time.Second)
	for value, want := range map[string]time.Duration{
		"":                           0,
		" ":                          0,
		"0":                          0,
		"120":                        2 * time.Minute,
		"\t5":                        5 * time.Second,
		" 1.5 ":                      1500 * time.Millisecond,
		"0.0000000001":               1,
		"86400":                      limit,
		"86401":                      limit,
		"9999999999":                 limit,
		"99999999999999999999999999": limit,
		"-5":                         0,
		"+5":                         0,
		"1e3":                        0,
		"0x10":                       0,
		"1_000":                      0,
		"inf":                        0,
		"NaN":                        0,
		"1.2.3":                      0,
		".":                          0,
		"..":                         0,
		"soon":                       0,
		"5s":                         0,
		"2026-03-01T12:01:30Z":       0,
		at.Format(http.TimeFormat):   90 * time.Second,
		at.Format("Monday, 02-Jan-06 15:04:05 GMT"):  90 * time.Second,
		at.Format(time.ANSIC):                        90 * time.Second,
		now.Format(http.TimeFormat):                  0,
		now.Add(-time.Hour).Format(http.TimeFormat):  0,
		now.AddDate(1, 0, 0).Format(http.TimeFormat): limit,
	} {
		if got := retryafter.Parse(value, now, limit); got != want {
			t.Errorf("Parse(%q) = %v, want %v", value, got, want)
		}
	}
}

func TestParseKeepsToTheLimit(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"59": 59 * time.Second,
		"60": time.Minute,
		"61": time.Minute,
		now.Add(59 * time.Second).Format(http.TimeFormat): 59 * time.Second,
		now.Add(61 * time.Second).Format(http.TimeFormat): time.Minute,
	} {
		if got := retryafter.Parse(value, now, time.Minute); got != want {
			t.Errorf("Parse(%q) with a limit of a minute = %v, want %v", value, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "1", "1.5", "Sun, 01 Mar 2026 12:00:10 GMT", "-1", "\x00", "9e99"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if got := retryafter.Parse(value, now, limit); got < 0 || got > limit {
			t.Errorf("Parse(%q) = %v, want 0 to %v", value, got, limit)
		}
	})
}

func TestParseGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.EachText(growth.Text, func(text string) { _ = retryafter.Parse(text, now, limit) })...)
}
