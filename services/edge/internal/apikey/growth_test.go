package apikey

import (
	"testing"

	"switchyard.dev/services/platform/testkit/growth"
)

func TestWellFormedGrowsLinearly(t *testing.T) {
	inputs := append(growth.Around("swy_test_", growth.Text, ""), growth.Around("swy_", growth.Text, mint("a")[5:])...)
	growth.Linear(t, growth.EachText(append(inputs, growth.Text...), func(text string) { _ = WellFormed(text) })...)
}
