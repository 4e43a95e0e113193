package batchjob_test

import (
	"testing"

	"switchyard.dev/services/platform/testkit/growth"
)

func TestLinesGrowsLinearly(t *testing.T) {
	inputs := []growth.Input{
		growth.Repeat("lines", "", "a\n", ""), growth.Repeat("empty lines", "", "\n", ""), growth.Repeat("a long line", "", "a", "\n"),
		growth.Repeat("spaces", "", " ", "a"),
	}
	for _, size := range []int{1, 7, 1 << 20} {
		growth.Linear(t, growth.Each(inputs, func(text []byte) { _ = linesOf(text, size) })...)
	}
}
