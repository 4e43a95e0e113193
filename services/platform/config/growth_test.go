package config_test

import (
	"testing"

	"switchyard.dev/services/platform/config"
	"switchyard.dev/services/platform/testkit/growth"
)

func TestTargetsGrowsLinearly(t *testing.T) {
	inputs := append([]growth.Input{growth.Repeat("targets", "", "a.example:443,", "b:1")}, growth.Text...)
	growth.Linear(t, growth.Each(inputs, func(text []byte) { _ = new(config.Targets).UnmarshalText(text) })...)
}

func TestDurationsGrowsLinearly(t *testing.T) {
	inputs := append([]growth.Input{growth.Repeat("durations", "", "1h2m3.5s,", "1s")}, growth.Text...)
	growth.Linear(t, growth.Each(inputs, func(text []byte) { _ = new(config.Durations).UnmarshalText(text) })...)
}
