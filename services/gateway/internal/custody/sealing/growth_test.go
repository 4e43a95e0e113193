package sealing

import (
	"testing"

	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit/growth"
)

func TestParseGrowsLinearly(t *testing.T) {
	inputs := append(growth.Around("switchyard-sealing-key-v1 x25519 2026-01-02T03:04:05Z ", growth.Text, ""), growth.Text...)
	growth.Linear(t, growth.EachText(inputs, func(line string) { _, _ = Parse(secret.New(line)) })...)
}
