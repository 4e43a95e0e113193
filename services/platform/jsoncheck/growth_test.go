package jsoncheck_test

import (
	"testing"

	"switchyard.dev/services/platform/jsoncheck"
	"switchyard.dev/services/platform/testkit/growth"
)

func TestValidGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.Each(growth.JSON, func(text []byte) {
		_ = jsoncheck.Valid(text)
		_ = jsoncheck.TooMany(text)
		_ = jsoncheck.ObjectRule(append([]byte("{"), text...))
	})...)
}
