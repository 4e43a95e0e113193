package schema

import (
	"encoding/json"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/jsoncheck"
)

// Arguments describes what a vendor requires of every schema of a function's arguments, enforced or not.
type Arguments struct {
	// Required reports whether every function must have a schema, and Listed whether the schema must have "properties".
	Required, Listed bool
	// NoUnion reports whether anyOf, oneOf, allOf and references are refused at the top level.
	NoUnion bool
}

// Fit returns a schema in the form that the vendor accepts: it adds the type object and, if Listed, empty properties
// where they are missing. Anything but a JSON object stays unchanged, for the vendor to refuse. field is the schema's
// path in the request.
func (a *Arguments) Fit(field string, parameters json.RawMessage) (json.RawMessage, error) {
	switch {
	case len(parameters) == 0 && !a.Required:
		return parameters, nil
	case len(parameters) == 0, string(parameters) == "null":
		parameters = json.RawMessage(`{}`)
	case !jsoncheck.Valid(parameters):
		return parameters, nil
	}
	root := wire.ParseView(parameters)
	if !root.IsObject() {
		return parameters, nil
	}
	has := make(map[string]gjson.Result)
	root.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "type", "properties":
			has[key.Str] = value
		case "anyOf", "oneOf", "allOf", "$ref":
			has["union"] = value
		}
		return true
	})
	if has["union"].Exists() {
		if a.NoUnion {
			return nil, provider.Unsupported(field, "this provider takes no anyOf, oneOf, allOf or $ref at the top level")
		}
		return parameters, nil
	}
	var missing []wire.Member
	if !has["type"].Exists() {
		missing = append(missing, wire.Member{Name: "type", Value: `"object"`})
	}
	if a.Listed && !has["properties"].Exists() && (!has["type"].Exists() || has["type"].Str == "object") {
		missing = append(missing, wire.Member{Name: "properties", Value: `{}`})
	}
	if missing == nil {
		return parameters, nil
	}
	return wire.Override(parameters, missing...), nil
}
