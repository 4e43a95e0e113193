package api

import (
	"testing"

	"switchyard.dev/services/platform/testkit/growth"
)

func TestCursorGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.EachText(growth.Text, func(text string) { _, _ = inboxCursor.decode(text) })...)
}

func TestPlaceGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.EachText(growth.Text, func(text string) { _, _ = decodePlace(text) })...)
}
