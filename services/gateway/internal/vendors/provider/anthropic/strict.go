package anthropic

import (
	"encoding/json"
	"fmt"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/schema"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// What the vendor enforces in one request: strict functions, and in all strict schemas together properties that are not
// required and schemas with a union. Source: Anthropic documentation, "Structured outputs", "Schema complexity limits",
// and the vendor's errors.
const (
	mostStrict   = 20
	mostOptional = 24
	mostUnions   = 16
)

// Loosen returns the indexes of the strict functions that exceed what Claude enforces in one request: the schema of the
// answer comes first, then the functions in their order. It returns an error if the schema of the answer exceeds it.
func Loosen(chat *provider.Chat) (functions []int, err error) {
	left := schema.Size{Optional: mostOptional, Unions: mostUnions}
	if answer := strictSchema(chat.ResponseFormat); !deduct(&left, answer) {
		return nil, provider.Unsupported("response_format.json_schema.schema", fmt.Sprintf(
			"this provider enforces at most %d optional properties and %d unions", mostOptional, mostUnions))
	}
	for i, strict := 0, 0; i < len(chat.Tools); i++ {
		switch t := &chat.Tools[i]; {
		case !t.Strict:
		case strict < mostStrict && deduct(&left, t.Parameters):
			strict++
		default:
			functions = append(functions, i)
		}
	}
	return functions, nil
}

// deduct subtracts a schema's size from left, and reports whether the schema fits. If it doesn't, left is unchanged.
func deduct(left *schema.Size, parameters json.RawMessage) bool {
	size := schema.Anthropic.Measure(parameters)
	if size.Optional > left.Optional || size.Unions > left.Unions {
		return false
	}
	left.Optional -= size.Optional
	left.Unions -= size.Unions
	return true
}

// strictSchema returns the schema of a response format that is enforced, or nil.
func strictSchema(format json.RawMessage) json.RawMessage {
	wanted := wire.ParseView(format)
	if wanted.Get("type").Str != "json_schema" || !wanted.Get("json_schema.strict").Bool() {
		return nil
	}
	return wire.Bytes(wanted.Get("json_schema.schema"))
}

// LoosenAll returns the indexes of all strict functions, for a model that enforces no schema.
func LoosenAll(chat *provider.Chat) (functions []int, err error) {
	for i := range chat.Tools {
		if chat.Tools[i].Strict {
			functions = append(functions, i)
		}
	}
	return functions, nil
}
