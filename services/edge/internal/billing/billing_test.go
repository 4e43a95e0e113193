package billing_test

import (
	"math"
	"testing"

	"switchyard.dev/services/edge/internal/billing"
	"switchyard.dev/services/platform/feed"
)

// The release before stored cursors of another form, whose positions go on to hold.
func TestParsePosition(t *testing.T) {
	for text, want := range map[string]feed.Position{
		"":                                 {},
		"12-34":                            {Transaction: 12, Row: 34},
		"AAAAAAAAAAEAAAAAAAAAAgECAwQFBgcI": {Transaction: 1, Row: 2},
		"P_________9__________wECAwQFBgcI": {Transaction: 1<<62 - 1, Row: math.MaxInt64},
	} {
		if got, err := billing.ParsePosition(text); err != nil || got != want {
			t.Errorf("position of %q is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"x", "12", "AAAAAAAAAAEAAAAAAAAAAg", "AAAAAAAAAAEAAAAAAAAAAgECAwQFBgc=", "12-34 "} {
		if got, err := billing.ParsePosition(text); err == nil {
			t.Errorf("position of %q is %v, want an error", text, got)
		}
	}
}
