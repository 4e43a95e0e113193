package limit

import (
	"testing"

	"switchyard.dev/services/platform/testkit/growth"
)

func TestLimitTextGrowsLinearly(t *testing.T) {
	inputs := append(growth.Around("600/", growth.Text, ""), growth.Around("600/1m/", growth.Text, "")...)
	growth.Linear(t, growth.EachText(append(inputs, growth.Text...), func(text string) { _ = new(Limit).UnmarshalText([]byte(text)) })...)
}
