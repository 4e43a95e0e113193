package ledger

import (
	"testing"

	"switchyard.dev/services/platform/testkit/growth"
)

func TestCursorGrowsLinearly(t *testing.T) {
	filter := Filter{Organization: "acme"}
	growth.Linear(t, growth.EachText(growth.Text, func(text string) { _, _ = filter.Position(text) })...)
}
