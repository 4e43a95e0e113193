package approval

import (
	"testing"

	"switchyard.dev/services/platform/testkit/growth"
)

func TestDigestGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.Each(append(growth.JSON, growth.Around(`{"a":[1,{"b":`, growth.ValidJSON, "}]}")...), func(text []byte) { _ = digest(text) })...)
}
