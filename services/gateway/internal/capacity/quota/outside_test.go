package quota

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestExhausted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := running(t, Options{})
		limit := Limit{Tokens: 1000}
		must(t, b, claim("x/1", limit, 100))
		for range 5 { // Concurrent calls meet the same refusal.
			b.Exhausted("x/1", 20*time.Second)
		}
		if r := refused(t, b, Demand{Claims: claim("x/1", limit, 1)}, CauseVendor); r.RetryAfter != 20*time.Second {
			t.Errorf("retry after %v, want 20s", r.RetryAfter)
		}
		if l := b.Load("x/1"); l.Free != 0 {
			t.Errorf("%v is free while the vendor refuses", l.Free)
		}
		time.Sleep(61 * time.Second)
		refused(t, b, Demand{Claims: claim("x/1", limit, 970)}, CauseLimit)
		must(t, b, claim("x/1", limit, 960)).Cancel()
		time.Sleep(41 * time.Second)
		must(t, b, claim("x/1", limit, 1000))
		b.Exhausted("x/1", time.Second)
		time.Sleep(62 * time.Second)
		must(t, b, claim("x/1", limit, 1000)) // Nothing was free, so that the refusal was no surprise.
		b.Exhausted("x/unknown", time.Second)
	})
}

func TestCorrect(t *testing.T) {
	for name, c := range map[string]struct {
		remaining int64
		reset     time.Duration
		fits      int64
	}{
		"as booked":      {80_000, time.Minute, 80_000},
		"nearly":         {76_000, time.Minute, 80_000},
		"more":           {100_000, time.Minute, 80_000},
		"less":           {50_000, time.Minute, 50_000},
		"nothing":        {0, time.Minute, 0},
		"without reset":  {0, 0, 80_000},
		"not a number":   {-1, time.Minute, 80_000},
		"in an hour":     {50_000, time.Hour, 50_000},
		"soon all again": {50_000, time.Millisecond, 80_000},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := running(t, Options{})
				limit := Limit{Tokens: 100_000}
				must(t, b, claim("x/1", limit, 20_000)).Settle(20_000)
				time.Sleep(5 * time.Second)
				b.Correct("x/1", c.remaining, c.reset)
				time.Sleep(200 * time.Millisecond) // The store knows, too.
				refused(t, b, Demand{Claims: claim("x/1", limit, c.fits+2000)}, CauseLimit)
				if c.fits > 0 {
					must(t, b, claim("x/1", limit, c.fits))
				}
				b.Correct("x/unknown", 0, time.Minute)
			})
		})
	}
}

// What one replica learns of a vendor, the others know soon.
func TestNewsReachOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &network{Memory: &Memory{}}
		a, b := running(t, Options{Store: store}), running(t, Options{Store: store})
		time.Sleep(5 * time.Second)
		claims := claim("x/1", Limit{Tokens: 1000}, 1)
		must(t, a, claims)
		must(t, b, claims)
		a.Exhausted("x/1", 30*time.Second)
		time.Sleep(100 * time.Millisecond)
		refused(t, b, Demand{Claims: claims}, CauseVendor)
	})
}
