package api

import (
	"testing"

	"switchyard.dev/services/platform/testkit/growth"
)

func TestToInputGrowsLinearly(t *testing.T) {
	inputs := append(growth.Around("[", growth.JSON, "]"), growth.JSON...)
	inputs = append(inputs, growth.Repeat("lists of tokens", "[[1]", ",[1,2]", "]"), growth.Repeat("tokens", "[1", ",2", "]"), growth.Repeat("texts", `["a"`, `,"b"`, "]"))
	growth.Linear(t, growth.Each(inputs, func(raw []byte) { _, _ = toInput(raw) })...)
}
