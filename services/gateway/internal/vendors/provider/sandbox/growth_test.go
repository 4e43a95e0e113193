package sandbox_test

import (
	"testing"

	"switchyard.dev/services/platform/testkit/growth"
)

func TestArgumentsGrowsLinearly(t *testing.T) {
	inputs := append(growth.Around(`{"type":"object","properties":{"a":`, growth.ValidJSON, "}}"), growth.ValidJSON...)
	inputs = append(inputs,
		growth.Nest("items of items", `{"type":"array","items":`, "{}", "}"), growth.Nest("properties of properties", `{"type":"object","properties":{"a":`, "{}", "}}"),
		growth.Number("required members", `{"type":"object","properties":{"a":{}`, `,"a#":{"type":"string"}`, "}}"),
		growth.Number("the same schema", `{"type":"object","required":["a"],"properties":{"a":{}`, `,"a#":{"$ref":"#"}`, "}}"),
		growth.Repeat("choices", `{"anyOf":[{}`, `,{"const":1}`, "]}"), growth.Repeat("a large count", `{"type":"array","minItems":1`, "0", `,"items":{"$ref":"#"}}`),
	)
	growth.Linear(t, growth.Each(inputs, func(schema []byte) { _ = arguments(t, string(schema)) })...)
}
