package redis

import (
	"testing"

	"switchyard.dev/services/gateway/internal/capacity/quota"
	"switchyard.dev/services/platform/testkit/growth"
)

func TestDecodeGrowsLinearly(t *testing.T) {
	inputs := append(growth.Around("12\n", growth.Text, ""), growth.Text...)
	inputs = append(inputs, growth.Number("reports", "12\n", "acme m# open 1 60000\n", ""), growth.Repeat("one report", "12\n", "acme m open 1 60000\n", ""))
	growth.Linear(t, growth.EachText(inputs, func(text string) { _ = decode("a", text) })...)
}

func TestGrantOfGrowsLinearly(t *testing.T) {
	request := quota.Request{Alternatives: [][]quota.Booking{make([]quota.Booking, 1)}}
	inputs := append(growth.Around(`{"alternative":0,"used":[[`, growth.Text, `]]}`), growth.Text...)
	inputs = append(inputs, growth.Repeat("used", `{"alternative":0,"used":[[0`, `,1`, `]]}`))
	growth.Linear(t, growth.EachText(inputs, func(text string) { _, _ = grantOf(request, []string{"1", "2", text}) })...)
}
