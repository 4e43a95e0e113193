package limit

import (
	"strings"
	"testing"
	"time"
)

func TestLimitText(t *testing.T) {
	for text, want := range map[string]Limit{
		"":          {},
		"600/1m":    {Requests: 600, Window: time.Minute, Burst: 600},
		"600/1m/50": {Requests: 600, Window: time.Minute, Burst: 50},
		"1/24h":     {Requests: 1, Window: 24 * time.Hour, Burst: 1},
	} {
		var got Limit
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q = %+v, %v", text, got, err)
		}
		written, _ := got.MarshalText()
		var again Limit
		if err := again.UnmarshalText(written); err != nil || again != want {
			t.Errorf("%q comes back as %+v, %v", written, again, err)
		}
	}
	for _, text := range []string{"600", "0/1m", "-1/1m", "600/0s", "600/1.5s", "600/25h", "600/1m/0", "600/1m/1/1", "a/1m", "600/b", "600/1m/c", "/", "1000001/1m", "0/0s/0"} {
		var got Limit
		if err := got.UnmarshalText([]byte(text)); err == nil || (got != Limit{}) {
			t.Errorf("%q was taken as %+v", text, got)
		}
	}
}

func FuzzLimitText(f *testing.F) {
	for _, text := range []string{"", "600/1m", "600/1m/50", "0/0s/0", "9999999999999999999/1m"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var l Limit
		if l.UnmarshalText([]byte(text)) != nil || text == "" {
			return
		}
		if l.Check() != nil || l.interval() <= 0 || l.lease() < 1 {
			t.Errorf("%q is taken as %+v", text, l)
		}
	})
}

// The algorithm admits a burst, then one for each interval.
func TestSpend(t *testing.T) {
	l := Limit{Requests: 10, Window: 10 * time.Second, Burst: 3}
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var full time.Time
	for i, tt := range []struct {
		after     time.Duration
		wait      time.Duration
		remaining int
	}{
		{0, 0, 2},
		{0, 0, 1},
		{0, 0, 0},
		{0, time.Second, 0},
		{999 * time.Millisecond, time.Millisecond, 0},
		{time.Second, 0, 0},
		{time.Second, time.Second, 0},
		{4 * time.Second, 0, 2}, // full again at 4 s
		{time.Hour, 0, 2},
	} {
		now := start.Add(tt.after)
		after, wait := l.spend(full, now)
		if wait != tt.wait {
			t.Errorf("%d: wait %v, want %v", i, wait, tt.wait)
		}
		full = after
		if got := l.remaining(full, now); got != tt.remaining {
			t.Errorf("%d: %d remain, want %d", i, got, tt.remaining)
		}
	}
}

func TestCheck(t *testing.T) {
	for rule, l := range map[string]Limit{
		"requests": {Window: time.Second, Burst: 1},
		"window":   {Requests: 1, Burst: 1},
		"burst":    {Requests: 1, Window: time.Second},
	} {
		if err := l.Check(); err == nil || !strings.Contains(err.Error(), rule) {
			t.Errorf("%+v: %v, want the rule of the %s", l, err, rule)
		}
	}
}
