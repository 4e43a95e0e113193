package anthropic

import (
	"encoding/json"
	"strconv"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/schema"
)

// inputSchemas is what the vendor requires of function schemas.
var inputSchemas = schema.Arguments{Required: true, NoUnion: true}

// InputSchema returns the schema of a tool's arguments in the form that Claude accepts.
func InputSchema(index int, tool *provider.Tool) (json.RawMessage, error) {
	field := "tools[" + strconv.Itoa(index) + "].function.parameters"
	parameters, err := inputSchemas.Fit(field, tool.Parameters)
	if err != nil || !tool.Strict {
		return parameters, err
	}
	return schema.Anthropic.Convert(field, parameters)
}
