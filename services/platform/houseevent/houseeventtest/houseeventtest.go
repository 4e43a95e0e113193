// Package houseeventtest checks the data of events against the schemas of package houseevent. Only tests import it.
package houseeventtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"switchyard.dev/services/platform/houseevent"
)

// Check reports data of an event that differs from the schema of its type, or has properties beside those of the schema.
func Check(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := Validate(name, data); err != nil {
		t.Errorf("data of %s: %v\n%s", name, err, data)
	}
}

// Validate returns how data differs from the schema of its type.
func Validate(name string, data []byte) error {
	e, ok := houseevent.Find(name)
	if !ok {
		return errors.New("no such type")
	}
	schema, err := compile(e.Schema)
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// compile compiles a schema that allows no properties but its own, and asserts formats.
func compile(text []byte) (*jsonschema.Schema, error) {
	var open map[string]json.RawMessage
	if err := json.Unmarshal(text, &open); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	closed := maps.Clone(open)
	closed["additionalProperties"] = json.RawMessage("false")
	text, err := json.Marshal(closed)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("event.json", document); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return compiler.Compile("event.json")
}
