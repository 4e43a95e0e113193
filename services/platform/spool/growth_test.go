package spool

import (
	"bytes"
	"testing"

	"switchyard.dev/services/platform/testkit/growth"
)

func TestDecodeGrowsLinearly(t *testing.T) {
	line := string(appendLine(nil, []byte(`{"a":1}`)))
	inputs := append([]growth.Input{
		growth.Repeat("records", "", line, ""),
		growth.Repeat("damaged records", "", "x"+line, ""),
		growth.Repeat("empty lines", "", "\n", line),
	}, growth.Text...)
	growth.Linear(t, growth.Each(inputs, func(text []byte) {
		_, _, _ = decode(bytes.NewReader(text), 100)
		_, _, _ = decode(bytes.NewReader(text), 1<<30)
	})...)
}
