package sse_test

import (
	"bytes"
	"testing"
	"testing/iotest"

	"switchyard.dev/services/platform/testkit/growth"
)

func TestNextGrowsLinearly(t *testing.T) {
	inputs := append(growth.Around("data: ", growth.Text, "\n\n"), growth.Text...)
	inputs = append(inputs,
		growth.Repeat("events", "", "data: a\n\n", ""), growth.Repeat("lines of one event", "", "data: a\n", "\n"),
		growth.Repeat("lines that end alike", "", "data: a\r", "\r"), growth.Repeat("names", "", "event: a\n", "\n"), growth.Repeat("comments", "", ":\n", ""),
	)
	growth.Linear(t, growth.Each(inputs, func(text []byte) {
		_, _ = readAll(bytes.NewReader(text))
		_, _ = readAll(iotest.OneByteReader(bytes.NewReader(text)))
	})...)
}
