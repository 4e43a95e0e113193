package export

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var hour = time.Date(2026, 11, 24, 10, 0, 0, 0, time.UTC)

// The id of a growth follows from what it says, and its moment is within its hour.
func TestEntryOfGrowth(t *testing.T) {
	g := Growth{ID: 1, Organization: "acme", Metric: "deliveries", Hour: hour, Before: 5, Count: 3, CollectedAt: hour.Add(90 * time.Second)}
	first := g.Entry()
	if first.At != hour.Add(90*time.Second) || first.Organization != "acme" || !cmp.Equal(first.Values, []Value{{"deliveries", "3"}}) {
		t.Errorf("got %+v", first)
	}
	again := g
	again.ID, again.CollectedAt = 7, hour.Add(5*time.Hour)
	if e := again.Entry(); e.ID != first.ID || e.At != hour.Add(time.Hour-time.Second) {
		t.Errorf("collected later it has the id %q and the moment %v, want %q and the last second of the hour", e.ID, e.At, first.ID)
	}
	again.CollectedAt = hour.Add(-time.Minute)
	if e := again.Entry(); e.At != hour {
		t.Errorf("collected by a clock that is behind it has the moment %v, want the hour", e.At)
	}
	for what, change := range map[string]func(*Growth){
		"organization": func(g *Growth) { g.Organization = "acme2" }, "metric": func(g *Growth) { g.Metric = "events" },
		"hour": func(g *Growth) { g.Hour = hour.Add(time.Hour) }, "before": func(g *Growth) { g.Before++ }, "count": func(g *Growth) { g.Count++ },
	} {
		other := g
		change(&other)
		if other.Entry().ID == first.ID {
			t.Errorf("another %s has the same id", what)
		}
	}
}

func TestCents(t *testing.T) {
	for pico, want := range map[int64]string{
		0: "0", 1: "0.0000000001", 9_999_999_999: "0.9999999999", 10_000_000_000: "1", 10_000_000_001: "1.0000000001",
		math.MaxInt64: "922337203.6854775807", 12_500_000_000: "1.25", 123_456_789_012_345: "12345.6789012345",
	} {
		if got := cents(pico); got != want {
			t.Errorf("%d pico-USD are %q cents, want %q", pico, got, want)
		}
	}
}

// A destination gets an event for each meter that it has, of organizations that are its customers.
func TestEvents(t *testing.T) {
	entry := Entry{ID: "id", Organization: "acme", At: hour, Values: []Value{{"ledger.calls", "1"}, {"ledger.cost_cents", "0"}, {"ledger.total_tokens", "70"}}}
	d := Destination{Name: "d", Meters: map[string]string{"ledger.calls": "calls", "ledger.cost_cents": "cost"}}
	want := []Event{{
		Identifier: "id/ledger.calls", Source: Ledger, Organization: "acme", Metric: "ledger.calls", Customer: "acme", Name: "calls", Amount: "1", At: hour,
	}}
	if diff := cmp.Diff(want, d.Events(Ledger, entry)); diff != "" {
		t.Errorf("without customers (-want +got):\n%s", diff)
	}
	d.Customers = map[string]string{"acme": "cus_1"}
	want[0].Customer = "cus_1"
	if diff := cmp.Diff(want, d.Events(Ledger, entry)); diff != "" {
		t.Errorf("with the organization among the customers (-want +got):\n%s", diff)
	}
	entry.Organization = "other"
	if got := d.Events(Ledger, entry); got != nil {
		t.Errorf("an organization that is no customer has %+v", got)
	}
}

// The turns of old hours meet each hour of the window, and recent hours those that follow.
func TestHoursOfRounds(t *testing.T) {
	now := hour.Add(25 * time.Minute)
	seen := make(map[time.Time]int)
	spans := []span{recentHours(now)}
	for turn := range int((Window - recent) / chunk) {
		spans = append(spans, olderHours(now, turn))
	}
	for _, s := range spans {
		for h := s.from; h.Before(s.to); h = h.Add(time.Hour) {
			seen[h]++
		}
	}
	for h := hour.Add(time.Hour); h.After(hour.Add(-Window + 2*chunk)); h = h.Add(-time.Hour) {
		if seen[h] != 1 {
			t.Errorf("%v is collected %d times in all turns, want once", h, seen[h])
		}
	}
	if oldest := olderHours(now, int((Window-recent)/chunk)-1).from; now.Sub(oldest) >= Kept {
		t.Errorf("hours from %v on are collected, whose growths may be dropped", oldest)
	}
}

// A reason from outside is one printable line of bounded length.
func TestReason(t *testing.T) {
	if got, want := reason("a\nb\x00\xff"), "a b"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := reason(strings.Repeat("é", maxReason)); len(got) > maxReason {
		t.Errorf("got %d bytes, want at most %d", len(got), maxReason)
	}
}

func TestBackoff(t *testing.T) {
	for failures, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 9: 256 * time.Second, 10: maxBackoff, 1000: maxBackoff} {
		if got := backoff(failures); got != want {
			t.Errorf("after %d failures %v, want %v", failures, got, want)
		}
	}
}
