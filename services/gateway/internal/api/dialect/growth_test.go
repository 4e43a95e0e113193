package dialect_test

import (
	"bytes"
	"testing"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/platform/testkit/growth"
)

func TestRenamerGrowsLinearly(t *testing.T) {
	inputs := append(growth.Around(`{"x":`, growth.JSON, `,"model":"a"}`), growth.Around(`{"model":`, growth.ValidJSON, "}")...)
	inputs = append(inputs, growth.Repeat("models", `{"model":"a"`, `,"model":"a"`, "}"), growth.Number("members", `{"a":1`, `,"a#":1`, `,"model":"a"}`))
	growth.Linear(t, growth.Each(inputs, func(frame []byte) {
		r := dialect.NewRenamer("model", "n")
		for range 3 {
			_ = r.Append(nil, bytes.Clone(frame))
		}
	})...)
}

func TestDecodeGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.Each(growth.JSON, func(text []byte) {
		var said string
		var flag bool
		var count *int
		var list []string
		_ = dialect.Decode("field", text, &said)
		_ = dialect.Decode("field", text, &flag)
		_ = dialect.Decode("field", text, &count)
		_ = dialect.Decode("field", text, &list)
	})...)
}
