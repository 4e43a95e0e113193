package redis

import (
	"testing"

	"switchyard.dev/services/platform/testkit/growth"
)

func TestDecodeGrowsLinearly(t *testing.T) {
	inputs := append(growth.Around("12\n", growth.Text, ""), growth.Text...)
	inputs = append(inputs, growth.Number("reports", "12\n", "acme m# open 1 60000\n", ""), growth.Repeat("one report", "12\n", "acme m open 1 60000\n", ""))
	growth.Linear(t, growth.EachText(inputs, func(text string) { _ = decode("a", text) })...)
}
