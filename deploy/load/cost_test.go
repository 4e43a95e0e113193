package main

import (
	"testing"
	"time"
)

const ms = time.Millisecond

func TestCostPerRequest(t *testing.T) {
	t.Parallel()
	before := cost{[2]time.Duration{10 * ms, 20 * ms}, 30 * ms, 40 * ms}
	after := cost{[2]time.Duration{30 * ms, 60 * ms}, 90 * ms, 120 * ms}
	want := cost{[2]time.Duration{2 * ms, 4 * ms}, 6 * ms, 8 * ms}
	if got := after.minus(before).each(10); got != want {
		t.Errorf("10 requests cost %v each, want %v", got, want)
	}
	if got := want.onWay(); got != 6*ms {
		t.Errorf("%v on the way, want 6ms", got)
	}
	if got := want.each(0); got != want {
		t.Errorf("without requests %v, want the whole: %v", got, want)
	}
	if got, sum := before.plus(want), (cost{[2]time.Duration{12 * ms, 24 * ms}, 36 * ms, 48 * ms}); got != sum {
		t.Errorf("the sum is %v, want %v", got, sum)
	}
}

// What an idle stack would have spent while exports caught up is no cost of the calls, and never a negative one.
func TestCostBeyondIdle(t *testing.T) {
	t.Parallel()
	idle := cost{[2]time.Duration{10 * ms, 100 * ms}, 20 * ms, 30 * ms}
	spent := cost{[2]time.Duration{30 * ms, 50 * ms}, 50 * ms, 60 * ms}
	want := cost{[2]time.Duration{10 * ms, 0}, 10 * ms, 0}
	if got := spent.beyond(idle.times(2)); got != want {
		t.Errorf("beyond two idle seconds: %v, want %v", got, want)
	}
}

func TestExportsCoverCalls(t *testing.T) {
	t.Parallel()
	stripe, lago, counts := [2]string{"stripe", "ledger"}, [2]string{"lago", "ledger"}, [2]string{"lago", "counts"}
	ledgers := func(ofStripe, ofLago exportCursor) exported {
		ofStripe.Source, ofLago.Source = "ledger", "ledger"
		return exported{stripe: ofStripe, lago: ofLago, counts: {Source: "counts", Sent: 1}}
	}
	before := ledgers(exportCursor{Sent: 100}, exportCursor{Sent: 50, Refused: 2})
	for name, test := range map[string]struct {
		now  exported
		want bool
	}{
		"no cursor":   {nil, false},
		"unmoved":     {before, false},
		"one behind":  {ledgers(exportCursor{Sent: 110}, exportCursor{Sent: 59, Refused: 2}), false},
		"all":         {ledgers(exportCursor{Sent: 110}, exportCursor{Sent: 60, Refused: 2}), true},
		"refused":     {ledgers(exportCursor{Sent: 110}, exportCursor{Sent: 55, Refused: 7}), true},
		"failing":     {ledgers(exportCursor{Sent: 110, Failure: "down"}, exportCursor{Sent: 60, Refused: 2}), false},
		"counts only": {exported{counts: {Source: "counts", Sent: 500}}, false},
	} {
		if got := test.now.covers(before, 10); got != test.want {
			t.Errorf("%s: covered is %t, want %t", name, got, test.want)
		}
	}
}

func TestExportFailures(t *testing.T) {
	t.Parallel()
	e := exported{
		{"stripe", "ledger"}: {Source: "ledger", Failure: "status 503"},
		{"lago", "counts"}:   {Source: "counts", Sent: 1},
		{"lago", "ledger"}:   {Source: "ledger", Refused: 3},
	}
	if got, want := e.failures(), "lago refused 3 events; stripe: status 503"; got != want {
		t.Errorf("failures are %q, want %q", got, want)
	}
}
