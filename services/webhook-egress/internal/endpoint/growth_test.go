package endpoint

import (
	"testing"

	"switchyard.dev/services/platform/testkit/growth"
)

// An event type has 128 characters at most, by the contract: only up to there may
// all prefixes be listed.
func TestPatternsGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.EachText(growth.UpTo(128, growth.Text), func(text string) { _ = Patterns(text) })...)
	growth.Linear(t, growth.Row{Name: "types", Top: 1 << 13, Make: func(n int) func() {
		types := make([]string, n)
		return func() { _ = checkTypes(types) }
	}})
}
